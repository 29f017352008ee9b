"""How the prompts of a race are divided into legs, and whom its looks send home."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.race import LOOK_EVERY, Race
from spectui.tune.race_runs import RaceLegs
from tests.support.search import ScriptedMeasurer, items

LEADER = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=6)))
RIVAL = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=7)))


class Open(ScriptedMeasurer):
    """Two settings on prompts that gain so differently that nothing is decided."""

    def __init__(self, ahead: float) -> None:
        super().__init__()
        self._ahead = ahead

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        """The rival is ahead by as much and 4 ‰ in the mean, on each other prompt by more."""
        done, n = super().decode(item, speculation), item.tokens[-1]
        if speculation is None:
            return done
        gain = (0.7, 1.0, 1.9, 1.2)[n % 4]
        if speculation == RIVAL.speculation:
            gain *= self._ahead + (0.004, -0.004)[n % 2]
        return replace(done, decode_s=done.decode_s / gain)

    def speedup(self, speculation: Speculation) -> float:
        del speculation
        return 1.0


def raced(n_items: int, *arms: Arm, ahead: float = 1.0) -> tuple[Race, list[int]]:
    """A race that was run, and how many prompts each of its legs had."""
    measurer = cast("Measurer", Open(ahead))
    runs = RaceLegs(measurer, arms, load=lambda _arm: None, on_pair=lambda _pair: None)
    measure, legs = runs.measure, list[int]()

    def noted(arms: Sequence[Arm], start: int, items: Sequence[WorkItem]) -> None:
        legs.append(len(items))
        measure(arms, start, items)

    runs.measure = noted  # type: ignore[method-assign]
    alike = [replace(item, category="") for item in items(n_items)]
    race = Race(runs, alike, min_gain=0.02)
    race.run()
    return race, legs


def test_a_rest_that_is_too_short_for_a_look_belongs_to_the_leg_before() -> None:
    for n_items, expected in ((8, [8]), (19, [8, 11]), (20, [8, 8, 4]), (27, [8, 8, 11])):
        assert raced(n_items, LEADER)[1] == expected


def test_a_rival_goes_home_where_it_is_not_ahead_by_the_least_gain() -> None:
    for ahead in (1.0, 0.9):
        leader, rival = raced(24, LEADER, RIVAL, ahead=ahead)[0].conclude()
        assert (leader.arm, leader.n_pairs) == (LEADER, 24)
        assert rival.n_pairs == LOOK_EVERY
