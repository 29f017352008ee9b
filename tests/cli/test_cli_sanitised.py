"""Texts of others, on their way to a terminal, to logs and to tables."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from spectui.cli.display import Lines
from spectui.cli.output import complain, say, say_exactly
from spectui.cli.page import page_text, write_result
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.page import Paragraph, Table, Words

TITLE = "\x1b]0;title\x07"
COPIES = "a\x1b]52;c;aGk=\x07b\x9b31m\u202e"


def obeys(text: str) -> bool:
    """Whether a terminal would act on a text, beside breaking lines."""
    return any(
        one < " " or "\x7f" <= one <= "\x9f" or one == "\u202e" for one in text if one != "\n"
    )


@given(st.text())
def test_nothing_is_left_that_is_obeyed(text: str) -> None:
    assert not obeys(printable(text, keep="\n"))
    assert printable(printable(text)) == printable(text)


def test_what_is_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"error: {TITLE}{COPIES}\nsecond line, \x1b[1mbold\x1b[0m")
    said = capsys.readouterr().err
    assert not obeys(said)
    assert said.endswith("\nsecond line, ?[1mbold?[0m\n")


class Terminal(io.StringIO):
    """Stdout that is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_what_is_said_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Terminal()
    monkeypatch.setattr(sys, "stdout", page)
    say(f"a{TITLE}")
    assert page.getvalue() == "a?]0;title?\n"
    with pytest.raises(BadInputError, match="control characters"):
        say_exactly(TITLE)
    assert page.getvalue() == "a?]0;title?\n"


def test_reports_are_sanitised_in_files_too(capsys: pytest.CaptureFixture[str]) -> None:
    write_result({}, [f"prompt {COPIES}"], None)
    assert not obeys(capsys.readouterr().out)


def test_what_is_drawn() -> None:
    row = (COPIES, Paragraph(COPIES, style="bold"))
    assert not obeys(page_text([Table((TITLE, Words(TITLE)), [row], title=TITLE), TITLE]))


def test_progress_is_sanitised() -> None:
    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=60)
    Lines(console).say(f"{TITLE}{COPIES}")
    assert "]52" in page.getvalue()
    assert not obeys(page.getvalue())
