"""Running a sweep: what fails is a row, what is interrupted goes on, how long it takes."""

from dataclasses import replace

import pytest

from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.page import text_of
from spectui.sweep.cells import Visit, VisitRecord, VisitState
from spectui.sweep.store import SweepStore
from spectui.sweep.summary import summarise
from spectui.sweep.sweep import Sweep
from spectui.sweep.tables import remarks, sheets
from tests.support.machine import DISTURBED, seen_by_watches
from tests.support.sweep import (
    MACHINE,
    TASK,
    ScriptedMeasurer,
    cell,
    named,
    off_cell,
    record,
    sweep,
)

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.usefixtures("home")

CELLS = [off_cell(), cell(2), cell(4), cell(8)]


def ran(one: Sweep, measurer: ScriptedMeasurer | None = None) -> list[VisitRecord]:
    """Run it, and return its events."""
    events: list[VisitRecord] = []
    with one.open():
        one.run(measurer or ScriptedMeasurer(one.setup), events.append)
    return events


def test_all_cells_are_measured_in_their_order() -> None:
    one = sweep(2, 4, 8, repeats=2)
    assert set(one.cells) == set(CELLS)
    measurer = ScriptedMeasurer(one.setup)
    events = ran(one, measurer)
    assert [record.visit for record in one.records] == list(one.visits)
    assert measurer.taken == [visit.cell for visit in one.visits]
    assert [event.visit for event in events] == [v for v in one.visits for _ in range(2)]
    assert {event.state for event in events[::2]} == {VisitState.STARTED}
    assert {event.state for event in events[1::2]} == {VisitState.COMPLETE}
    assert all(one.lossless is not None and one.lossless.lossless for one in events[1::2])


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
    measurer.interrupt_at = one.visits[2].cell
    with pytest.raises(KeyboardInterrupt):
        ran(one, measurer)
    assert [record.visit for record in one.records] == list(one.visits[:2])
    again = sweep(2, 4, 8)
    measurer = ScriptedMeasurer(again.setup)
    ran(again, measurer)
    assert len(again.records) == len(again.visits)
    assert measurer.taken == [visit.cell for visit in one.visits[2:]]


