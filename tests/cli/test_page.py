"""Pages as data: what gives way on a narrow page, and that nothing in them is obeyed."""

import pytest

from spectui.cli.page import page_text
from spectui.page import Excerpt, Line, Paragraph, Part, Table, Words


def printed(part: Table | Excerpt, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    return page_text([part]).splitlines()


WIDE = Table(
    (Words("model", is_cut=True), "size", "layers"),
    [("a-long-name-of-a-model", "1 GB", "12"), ("a-long-name-of-a-midel", "2 GB", "24")],
    leaving={"layers": 10, "size": 10},
    left_out="--json has them.",
    captions={"size": "size: of the file", "layers": "layers: of the model"},
)


def test_columns_go_before_names_become_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(WIDE, 60, monkeypatch)[0].split() == ["model", "size", "layers"]
    assert "layers: of the model" in printed(WIDE, 60, monkeypatch)
    narrow = printed(WIDE, 22, monkeypatch)
    assert narrow[0].split() == ["model", "size"]
    told = " ".join(narrow[3:])
    assert told == "Left out for want of room: layers; --json has them. size: of the file"
    assert len({line.split()[0] for line in narrow[1:3]}) == 2


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
    parts: list[Part] = ["a\x1b[2Jb", Line("a\x1b[2Jb"), Paragraph("a\x1b[2Jb", style="bold")]
    assert page_text(parts).splitlines() == ["a?[2Jb"] * 3
