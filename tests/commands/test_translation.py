"""Which dialect a command is in, and what of its words is put into today's, left or refused."""

import shlex
from pathlib import Path

import pytest

from spectui.commands.finding import Severity
from spectui.commands.items import divide, words_of
from spectui.commands.launch import translated
from spectui.commands.lint.checking import check, lint
from spectui.commands.programs import recognise
from spectui.commands.reader import Reader
from spectui.commands.sources.reading import read_command
from spectui.errors import BadInputError
from spectui.options.option import Dialect
from tests.support.tables import rules, table


@table(
    ("dialect", "text"),
    [
        (Dialect.IK, "-m t -md d --spec-type draft-simple"),
        (Dialect.LEGACY, "-m t -md d --draft-max 4"),
        (Dialect.LEGACY, "-m t"),
        (Dialect.LLAMA_CPP, "-m t -rtr"),
    ],
)
def test_no_whole_command_is_put_into_another_dialect(dialect: Dialect, text: str) -> None:
    with pytest.raises(BadInputError, match=f"does not translate whole commands to {dialect};"):
        translated(read_command(text), Reader(dialect=dialect))


def test_what_may_be_of_any_dialect_is_written_for_the_one_asked_for() -> None:
    for dialect in (Dialect.LLAMA_CPP, Dialect.IK):
        text = "-m t -c 512"
        assert translated(read_command(text), Reader(dialect=dialect)).command.text.endswith(text)


def test_a_number_that_no_drafter_of_ik_reads_is_left_out() -> None:
    text = "-m t --draft-max 8 --draft-p-min 0.5 --spec-type ngram-simple"
    kept, left = translated(read_command(text), Reader(dialect=Dialect.IK)).notes
    assert kept.endswith("--draft-max 8 goes into --spec-type ngram-simple:n_max=8")
    assert left.startswith("left out, since ")
    assert left.endswith(": --draft-p-min 0.5")


READER = Reader()


def lengths(words: tuple[str, ...]) -> dict[str, str]:
    """What is said of drafts' lengths, less the shortest, which never changed."""
    names = ("draft-max", "draft-p-min", "size-n", "size-m", "n-max", "n-min")
    return {
        given.name: given.values[-1]
        for given in divide(words)
        if given.name.endswith(names) and given.name != "draft-min"
    }


@table(("drafting", "today"), rules()["lengths"])
def test_one_rule_for_all_who_ask(drafting: str, today: str) -> None:
    # What is the default today is left to the server.
    expected = dict(one.split("=") for one in today.split())
    command = read_command(f"llama-server -m t {drafting} -np 1")
    corrected = check(command, READER).corrected
    assert lengths(corrected.arguments) == expected, shlex.join(corrected.arguments)


OURS, IK = Dialect.LLAMA_CPP, Dialect.IK


def stops(text: str, dialect: Dialect) -> list[str]:
    """The options at which a server stops, by lint."""
    found = lint(read_command(text), Reader(dialect=dialect))
    return [one.flag for one in found if one.severity is Severity.ERROR]


def written(text: str, dialect: Dialect) -> str:
    """The arguments of the exported command."""
    launch = translated(read_command(text), Reader(dialect=dialect))
    return " ".join(words_of(launch.command.items))


@table(("text", "ours", "ik"), rules()["stops"])
def test_what_each_stops_at(text: str, ours: str, ik: str) -> None:
    assert " ".join(stops(text, OURS)) == ours
    assert ik in {"?", " ".join(stops(text, IK))}


@table(
    ("text", "dialect", "arguments"),
    [
        (
            "llama-server -hf a/b:Q4 -hff f.gguf -rtr -mla 3",
            IK,
            "-hfr a/b:Q4 -hff f.gguf -rtr -mla 3",
        ),
        ("llama-server -hf a/b:Q4 -hff f.gguf", OURS, "-hf a/b:Q4 -hff f.gguf"),
    ],
)
def test_what_is_written(text: str, dialect: Dialect, arguments: str) -> None:
    assert written(text, dialect) == arguments


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
