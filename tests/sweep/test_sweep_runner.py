"""Running a sweep: what fails is a row, what is interrupted goes on, how long it takes."""

from collections.abc import Callable, Sequence
from itertools import count

import pytest

from spectui.errors import BadInputError, DoesNotFitError, HopelessError
from spectui.sweep.cells import Cell
from spectui.sweep.order import Visit, ordered
from spectui.sweep.pace import Pace
from spectui.sweep.record import VisitRecord, VisitState
from spectui.sweep.runner import Runner, SweepEvent, VisitEnded, VisitStarted
from spectui.sweep.store import SweepStore
from tests.support.sweep import ScriptedBackend, cell, off_cell, record

pytest_plugins = ["tests.support.cli_fixtures"]
pytestmark = pytest.mark.usefixtures("home")

CELLS = [off_cell(), cell(2), cell(4), cell(8)]


def runner(
    backend: ScriptedBackend,
    store: SweepStore,
    visits: Sequence[Visit],
    on_event: Callable[[SweepEvent], None] = lambda _event: None,
    *,
    retry_failed: bool = False,
) -> Runner:
    clock = count(0.0, 6.0)
    return Runner(
        backend,
        store,
        visits,
        pace=Pace(len(backend.items)),
        on_event=on_event,
        retry_failed=retry_failed,
        clock=lambda: next(clock),
    )


def test_all_cells_are_measured_in_their_order() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 2, seed=0)
    events: list[SweepEvent] = []
    with SweepStore("s", {}) as store:
        end = runner(backend, store, visits, events.append).run()
        assert not end.interrupted
        assert end.error is None
        assert [one.visit for one in store.records] == list(visits)
    assert backend.taken == [visit.cell for visit in visits]
    assert [event.number for event in events] == [n for n in range(1, 9) for _ in range(2)]


def test_a_cell_that_cannot_run_is_a_row_with_its_reason() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    backend.fails = {CELLS[1]: DoesNotFitError("no room")}
    with SweepStore("s", {}) as store:
        runner(backend, store, visits).run()
        states = {one.visit.cell: (one.state, one.error) for one in store.records}
    assert states.pop(CELLS[1]) == (VisitState.FAILED, "no room")
    assert {state for state, _error in states.values()} == {VisitState.COMPLETE}


def test_a_defect_ends_it_and_is_told() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    defect = BadInputError("oops")
    defect.add_note("Traceback")
    backend.fails = {visits[1].cell: defect}
    with SweepStore("s", {}) as store:
        assert runner(backend, store, visits).run().error is defect
        assert len(store.records) == 1


def test_an_interrupted_sweep_goes_on_where_it_was() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    backend.interrupt_at = visits[2].cell
    with SweepStore("s", {}) as store:
        assert runner(backend, store, visits).run().interrupted
        assert [one.visit for one in store.records] == list(visits[:2])
    again = ScriptedBackend()
    with SweepStore("s", {}) as store:
        runner(again, store, visits).run()
        assert len(store.records) == len(visits)
    assert again.taken == [visit.cell for visit in visits[2:]]


@pytest.mark.parametrize("moment", [VisitStarted, VisitEnded])
def test_whenever_it_is_stopped_that_was_no_attempt(moment: type[SweepEvent]) -> None:
    visits = ordered(CELLS[:2], 1, seed=0)
    with SweepStore("s", {}) as store:
        # An earlier run was killed in it.
        store.append(VisitRecord(visit=visits[0], state=VisitState.STARTED))

    class StoppedStore(SweepStore):
        def append(self, record: VisitRecord) -> None:
            super().append(record)
            if record.state is VisitState.STARTED and moment is VisitStarted:
                raise KeyboardInterrupt

    def stop(event: SweepEvent) -> None:
        if isinstance(event, VisitEnded):
            raise KeyboardInterrupt

    with StoppedStore("s", {}) as store:
        assert runner(ScriptedBackend(), store, visits, stop).run().interrupted
    with SweepStore("s", {}) as store:
        states = [one.state for one in store.records]
        assert states == ([VisitState.COMPLETE] if moment is VisitEnded else [])


def test_failed_cells_are_tried_again_when_asked_to() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    backend.fails = {CELLS[1]: DoesNotFitError("no room")}
    with SweepStore("s", {}) as store:
        runner(backend, store, visits).run()
        assert runner(ScriptedBackend(), store, visits).pending == ()
        again = runner(ScriptedBackend(), store, visits, retry_failed=True)
        assert [visit.cell for visit in again.pending] == [CELLS[1]]
        again.run()
        assert {one.state for one in store.records} == {VisitState.COMPLETE}


def test_anchors_that_disagree_mark_a_cell_noisy() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS[:2], 1, seed=0)
    backend.anchors = iter([10.0, 12.0, 10.0, 10.1])
    with SweepStore("s", {}) as store:
        runner(backend, store, visits).run()
        assert [one.noisy for one in store.records] == [True, False]


def test_an_estimate_is_there_before_anything_was_measured() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    with SweepStore("s", {}) as store:
        # 4 cells of 6 prompts, each 2 times 32 tokens at 10 tokens/s.
        assert runner(backend, store, visits).estimate_s() == pytest.approx(4 * 6 * 2 * 32 / 10)
        assert backend.taken == [off_cell()]


def test_what_cannot_run_gives_no_estimate_and_what_is_hopeless_ends_it() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    with SweepStore("s", {}) as store:
        backend.fails = {off_cell(): DoesNotFitError("no room")}
        assert runner(backend, store, visits).estimate_s() is None
        backend.fails = {off_cell(): HopelessError("no server")}
        with pytest.raises(HopelessError):
            runner(backend, store, visits).estimate_s()


def test_the_estimate_follows_what_cells_took() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    events: list[SweepEvent] = []
    with SweepStore("s", {}) as store:
        runner(backend, store, visits, events.append).run()
    assert [event.left_s for event in events if isinstance(event, VisitEnded)] == [18, 12, 6, 0]
    assert [event.left_s for event in events if isinstance(event, VisitStarted)][1:] == [18, 12, 6]


def test_a_failed_cell_says_nothing_of_how_long_others_take() -> None:
    backend, visits = ScriptedBackend(), ordered(CELLS, 1, seed=0)
    backend.fails = {visits[0].cell: DoesNotFitError("no room")}
    events: list[SweepEvent] = []
    with SweepStore("s", {}) as store:
        runner(backend, store, visits, events.append).run()
    ended = [event.left_s for event in events if isinstance(event, VisitEnded)]
    assert ended == [None, 12, 6, 0]


def test_other_cells_of_the_same_sweep_stay_in_it() -> None:
    first: list[Cell] = CELLS[:2]
    with SweepStore("s", {}) as store:
        store.append(record(cell(32)))
        runner(ScriptedBackend(), store, ordered(first, 1, seed=0)).run()
        assert {one.visit.cell for one in store.records} == {*first, cell(32)}
