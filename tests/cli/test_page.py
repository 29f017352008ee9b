"""Pages as data: what gives way on a narrow page, and that nothing in them is obeyed."""

import pytest

from spectui.cli.page import page_text
from spectui.page import Excerpt, Paragraph, Part, Table


def printed(part: Table | Excerpt, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return page_text([part]).splitlines()


def test_another_table_takes_the_place_of_one_that_is_too_wide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table(("a" * 20, "b" * 20), [("1", "2")], narrow=Table(("c",), [("3",)]))
    assert printed(table, 50, monkeypatch)[0].startswith("a")
    assert printed(table, 30, monkeypatch) == ["c", "3"]


def test_an_excerpt_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Excerpt(before="x" * 80, text="--draft 8", after="y", indent="  ")
    line, marks = printed(part, 40, monkeypatch)
    at = line.index("--draft 8")
    assert marks == " " * at + "^" * 9
    assert len(line) <= 40


def test_no_text_of_others_is_obeyed() -> None:
    parts: list[Part] = ["a\x1b[2Jb", Paragraph("a\x1b[2Jb"), Paragraph("a\x1b[2Jb", style="bold")]
    assert page_text(parts).splitlines() == ["a?[2Jb"] * 3
