"""Texts of others, on their way to a terminal, to logs and to tables."""

import csv
import io
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import Sanitised, drawn
from spectui.cli.failure import report_failure
from spectui.cli.output import complain, say, say_exactly, write_result
from spectui.cli.progress.lines import Lines
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.sweep.charts import Chart, Point
from spectui.sweep.drawing import draw
from spectui.sweep.tables import _written

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


def test_a_wrong_use_is_told_without_what_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report_failure(click.UsageError(f"no such option {TITLE}")) == 2
    assert capsys.readouterr().err == "Error: no such option ?]0;title?\n"


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
    write_result({}, f"prompt {COPIES}", None)
    assert not obeys(capsys.readouterr().out)
    write_result({}, "exact\x01", None, exact=True)
    assert capsys.readouterr().out == "exact\x01\n"


def test_what_is_drawn() -> None:
    table = Table(title=TITLE)
    table.add_row(COPIES, Text(COPIES, style="bold"))
    assert not obeys(drawn(table, Text(TITLE)))


def test_progress_is_sanitised() -> None:
    page = io.StringIO()
    console = Console(file=page, force_terminal=True, width=60)
    console.push_render_hook(Sanitised())
    Lines(console).say(f"{TITLE}{COPIES}")
    assert "]52" in page.getvalue()
    assert not obeys(page.getvalue())


def test_cells_are_no_formulas() -> None:
    values = ["=1+1", "+1", "-x", "@x", "\t=1", f"a{TITLE}", 1, -2.5, None, "plain"]
    rows = list(csv.reader(io.StringIO(_written([{"a": value} for value in values]))))
    assert [row[0] for row in rows[1:]] == [
        *("'=1+1", "'+1", "'-x", "'@x", "'\t=1", "a?]0;title?", "1", "-2.5", "", "plain"),
    ]


def test_plots_hold_names_as_they_are() -> None:
    points = tuple(Point(x=x, y=1.0, low=None, high=None) for x in (1.0, 2.0))
    panels = (("<b>$\\frac{$", {COPIES: points}),)
    page = draw(Chart(slug="a", title=f"$x_{{$ {TITLE}", panels=panels, x_label="a"), "svg")
    assert not obeys(page.decode())
    assert "$x_{$ ?]0;title?" in page.decode()
