"""The winner of a search with other numbers of slots than that of its race."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from spectui.documents import Known
from spectui.errors import SpectuiError
from spectui.measure.arm import Arm
from spectui.measure.comparison import Comparison, compare
from spectui.measure.measurer import Run
from spectui.measure.server_backend import ServerBackend, measurer_of
from spectui.measure.slots import SlotResult, request_s
from spectui.measure.statistics import MIN_PROMPTS
from spectui.measure.workload import Workload
from spectui.monitor.watch import MachineWatch
from spectui.tune.result import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsMeasured:
    """Results by the number of slots, that of the race first."""

    results: tuple[SlotResult, ...] = ()
    left_out: tuple[int, ...] = ()
    """Numbers of slots that there was no time for."""
    ended: BaseException | None = None
    """The error that ended it early."""


def measure_slots(
    result: TuneResult,
    workload: Workload,
    numbers: Sequence[int],
    open_backend: Callable[[int], ServerBackend],
    *,
    min_gain: float,
    on_run: Callable[[Run], None],
    left_s: Callable[[], float],
) -> SlotsMeasured:
    """Measure the winner against off on the prompts of the race; nothing if none was confirmed.

    A failure or an interrupt ends it with what there is. Each number costs about as much time as
    the race did on these prompts, and is left out where less is left.

    Args:
        result: result of the search.
        workload: that of the search.
        numbers: numbers of slots; the first is that of the race.
        open_backend: opens servers with so many slots.
        min_gain: least gain with which speculation is worth it.
        on_run: told of every prompt.
        left_s: seconds left of the time budget.
    """
    best = result.best
    if best is None or result.speedup is None or tuple(numbers) == (1,):
        return SlotsMeasured()
    items = tuple(dict.fromkeys(replace(pair.item, sample=0) for pair in result.pairs))
    workload = replace(workload, items=items)
    judged = partial(SlotResult, min_gain=min_gain, basis=result.verdict.basis)
    found = [judged(n_slots=numbers[0], found=_race(result, workload))]
    left_out, ended = list[int](), None
    race_s = sum(sum(request_s(pair)) for pair in result.pairs) / numbers[0]
    try:
        for n_slots in numbers[1:]:
            if left_s() < race_s:
                left_out.append(n_slots)
                continue
            measured = _compared(open_backend(n_slots), best, workload, on_run, left_s)
            if left_s() <= 0 and len(measured.runs) < min(MIN_PROMPTS, len(items)):
                left_out.append(n_slots)
                continue
            found.append(judged(n_slots=n_slots, found=measured))
            if measured.ended is not None:
                ended = measured.ended
                break
    except (KeyboardInterrupt, SpectuiError) as error:
        ended = error
    return SlotsMeasured(results=tuple(found), left_out=tuple(left_out), ended=ended)


def _compared(
    backend: ServerBackend,
    best: Arm,
    workload: Workload,
    on_run: Callable[[Run], None],
    left_s: Callable[[], float],
) -> Comparison:
    """The winner against off on one backend."""
    backend.load(best.draft)
    return compare(
        measurer_of(backend, workload),
        best.speculation,
        repeats=1,
        on_run=on_run,
        watch=Known(MachineWatch(rpc=backend.rpc)),
        has_time=lambda: left_s() > 0,
    )


def _race(result: TuneResult, workload: Workload) -> Comparison:
    """The leader's race, as a comparison."""
    return Comparison(
        workload=workload,
        speculation=None if result.best is None else result.best.speculation,
        runs=result.pairs,
        speedup=result.speedup,
        lossless=result.lossless,
    )
