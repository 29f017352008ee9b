"""Running a sweep: what fails is a row, what is interrupted goes on, how long it takes."""

from dataclasses import replace

import pytest

from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.page import text_of
from spectui.sweep.cells import Visit, VisitRecord, VisitState
from spectui.sweep.store import SweepStore
from spectui.sweep.summary import summarise
from spectui.sweep.sweep import Sweep
from spectui.sweep.tables import cells_table, remarks
from tests.support.machine import DISTURBED, seen_by_watches
from tests.support.sweep import (
    MACHINE,
    TASK,
    ScriptedMeasurer,
    cell,
    record,
    run_all,
    sweep,
)

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.usefixtures("home")

CELLS = [cell(2), cell(4), cell(8)]


def ran(one: Sweep, measurer: ScriptedMeasurer | None = None) -> list[VisitRecord]:
    """Run it, and return how its visits have ended."""
    with one.open():
        return run_all(one, measurer)


def test_all_cells_are_measured_in_their_order() -> None:
    one = sweep(2, 4, 8, repeats=2)
    assert set(one.cells) == set(CELLS)
    measurer = ScriptedMeasurer(one.setup)
    events = ran(one, measurer)
    assert [record.visit for record in one.records] == list(one.visits)
    assert measurer.taken == [visit.cell for visit in one.visits]
    assert [event.visit for event in events] == [*one.visits]
    assert {event.state for event in events} == {VisitState.COMPLETE}
    assert all(one.lossless is not None and one.lossless.lossless for one in events)


def test_a_defect_ends_it_and_is_told() -> None:
    one = sweep(2, 4, 8)
    measurer = ScriptedMeasurer(one.setup)
    defect = BadInputError("oops")
    defect.add_note("Traceback")
    measurer.fails = {one.visits[1].cell: defect}
    with pytest.raises(BadInputError) as caught:
        ran(one, measurer)
    assert caught.value is defect
    assert len(one.records) == 1


def test_an_interrupted_sweep_goes_on_where_it_was() -> None:
    one = sweep(2, 4, 8)
    measurer = ScriptedMeasurer(one.setup)
    measurer.interrupt_at = one.visits[1].cell
    with pytest.raises(KeyboardInterrupt):
        ran(one, measurer)
    assert [record.visit for record in one.records] == list(one.visits[:1])
    again = sweep(2, 4, 8)
    measurer = ScriptedMeasurer(again.setup)
    ran(again, measurer)
    assert len(again.records) == len(again.visits)
    assert measurer.taken == [visit.cell for visit in one.visits[1:]]


def test_failed_cells_are_rows_and_tried_again() -> None:
    one = sweep(2, 4, 8)
    measurer = ScriptedMeasurer(one.setup)
    measurer.fails = {CELLS[1]: DoesNotFitError("no room")}
    ran(one, measurer)
    failed = {record.visit.cell: record.error for record in one.records if record.error}
    assert failed == {CELLS[1]: "no room"}
    with (again := sweep(2, 4, 8)).open():
        assert [visit.cell for visit in again.pending] == [CELLS[1]]
    ran(again)
    assert {record.state for record in again.records} == {VisitState.COMPLETE}


def left(one: Sweep, measurer: ScriptedMeasurer) -> dict[str, list[float | None]]:
    """Estimates as visits start, and as they end."""
    found: dict[str, list[float | None]] = {"started": [], "ended": []}

    with one.open():
        one.run(
            measurer,
            on_begun=lambda _visit: found["started"].append(one.left_s()),
            on_ended=lambda _record: found["ended"].append(one.left_s()),
        )
    return found


def test_what_disturbed_a_cell_is_kept_with_it_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by_watches(monkeypatch, DISTURBED)
    one = sweep(2)
    ran(one)
    again = sweep(2)
    with again.open():
        kept = again.records
        summaries = again.summaries()
    assert [record.disturbance for record in kept] == [DISTURBED]
    document = again.document(summaries, (), interrupted=False)
    assert document["disturbance"]["disturbed_s"] == DISTURBED.disturbed_s
    brief = [entry["disturbance"] for entry in document["cells"]]
    assert [one["disturbed_s"] for one in brief] == [DISTURBED.disturbed_s]
    assert [cause["name"] for cause in brief[0]["causes"]] == [None, "cc1plus"]
    told = list(remarks(summaries))
    assert (
        "The machine was disturbed for 31 s of 1 min 00 s: another process (cc1plus) took "
        "40 % of a core for 31 s."
    ) in told
    assert "Meanwhile the machine slept for 12 min 00 s." in told
    assert [text_of(row[-1]) for row in cells_table(summaries).rows] == ["noise, disturbed"]


def test_a_log_of_before_says_nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by_watches(monkeypatch, DISTURBED)
    summaries = summarise([cell(2)], [record(cell(2))])
    document = sweep(2).document(summaries, (), interrupted=False)
    assert document["disturbance"] is None
    assert document["cells"][0]["disturbance_reason"] == "the machine was not watched"
    assert not any("disturbed" in text.lower() for text in remarks(summaries))


def test_the_estimate_follows_what_measured_cells_took() -> None:
    one = sweep(2, 4, 8)
    assert left(one, ScriptedMeasurer(one.setup)) == {
        "started": [None, 12, 6],
        "ended": [12, 6, 0],
    }
    other = sweep(2, 4, 8, name="t")
    measurer = ScriptedMeasurer(other.setup)
    measurer.fails = {other.visits[0].cell: DoesNotFitError("no room")}
    assert left(other, measurer)["ended"] == [None, 6, 0]


def test_other_cells_of_the_same_sweep_stay_in_it() -> None:
    one = sweep(2)
    with SweepStore(one.name, one.spec) as store:
        store.append(record(cell(32)))
    ran(one)
    assert {record.visit.cell for record in one.records} == {CELLS[0], cell(32)}
    assert [summary.cell for summary in one.summaries()] == CELLS[:1]


def test_what_does_not_fit_is_a_row() -> None:
    one = sweep(2, 5000)
    ran(one)
    errors = {record.visit.cell: record.error for record in one.records}
    assert errors[cell(2)] is None
    assert "decodes of 5001 tokens, which -c 4096 does not hold" in str(errors[cell(5000)])
    measurer = ScriptedMeasurer(one.setup)
    too_long = replace(TASK, prompt_length=4090)
    with pytest.raises(UsageError, match="do not fit in a context of 4096"):
        measurer.measure(Visit(cell=cell(2, task=too_long), repeat=0))


def test_prompts_have_the_length_of_the_task_and_drawn_outputs_are_not_compared() -> None:
    measurer = ScriptedMeasurer(sweep(2).setup)
    task = replace(TASK, prompt_length=16, temp=0.8)
    found = measurer.measure(Visit(cell=cell(2, task=task), repeat=0))
    assert {run.n_prompt_tokens for run in found.runs} == {16}
    assert found.lossless is None


def test_another_driver_begins_another_sweep() -> None:
    gpu = replace(MACHINE, gpus=("A GPU",))
    before, now = (replace(gpu, driver=version) for version in ("550.54", "560.28"))
    names = [sweep(2, name=None, machine=machine).name for machine in (before, before, now)]
    assert names[0] == names[1] != names[2]
