"""How the prompts of a race are divided into legs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer
from spectui.measure.workload import WorkItem
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.race import Race, RaceRuns
from tests.support.search import ScriptedMeasurer, items

ARM = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=6)))


class Open(ScriptedMeasurer):
    """On prompts that gain so differently that nothing is decided."""

    def decode(self, item: WorkItem, speculation: Speculation | None) -> GenerationResult:
        done, n = super().decode(item, speculation), item.tokens[-1]
        if speculation is None:
            return done
        return replace(done, decode_s=done.decode_s / (0.7, 1.0, 1.9, 1.2)[n % 4])

    def speedup(self, speculation: Speculation) -> float:
        del speculation
        return 1.0


def legs_of(n_items: int) -> list[int]:
    """How many prompts each leg of a race had."""
    measurer = cast("Measurer", Open())
    runs = RaceRuns(measurer, ARM, load=lambda _arm: None, on_pair=lambda _pair: None)
    measure, legs = runs.measure, list[int]()

    def noted(items: Sequence[WorkItem]) -> None:
        legs.append(len(items))
        measure(items)

    runs.measure = noted  # type: ignore[method-assign]
    alike = [replace(item, category="") for item in items(n_items)]
    Race(runs, alike, min_gain=0.02).run()
    return legs


def test_a_rest_that_is_too_short_for_a_look_belongs_to_the_leg_before() -> None:
    for n_items, expected in ((8, [8]), (19, [8, 11]), (20, [8, 8, 4]), (27, [8, 8, 11])):
        assert legs_of(n_items) == expected
