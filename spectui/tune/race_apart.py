"""Race measurements where the target alone and a finalist cannot both be held ready.

Each change loads models, so every prompt of a leg is decoded by one of them, and then by the next.
The order turns round from leg to leg: it begins with what is loaded, and drift cancels.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair
from spectui.measure.workload import WorkItem
from spectui.tune.race_legs import RaceLegs


@dataclass(eq=False)
class ApartRuns(RaceLegs):
    """Measures by one after the other."""

    _items: list[WorkItem] = field(init=False, default_factory=list)
    _results: defaultdict[Arm, list[GenerationResult]] = field(
        init=False, default_factory=partial(defaultdict, list)
    )
    _n_told: Counter[Arm] = field(init=False, default_factory=Counter)

    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements of a finalist against off."""
        # An interrupt may have left one of them behind.
        both = zip(self._items, self._results[self.off], self._results[arm], strict=False)
        return tuple(Pair(item=item, baseline=off, speculative=on) for item, off, on in both)

    def in_place(self, _arm: Arm) -> tuple[Pair, ...]:
        """None: the target lies in one place."""
        return ()

    @property
    def n_items(self) -> int:
        """Prompts that were measured with a finalist at least."""
        return max(len(self._results[arm]) for arm in self.arms)

    def measure(self, arms: Sequence[Arm], _start: int, items: Sequence[WorkItem]) -> None:
        """Measure off and some of the finalists on the next prompts."""
        self._items += items
        order = self._in_turn([self.off, *arms])
        for arm in order:
            self.load(arm)
            self.measurer.warm_up(arm.speculation)
            for item in items:
                self._results[arm].append(self.measurer.decode(item, arm.speculation))
                self._tell()

    def _tell(self) -> None:
        """Emit events of pairs that have become complete."""
        for arm in self.arms:
            pairs = self.pairs(arm)
            for pair in pairs[self._n_told[arm] :]:
                self.on_pair(pair)
            self._n_told[arm] = len(pairs)
