"""What records amount to: sums, tables, CSV, Markdown, and a picture."""

import csv
from dataclasses import replace
from io import StringIO

import pytest

from spectui.page import heads
from spectui.sweep.cells import VisitRecord
from spectui.sweep.summary import CellSummary, fastest, summarise
from spectui.sweep.tables import (
    MOST_BARS,
    cells_table,
    markdown,
    remarks,
    speedups_svg,
    summary_csv,
)
from tests.support.sweep import PLACE, TASK, cell, failed, record

pytestmark = pytest.mark.slow


def summaries(*records: VisitRecord) -> tuple[CellSummary, ...]:
    return summarise(dict.fromkeys(one.visit.cell for one in records), records)


def test_sums_and_speedup_over_repeats() -> None:
    one = cell(4)
    found = summaries(record(one, 1.2), record(one, 1.4, repeat=1))[0]
    sums = found.totals
    assert (len(found.complete), sums.n_drafted, sums.n_accepted) == (2, 320, 128)
    assert sums.acceptance_rate == pytest.approx(0.4)
    assert found.rounds.mean_accepted_length == pytest.approx(1 + 128 / (16 * 24))
    assert found.speedup is not None
    assert (found.speedup.n_pairs, found.speedup.n_prompts) == (16, 8)
    assert found.speedup.estimate == pytest.approx(1.29, abs=0.02)


def test_remarks_and_notes_say_what_a_cell_is_worth() -> None:
    cells = (record(cell(2), 1.2), record(cell(4), 1.0), record(cell(8), 0.8))
    found = summaries(*cells, failed(cell(16), "no room"), record(cell(3), n_prompts=5))
    told = " ".join(remarks(found))
    assert "at least 6 prompts, measured: 5" in told
    assert found[4].speedup is not None
    assert found[4].speedup.low is None
    assert [row[-1] for row in cells_table(found).rows] == ["", "", "", "failed", ""]
    assert "no room" in told
    assert "no room" in summary_csv(found)


def test_what_is_faster_than_its_accepted_tokens_can_make_it_is_no_best() -> None:
    found = summaries(record(cell(2), 1.2), record(cell(4), 9.0))
    assert [row[-1] for row in cells_table(found).rows] == ["", "noise"]
    best = fastest(found)
    assert best is not None
    assert best.cell == cell(2)
    told = " ".join(remarks(found))
    assert "Fastest: draft: max 2, min 0, p_min 0.00. The best of 2 cells" in told
    assert "noise: faster than the accepted tokens can make it" in told


@pytest.mark.filterwarnings("error")
def test_the_picture_has_the_fastest_cells_with_their_names_in_full() -> None:
    assert speedups_svg(summaries(failed(cell(4)))) is None
    long = " ".join(["word"] * 40)
    drafts = [long, *(f"draft-{n}" for n in range(MOST_BARS))]
    found = summaries(*(record(cell(draft=name), 1 + 1 / len(name)) for name in drafts[1:]))
    found += summaries(record(cell(draft=long), 1.3, n_prompts=5))
    page = (speedups_svg(found) or b"").decode()
    assert "1 more in summary.csv" in page
    assert page.count("word") >= 40
    assert page.count("draft-") == MOST_BARS - 1
    assert (speedups_svg(found) or b"").decode() == page, "equal plots are equal files"


def test_tables_tell_what_names_do_not_and_hold_any_name() -> None:
    longer = replace(TASK, prompt_length=512)
    one_thread = cell(2, place=replace(PLACE, threads=1), task=longer)
    cells = [cell(2, draft="a|b_c<d>"), one_thread]
    found = summarise(cells, [record(one) for one in cells])
    table = cells_table(found)
    assert heads(table)[:3] == ["cell", "threads", "prompt"]
    assert [row[1:3] for row in table.rows] == [("auto", "own"), ("1", "512")]
    rows = list(csv.DictReader(StringIO(summary_csv(found))))
    assert [row["threads"] for row in rows] == ["", "1"]
    text = markdown("t", ["f"], table, [], "x.svg")
    assert "| a\\|b\\_c\\<d\\>: max 2" in text
    assert "![Speedups](x.svg)" in text
    marks = text.splitlines()[5]
    assert marks.startswith("| --- | ---: |")
    assert marks.endswith("---: | --- |")
