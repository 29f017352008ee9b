"""What records amount to: sums, tables, CSV, Markdown, and a picture."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

import pytest

from spectui.sweep.drawing import MOST_BARS, draw
from spectui.sweep.record import VisitRecord
from spectui.sweep.summary import (
    Against,
    CellSummary,
    against_off,
    best_per_category,
    best_per_drafter,
    flattenings,
    summarise,
)
from spectui.sweep.tables import markdown, remarks, results_csv, sheets, summary_csv
from tests.support.sweep import PLACE, TASK, cell, failed, named, ngram_cell, off_cell, record

pytestmark = pytest.mark.slow

SPEEDS = {2: 1.1, 4: 1.3, 8: 1.31, 16: 1.0}


def summaries(*records: VisitRecord) -> tuple[CellSummary, ...]:
    cells = dict.fromkeys(one.visit.cell for one in records)
    return summarise(named(*cells), records)


def ladder(drafts: Sequence[str] = ("draft",)) -> tuple[CellSummary, ...]:
    return summaries(
        record(off_cell(), 1.0),
        *(record(cell(n, draft=draft), speed) for draft in drafts for n, speed in SPEEDS.items()),
    )


def test_sums_and_speedup_over_repeats() -> None:
    one = cell(4)
    found = summaries(record(one, 1.2), record(one, 1.4, repeat=1))[0]
    counters = found.counters
    assert (found.n_repeats, counters.n_drafted, counters.n_accepted) == (2, 320, 128)
    assert counters.acceptance_rate == pytest.approx(0.4)
    assert counters.mean_accepted_length == pytest.approx(1 + 128 / (16 * 24))
    assert found.speedup is not None
    assert (found.speedup.n_pairs, found.speedup.n_prompts) == (16, 8)
    assert found.speedup.estimate == pytest.approx(1.29, abs=0.02)


def test_fewer_than_six_prompts_have_no_interval_and_say_why() -> None:
    found = summaries(record(cell(4), n_prompts=5))
    assert found[0].speedup is not None
    assert found[0].speedup.low is None
    assert against_off(found[0].speedup) is Against.UNKNOWN
    assert any("at least 6 prompts, measured: 5" in told for told in remarks(found))


def test_what_is_not_told_apart_from_off_is_named() -> None:
    found = summaries(record(cell(2), 1.2), record(cell(4), 1.0), record(cell(8), 0.8))
    told = " ".join(remarks(found))
    assert "Faster than off: draft: max 2" in told
    assert "Not told apart from off (the interval holds 1): draft: max 4" in told
    assert "Slower than off: draft: max 8" in told


def test_what_is_faster_than_its_accepted_tokens_can_make_it_is_no_best() -> None:
    found = summaries(record(cell(2), 1.2), record(cell(4), 9.0))
    assert [row[-1] for row in sheets(found)[0].rows] == ["", "noise"]
    assert [one.cell for one in best_per_drafter(found).values()] == [cell(2)]
    assert {one.cell for one in best_per_category(found).values()} == {cell(2)}
    told = " ".join(remarks(found))
    assert (
        "Faster than the accepted tokens can make it, which is the machine's noise: draft" in told
    )
    assert "Faster than off: draft: max 2" in told


def test_a_failed_cell_is_a_row_with_its_reason() -> None:
    found = summaries(record(cell(2)), failed(cell(4), "no room"))
    assert [row[-1] for row in sheets(found)[0].rows] == ["", "failed"]
    assert any("no room" in told for told in remarks(found))
    assert "no room" in summary_csv(found)


def test_best_of_each_drafter_and_category() -> None:
    found = (*ladder(), *summaries(record(ngram_cell(), 1.05)))
    best = best_per_drafter(found)
    assert list(best) == ["draft", "ngram-simple"]
    assert best["draft"].cell == cell(8)
    categories = best_per_category(found)
    assert list(categories) == ["c0", "c1", "c2", "c3"]
    assert {one.cell for one in categories.values()} == {cell(8)}
    assert {run.category for run in categories["c1"].runs} == {"c1"}


def test_where_the_curve_flattens() -> None:
    found = {one.category: one for one in flattenings(ladder())}
    assert set(found) == {None, "c0", "c1", "c2", "c3"}
    assert (found[None].best, found[None].flattens_at) == (8, 4)


def test_columns_tell_what_names_do_not() -> None:
    longer = replace(TASK, prompt_length=512)
    found = summaries(record(cell(4)), record(cell(4, task=longer)))
    sheet = sheets(found)[0]
    assert sheet.headings[1] == "prompt"
    assert [row[1] for row in sheet.rows] == ["own", "512"]


def test_csv_has_a_row_per_cell_and_prompt() -> None:
    one, two = cell(4), ngram_cell()
    records = [record(one), record(one, repeat=1), record(two), failed(off_cell(), 'a "reason"')]
    cells = named(one, two, off_cell())
    rows = list(csv.DictReader(StringIO(results_csv(cells, records))))
    assert len(rows) == 3 * 8 + 1
    assert {row["draft-max"] for row in rows} == {"4", ""}
    assert rows[-1]["error"] == 'a "reason"'
    assert sum(int(row["n_drafted"] or 0) for row in rows) == 24 * 20


def test_markdown_tables_hold_any_name() -> None:
    found = summarise({cell(4): "a|b_c<d>"}, [record(cell(4))])
    text = markdown("t", ["f"], sheets(found), remarks(found), "x.svg")
    assert "| a\\|b\\_c\\<d\\> |" in text
    assert "![Speedups](x.svg)" in text


def test_ngram_drafters_that_draft_nothing_are_noise() -> None:
    one = record(ngram_cell(), 1.3)
    nothing = tuple(replace(run, on=replace(run.on, n_drafted=0, n_accepted=0)) for run in one.runs)
    found = summaries(replace(one, runs=nothing), record(cell(4), 1.1))
    assert list(best_per_drafter(found)) == ["draft"]
    assert {one.cell for one in best_per_category(found).values()} == {cell(4)}
    assert any("Nothing was drafted by ngram-simple" in told for told in remarks(found))


@pytest.mark.filterwarnings("error")
def test_the_picture_has_the_fastest_cells_with_their_names_in_full() -> None:
    assert draw(summaries(record(off_cell()), failed(cell(4)))) is None
    long = " ".join(["word"] * 40)
    drafts = [long, *(f"draft-{n}" for n in range(MOST_BARS))]
    found = summaries(*(record(cell(draft=name), 1 + 1 / len(name)) for name in drafts[1:]))
    found += summaries(record(cell(draft=long), 1.3, n_prompts=5))
    page = (draw(found) or b"").decode()
    assert "1 more in summary.csv" in page
    assert page.count("word") >= 40
    assert page.count("draft-") == MOST_BARS - 1
    assert (draw(found) or b"").decode() == page, "equal plots are equal files"


def test_files_tell_no_threads_where_the_machine_says_and_words_stand_left() -> None:
    found = summaries(record(cell(2)), record(cell(2, place=replace(PLACE, threads=1))))
    rows = list(csv.DictReader(StringIO(summary_csv(found))))
    assert [row["threads"] for row in rows] == ["", "1"]
    assert found[1].cell.place.text == "1 thread, KV f16"
    marks = markdown("s", [], sheets(found), [], None).splitlines()[5]
    assert marks.startswith("| --- | ---: |")
    assert marks.endswith("---: | --- |")
