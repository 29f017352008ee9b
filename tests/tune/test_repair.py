"""What a repair saves of a storage of which one page is lost."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spectui.tune.studies.pages import Pages
from spectui.tune.studies.repair import repair
from tests.golden import commands_support as inside
from tests.golden.make_stored import STORED

PAGE = 4096
GARBAGE = (b"\xa5\x5a garbage " * PAGE)[:PAGE]
TABLES = (
    *("studies", "study_directions", "study_user_attributes"),
    *("trials", "trial_user_attributes", "trial_params"),
)


def rows_of(path: Path, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608 - of ours


def first_page(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        asked = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?"
        number: int = connection.execute(asked, (table,)).fetchone()[0]
    return number


def lose(path: Path, number: int) -> bytes:
    content = bytearray(path.read_bytes())
    content[(number - 1) * PAGE : number * PAGE] = GARBAGE
    path.write_bytes(content)
    return bytes(content)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own storage."""
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    path = tmp_path / "data" / "studies.sqlite3"
    path.parent.mkdir()
    inside.restored((STORED / "studies.sql").read_text("utf-8"), path)
    return path


@pytest.mark.parametrize("lost", [*TABLES, "the schema"])
def test_the_loss_of_a_first_page_costs_no_trial(file: Path, lost: str) -> None:
    before = {table: rows_of(file, table) for table in TABLES}
    broken = lose(file, 1 if lost == "the schema" else first_page(file, lost))
    said = "\n".join(repair(None, dry_run=False))
    assert "22 trials" in said
    assert "could be read only from single pages and indexes" in said or lost == "study_directions"
    assert "may be missing" in said
    (kept,) = file.parent.glob("*.damaged-*")
    assert kept.read_bytes() == broken
    after = {table: rows_of(file, table) for table in TABLES}
    if lost == "trials":
        # An index has their studies; states follow from values, and only times are lost.
        ids = [row[0] for row in before.pop("trials")]
        assert [row[0] for row in after.pop("trials")] == ids
    assert after == before


def test_lost_measurements_are_said(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM trial_user_attributes WHERE trial_id = 1")
        connection.commit()
    lose(file, first_page(file, "trial_user_attributes"))
    assert "of 1 trial what was measured is lost" in repair(None, dry_run=False)


VALUES = (None, 0, 1, -1, 127, -129, 1 << 20, -(1 << 40), 1 << 62, 1.5, 2.0, "x", "ü" * 40_000, b"")


@pytest.mark.parametrize("page_bytes", [512, 4096, 65_536])
def test_pages_hold_what_sqlite_reads(tmp_path: Path, page_bytes: int) -> None:
    path = tmp_path / "a.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        for table in ("a", "b"):
            connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, x, y)")
            for n in range(-200, 300):
                row = (n, VALUES[n % len(VALUES)], n * "z")
                connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", row)  # noqa: S608 - of ours
        # Pages that this frees still have the rows.
        connection.execute("DELETE FROM b WHERE id > 20")
        connection.commit()
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    pages = Pages(path.read_bytes())
    for table, other in (("a", "b"), ("b", "a")):
        found = [row for page in pages.rows([1, roots[other]]) for row in page]
        wanted = rows_of(path, table)
        assert [(number, *values[1:]) for number, values in sorted(found)] == wanted


def test_pages_of_garbage_end() -> None:
    # Each page is a table's, whose numbers lead to itself and out of the file.
    for kind in (5, 13):
        page = bytes([kind, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 1]) * PAGE
        content = b"SQLite format 3\0" + page[16:]
        assert not any(Pages(content[: 8 * PAGE]).rows([1]))
    assert not any(Pages(b"\x0d" + b"\xff" * PAGE).rows([]))
