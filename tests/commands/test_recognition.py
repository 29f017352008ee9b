"""The dialect that a command is written in."""

from pathlib import Path

import pytest

from spectui.commands.lint.checking import lint
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.commands.sources.reading import read_command
from spectui.commands.translation import translated
from spectui.options.dialect import Dialect
from spectui.severity import Severity
from tests.support.tables import rules, table

OURS, OLDER, IK = Dialect


@pytest.mark.usefixtures("home")
@table(("text", "dialect", "reason"), rules()["dialects"])
def test_the_dialect_of_a_command(text: str, dialect: str, reason: str) -> None:
    found = recognise(read_command(text))
    assert found.dialect == dialect, found
    assert found.reason.startswith(reason)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def stopped_at(text: str, dialect: Dialect) -> dict[str, str]:
    findings = lint(read_command(text), Reader(dialect=dialect))
    return {one.flag: one.why for one in findings if one.severity is Severity.ERROR}


def test_what_ik_takes_no_more_is_told_with_the_day() -> None:
    found = stopped_at("-m a -fmoe -ooae -lv 1 --log-prefix -mtp --draft-max 4 -gr -ger", IK)
    assert set(found) == {"-fmoe", "-ooae", "-lv", "--log-prefix", "-mtp", "--draft-max"}
    assert "since 2025-10-25 (commit 41d6c42b9)" in found["-fmoe"]
    assert "since 2025-10-20" in found["-ooae"]
    assert "since 2026-06-04" in found["--draft-max"]


def test_ik_reads_a_few_variables_and_behind_the_arguments() -> None:
    text = "LLAMA_ARG_CTX_SIZE=1 llama-server -m a -c 2 -rtr"
    findings = lint(read_command(text), Reader(dialect=IK))
    [why] = [one.why for one in findings if one.flag == "-c"]
    assert "takes its variables before arguments, so that this one does nothing" in why
    assert translated(read_command(text), Reader(dialect=IK)).arguments[-2:] == ("--ctx-size", "1")
