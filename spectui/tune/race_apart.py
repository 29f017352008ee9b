"""What a race measures where the target alone and a finalist cannot both be held ready.

Each change loads models, so every prompt of a leg is decoded by one of them, and then by the next.
The order turns round from leg to leg: it begins with what is loaded, and drift cancels.
"""

from collections.abc import Callable, Sequence

from spectui.engine.events import GenerationResult
from spectui.tune.measurement import Measurer, Pair
from spectui.tune.trials import Arm
from spectui.tune.workload import WorkItem


class ApartRuns:
    """Measures legs of a race, and keeps what was measured. Stands in for ``RaceRuns``."""

    def __init__(
        self,
        measurer: Measurer,
        arms: Sequence[Arm],
        *,
        off: Arm,
        load: Callable[[Arm], None],
        on_pair: Callable[[Pair], None],
    ) -> None:
        """Measure nothing yet. Arguments are those of ``RaceRuns``."""
        self._measurer = measurer
        self._off = off
        self._load = load
        self._on_pair = on_pair
        self._items: list[WorkItem] = []
        self._results: dict[Arm, list[GenerationResult]] = {arm: [] for arm in (off, *arms)}
        self._n_told = dict.fromkeys(arms, 0)
        self._n_legs = 0

    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """What was measured of a finalist, against off."""
        # An interrupt may have left one of them behind.
        both = zip(self._items, self._results[self._off], self._results[arm], strict=False)
        return tuple(Pair(item=item, baseline=off, speculative=on) for item, off, on in both)

    def in_place(self, _arm: Arm) -> tuple[Pair, ...]:
        """None: the target lies in one place."""
        return ()

    @property
    def n_items(self) -> int:
        """Prompts that were measured with a finalist at least."""
        return max(len(self._results[arm]) for arm in self._n_told)

    @property
    def n_pairs(self) -> int:
        """Runs of finalists that have one of off to be compared with."""
        return sum(len(self.pairs(arm)) for arm in self._n_told)

    def measure(self, arms: Sequence[Arm], _start: int, items: Sequence[WorkItem]) -> None:
        """Measure off and some of the finalists on the next prompts."""
        self._items += items
        order = [self._off, *arms]
        if self._n_legs % 2:
            order.reverse()
        self._n_legs += 1
        for arm in order:
            self._load(arm)
            self._measurer.warm_up(arm.speculation)
            for item in items:
                self._results[arm].append(self._measurer.decode(item, arm.speculation))
                self._tell()

    def _tell(self) -> None:
        """Tell of pairs that have become complete."""
        for arm, n_told in self._n_told.items():
            pairs = self.pairs(arm)
            for pair in pairs[n_told:]:
                self._on_pair(pair)
            self._n_told[arm] = len(pairs)
