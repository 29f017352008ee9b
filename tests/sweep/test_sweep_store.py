"""Sweeps as they are kept: whatever happens to the process, at most one cell is lost."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.sweep.store import SweepStore
from tests.support.disk import no_file_above
from tests.support.sweep import cell, failed, ngram_cell, record

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.usefixtures("home")

SPEC = {"machine": "this", "prompts": "those"}
RECORDS = (record(cell(4)), record(ngram_cell()), failed(cell(8)))


def written() -> Path:
    with SweepStore("s", SPEC) as store:
        for one in RECORDS:
            store.append(one)
        return store.path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(kept=st.floats(0, 1))
def test_a_file_cut_off_anywhere_loses_one_record_at_most(home: Path, kept: float) -> None:
    path = home / "data" / "sweeps" / "s" / "cells.jsonl"
    path.unlink(missing_ok=True)
    written()
    content = path.read_bytes()
    cut = content[: round(kept * len(content))]
    path.write_bytes(cut)
    n_whole = max(0, cut.count(b"\n") - 1)
    with SweepStore("s", SPEC) as store:
        assert store.records == RECORDS[:n_whole]
        store.append(record(cell(16)))
    with SweepStore("s", SPEC) as store:
        assert store.records == (*RECORDS[:n_whole], record(cell(16)))


def test_damaged_lines_and_those_of_visits_that_had_begun_are_passed_over() -> None:
    path = written()
    lines = path.read_bytes().splitlines(keepends=True)
    begun = lines[1].replace(b'"complete"', b'"started"')
    path.write_bytes(b"".join([*lines[:2], begun, b"\xff{]\n", *lines[3:]]))
    with SweepStore("s", SPEC) as store:
        assert store.records == (RECORDS[0], RECORDS[2])


def test_what_does_not_compare_is_refused() -> None:
    written()
    with pytest.raises(BadInputError, match="was measured with other prompts, so that"):
        SweepStore("s", {**SPEC, "prompts": "others"})
    with SweepStore("s", SPEC) as store:
        assert store.records == RECORDS


def test_beginning_anew_keeps_the_old_aside() -> None:
    path = written()
    old = path.read_bytes()
    for number in (1, 2):
        with SweepStore("s", SPEC, restart=True) as store:
            assert store.records == ()
        assert path.with_name(f"cells.{number}.jsonl").exists()
    assert path.with_name("cells.1.jsonl").read_bytes() == old


def test_one_process_at_a_time() -> None:
    with SweepStore("s", SPEC), pytest.raises(BadInputError, match="another spectui"):
        SweepStore("s", SPEC)
    SweepStore("s", SPEC).close()


def test_what_cannot_be_a_sweep_is_refused(home: Path) -> None:
    for name in ("", ".", "..", "a/b", "a\nb", "x" * 300):
        with pytest.raises(BadInputError, match="--name"):
            SweepStore(name, SPEC)
    path = home / "data" / "sweeps" / "s" / "cells.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("hello\n")
    with pytest.raises(BadInputError, match="no sweep"):
        SweepStore("s", SPEC)
    assert path.read_text() == "hello\n"


def test_what_has_no_room_is_told_once_and_leaves_no_half_line() -> None:
    path = written()
    before = path.read_bytes()
    with SweepStore("s", SPEC) as store, no_file_above(len(before) + 20):
        for _ in range(2):
            with pytest.raises(BadInputError, match=r"cannot be stored in .* \(File too large\)"):
                store.append(record(cell(16)))
    assert path.read_bytes() == before
    with SweepStore("s", SPEC) as store:
        store.append(record(cell(16)))
    with SweepStore("s", SPEC) as store:
        assert store.records == (*RECORDS, record(cell(16)))
