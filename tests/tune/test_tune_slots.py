"""The winner with other numbers of slots: what is measured, left out, and kept of a failure."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat

import pytest

from spectui.errors import ServerError
from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair, measurements
from spectui.measure.server_backend import ServerBackend, result_of
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import Answer, Basis, Verdict
from spectui.tune.pace import Spent
from spectui.tune.result import TuneResult
from spectui.tune.slots import SlotsMeasured, measure_slots
from tests.support.streams import ITEMS, ON, WORKLOAD, Recorded, backend, completion

PAIRS = tuple(
    Pair(
        item=item,
        baseline=result_of(completion(is_on=False), 1, redoes_rounds=False),
        speculative=result_of(completion(is_on=True), 1, redoes_rounds=False),
    )
    for item in ITEMS
)
"""2.3 s each, prompts included: 16.1 s."""
RESULT = TuneResult(
    trials=(),
    best=Arm(draft=None, speculation=ON),
    pairs=PAIRS,
    speedup=paired_speedup(measurements(PAIRS)),
    verdict=Verdict(use_speculation=True, reason="Use it."),
    lossless=None,
    interrupted=False,
    error=None,
    spent=Spent(budget_s=None, took_s=1.0, n_trials=2, n_tried=2, ended_trials=False),
)


def slots(
    *numbers: int,
    result: TuneResult = RESULT,
    left_s: float | Iterator[float] = math.inf,
    fails: BaseException | None = None,
) -> SlotsMeasured:
    def opened(n_slots: int) -> ServerBackend:
        if fails is not None:
            raise fails
        return backend(Recorded(keeps_off=True), n_slots)

    return measure_slots(
        result,
        WORKLOAD,
        numbers,
        opened,
        min_gain=0.02,
        on_run=lambda _run: None,
        left_s=lambda: left_s if isinstance(left_s, float) else next(left_s),
    )


def test_the_race_stands_first() -> None:
    found = slots(1, 2, 4)
    assert [one.n_slots for one in found.results] == [1, 2, 4]
    assert found.results[0].found.pairs == PAIRS
    assert [one.all_tokens_per_s[0] for one in found.results[1:]] == [2 * 11 / 2.0, 4 * 11 / 2.0]
    assert (found.left_out, found.ended) == ((), None)


def test_prompts_that_chose_the_setting_decide_nothing_with_any_number_of_slots() -> None:
    judged = replace(RESULT.verdict, basis=Basis.SAME)
    found = slots(1, 2, result=replace(RESULT, verdict=judged))
    assert {one.basis for one in found.results} == {Basis.SAME}
    assert {one.answer for one in found.results} == {Answer.UNDECIDED}
    assert all(one.clause.endswith(", not decided") for one in found.results)
    judged = replace(RESULT.verdict, basis=Basis.UNSEEN)
    found = slots(1, 2, result=replace(RESULT, verdict=judged))
    assert {one.answer for one in found.results} == {Answer.USE}


def test_one_slot_that_nobody_asked_for_is_no_result() -> None:
    assert slots(1) == SlotsMeasured()
    assert slots(1, 2, result=replace(RESULT, speedup=None)) == SlotsMeasured()


@pytest.mark.parametrize(("left_s", "left_out"), [(16.0, (2, 4)), (17.0, ())])
def test_what_there_is_no_time_for_is_left_out(left_s: float, left_out: tuple[int, ...]) -> None:
    assert slots(1, 2, 4, left_s=left_s).left_out == left_out


def test_what_takes_longer_than_the_race_ends_with_the_budget() -> None:
    # Enough is left before it, and nothing after its first prompt.
    found = slots(1, 2, left_s=chain((17.0,), repeat(0.0)))
    assert [one.n_slots for one in found.results] == [1]
    assert found.left_out == (2,)
    found = slots(1, 2, left_s=chain((17.0,), repeat(1.0, 6), repeat(0.0)))
    assert [len(one.found.runs) for one in found.results] == [len(PAIRS), len(PAIRS)]


@pytest.mark.parametrize("ended", [KeyboardInterrupt(), ServerError("it broke")], ids=type)
def test_a_failure_costs_nothing_that_was_found(ended: BaseException) -> None:
    found = slots(2, 4, fails=ended)
    assert [one.n_slots for one in found.results] == [2]
    assert found.ended is ended
