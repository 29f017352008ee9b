"""``spectui report`` over real studies: of a search that ran here, and of earlier versions."""

import getpass
import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.test_cli_studies import TUNED
from tests.golden import commands_support as inside
from tests.golden.make_stored import STORED
from tests.report.pages import read_page
from tests.support.cli import Searched, Spectui

pytest_plugins = ["tests.support.fixtures", "tests.support.cli_fixtures"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to stand in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.slow
def test_a_page_of_a_search(study: Searched, spectui: Spectui, here: Path) -> None:
    reason = study.out.splitlines()[0]
    assert spectui("report") == 0, spectui.err
    assert spectui.out == ""
    path = here / "spectui-report-mine.html"
    assert spectui.err.startswith(f"written to {path.name} (")
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text("utf-8")
    page = read_page(text)
    assert reason in page.text
    titles = {one.text for one in page.all("h2")}
    assert {"How sure is it?", "Machine, models and versions"} <= titles
    commands = [one.text for one in page.all("code")]
    assert commands[0].startswith("llama-server -m ")
    assert any(one.startswith("spectui verify mine ") for one in commands)
    assert spectui("report", "mine", "-o", "-") == 0
    assert (spectui.out, spectui.err) == (text, "")


PRIVATE = "Tell nobody about the merger with Initech."
CATEGORY = "initech-merger"


@pytest.mark.slow
def test_a_row_and_an_issue_tell_nothing_private(
    spectui: Spectui, pair: list[object], tmp_path: Path, here: Path
) -> None:
    prompts = here / "secret-prompts.jsonl"
    lines = [{"id": f"client {n}", "category": CATEGORY, "prompt": PRIVATE[n:]} for n in range(6)]
    prompts.write_text("\n".join(map(json.dumps, lines)))
    drafts = ("--spec-type", "draft-simple", "--trials", 1)
    tuned = ("tune", *pair, "--prompts", prompts, *drafts, "--study", "acme-secret")
    assert spectui(*tuned) == 0, spectui.err
    for format_ in ("md", "row"):
        assert spectui("report", "--format", format_) == 0, spectui.err
        assert str(tmp_path) not in spectui.out
        assert "tiny-0.gguf" in spectui.out
        for private in (PRIVATE[6:], "client 1", os.uname().nodename, "acme-secret"):
            assert private not in spectui.out, private
        assert not re.search(rf"\b{re.escape(getpass.getuser())}\b", spectui.out)
    assert CATEGORY not in spectui.out
    assert "secret-prompts" not in spectui.out
    assert "/" not in spectui.out.splitlines()[-1]


@pytest.fixture
def file(home: Path) -> Path:
    """The storage of a user of an earlier version, where spectui's own is."""
    path = home / "data" / "studies.sqlite3"
    path.parent.mkdir(parents=True)
    inside.restored((STORED / "studies.sql").read_text("utf-8"), path)
    return path


@pytest.mark.usefixtures("file", "here")
def test_studies_of_an_earlier_version(spectui: Spectui) -> None:
    assert spectui("report", TUNED, "-o", "-") == 0, spectui.err
    page = read_page(spectui.out)
    assert page.one("h1").text
    assert "The command" in {one.text for one in page.all("h2")}
    for name in ("every-kind", "advice-off", "advice-model", "advice-of-an-older-version"):
        for format_ in ("html", "md", "row"):
            assert spectui("report", name, "--format", format_, "-o", "-") == 0, (name, spectui.err)


@pytest.mark.usefixtures("file", "here")
def test_a_use_that_is_wrong_is_told_in_a_sentence(spectui: Spectui, tmp_path: Path) -> None:
    wrong: tuple[tuple[int, tuple[object, ...]], ...] = (
        (3, ("nowhere",)),
        (3, ("advice-",)),
        (3, (TUNED, "-o", tmp_path / "none" / "a.html")),
        (3, (TUNED, "-o", tmp_path)),
        (2, (TUNED, "advice-model")),
        (2, (TUNED, "--format", "json")),
        (3, (TUNED, "--storage", "sqlite:////proc/none/s.sqlite3")),
    )
    for code, arguments in wrong:
        assert spectui("report", *arguments) == code, arguments
        assert spectui.err.count("\n") == 1, spectui.err
        assert spectui.out == ""