@pytest.mark.parametrize("moment", [VisitState.STARTED, VisitState.COMPLETE])
def test_whenever_it_is_stopped_that_was_no_attempt(
    moment: VisitState, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sweep(2)
    append = SweepStore.append

    def stopped(store: SweepStore, record: VisitRecord) -> None:
        append(store, record)
        if record.state is VisitState.STARTED and moment is VisitState.STARTED:
            raise KeyboardInterrupt

    def stop(event: VisitRecord) -> None:
        if event.state is VisitState.COMPLETE:
            raise KeyboardInterrupt

    monkeypatch.setattr(SweepStore, "append", stopped)
    with one.open(), pytest.raises(KeyboardInterrupt):
        one.run(ScriptedMeasurer(one.setup), stop)
    with SweepStore(one.name, one.spec) as store:
        states = [record.state for record in store.records]
        assert states == ([VisitState.COMPLETE] if moment is VisitState.COMPLETE else [])


def test_failed_cells_are_rows_and_tried_again_when_asked_to() -> None:
    one = sweep(2, 4, 8)
    measurer = ScriptedMeasurer(one.setup)
    measurer.fails = {CELLS[1]: DoesNotFitError("no room")}
    ran(one, measurer)
    failed = {record.visit.cell: record.error for record in one.records if record.error}
    assert failed == {CELLS[1]: "no room"}
    with (other := sweep(2, 4, 8)).open():
        assert other.pending == ()
    with (again := sweep(2, 4, 8, retry_failed=True)).open():
        assert [visit.cell for visit in again.pending] == [CELLS[1]]
    ran(again)
    assert {record.state for record in again.records} == {VisitState.COMPLETE}


def test_anchors_that_disagree_mark_a_cell_noisy() -> None:
    one = sweep(2)
    measurer = ScriptedMeasurer(one.setup)
    measurer.anchors = iter([10.0, 12.0, 10.0, 10.1])
    ran(one, measurer)
    assert [record.noisy for record in one.records] == [True, False]


def left(one: Sweep, measurer: ScriptedMeasurer) -> dict[str, list[float | None]]:
    """Estimates as visits start, and as they end."""
    found: dict[str, list[float | None]] = {"started": [], "ended": []}

    def tell(event: VisitRecord) -> None:
        key = "started" if event.state is VisitState.STARTED else "ended"
        found[key].append(one.left_s())

    with one.open():
        one.run(measurer, tell)
    return found


def test_what_disturbed_a_cell_is_kept_with_it_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by_watches(monkeypatch, DISTURBED)
    one = sweep(2)
    ran(one)
    again = sweep(2)
    with again.open():
        kept = again.records
        summaries = again.summaries()
    assert [record.disturbance for record in kept] == [DISTURBED] * 2
    document = again.document(summaries, (), interrupted=False)
    assert document["disturbance"]["disturbed_s"] == 2 * DISTURBED.disturbed_s
    brief = [entry["disturbance"] for entry in document["cells"]]
    assert [one["disturbed_s"] for one in brief] == [DISTURBED.disturbed_s] * 2
    assert [cause["name"] for cause in brief[0]["causes"]] == [None, "cc1plus"]
    told = list(remarks(summaries))
    assert (
        "The machine was disturbed for 1 min 02 s of 2 min 00 s: another process (cc1plus) took "
        "40 % of a core for 1 min 02 s."
    ) in told
    assert "Meanwhile the machine slept for 24 min 00 s." in told
    assert [text_of(row[-1]).split(", ")[-1] for row in sheets(summaries)[0].rows] == [
        "disturbed"
    ] * 2


def test_a_log_of_before_says_nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    seen_by_watches(monkeypatch, DISTURBED)
    summaries = summarise(named(cell(2)), [record(cell(2))])
    document = sweep(2).document(summaries, (), interrupted=False)
    assert document["disturbance"] is None
    assert document["cells"][0]["disturbance_reason"] == "the machine was not watched"
    assert not any("disturbed" in text.lower() for text in remarks(summaries))


def test_the_estimate_follows_what_measured_cells_took() -> None:
    one = sweep(2, 4, 8)
    assert left(one, ScriptedMeasurer(one.setup)) == {
        "started": [None, 18, 12, 6],
        "ended": [18, 12, 6, 0],
    }
    other = sweep(2, 4, 8, name="t")
    measurer = ScriptedMeasurer(other.setup)
    measurer.fails = {other.visits[0].cell: DoesNotFitError("no room")}
    assert left(other, measurer)["ended"] == [None, 12, 6, 0]


def test_other_cells_of_the_same_sweep_stay_in_it() -> None:
    one = sweep(2)
    with SweepStore(one.name, one.spec) as store:
        store.append(record(cell(32)))
    ran(one)
    assert {record.visit.cell for record in one.records} == {*CELLS[:2], cell(32)}
    assert [summary.cell for summary in one.summaries()] == CELLS[:2]


def test_what_does_not_fit_is_a_row() -> None:
    one = sweep(2, 5000)
    ran(one)
    errors = {record.visit.cell: record.error for record in one.records}
    assert errors[off_cell()] is None
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


def test_another_driver_begins_another_sweep_but_for_those_that_did_not_keep_it() -> None:
    untold = replace(MACHINE, gpus=("A GPU",))
    before, now = (replace(untold, driver=version) for version in ("550.54", "560.28"))
    measured = sweep(2, name=None, machine=before)
    ran(measured)
    other = sweep(2, name=None, machine=now)
    assert other.name != measured.name
    assert not other.is_stored
    older = sweep(2, name=None, machine=untold)
    ran(older)
    again = sweep(2, name=None, machine=now)
    assert again.name == older.name
    with again.open():
        assert not again.pending
    assert sweep(2, name=None, machine=before).name == measured.name
