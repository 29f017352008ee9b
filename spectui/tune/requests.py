"""Whole requests with the setting that a race has found, from the prompts that it evaluated."""

from collections.abc import Sequence

from spectui.known import Known
from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair
from spectui.measure.reading import prompt_times
from spectui.measure.requests import Request, requests_of
from spectui.options.request import RequestShape
from spectui.tune.race import Standing

NO_RACE = "no setting was confirmed"


def raced_requests(
    standings: Sequence[Standing], shapes: Sequence[RequestShape]
) -> Known[tuple[Request, ...]]:
    """Requests of ``shapes`` with the leader.

    A prompt is evaluated once: by the target in the run of whichever finalist came first, and by
    the leader's draft in that of the first finalist that drafts with it.

    Args:
        standings: of the race, the leader first.
        shapes: lengths of the requests.
    """
    if not standings:
        return Known(None, NO_RACE)
    leader, *others = standings
    beside = [one for one in others if one.arm.n_cpu_moe == leader.arm.n_cpu_moe]
    alike = [one for one in beside if _reader(one.arm) == _reader(leader.arm)]
    times = prompt_times(
        leader.pairs,
        beside=_pairs(beside),
        alike=_pairs(alike),
        reads=_reader(leader.arm) is not None,
    )
    return requests_of(shapes, leader.speedup, leader.pairs, times)


def _reader(arm: Arm) -> str | None:
    """Who reads the prompt beside the target; None where no model drafts."""
    speculation = arm.speculation
    return arm.draft if speculation is not None and speculation.model is not None else None


def _pairs(standings: Sequence[Standing]) -> list[Pair]:
    return [pair for one in standings for pair in one.pairs]
