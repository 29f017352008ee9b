"""What a race measures: finalists and off, on the same prompts, wherever the target has to lie.

Where a finalist's draft takes room from the target's experts, off is not measured beside it but
where it is fastest, without a draft. Both cannot be loaded at once, so all prompts of a leg are
decoded in one place of the target after the other, and the order turns round from leg to leg, so
that drift cancels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from spectui.engine.events import GenerationResult
from spectui.tune.measurement import Measurer, Pair
from spectui.tune.trials import Arm
from spectui.tune.workload import WorkItem


class RaceRuns:
    """Measures legs of a race, and keeps what was measured."""

    def __init__(
        self,
        measurer: Measurer,
        arms: Sequence[Arm],
        *,
        off: Arm,
        load: Callable[[Arm], None],
        on_pair: Callable[[Pair], None],
    ) -> None:
        """Measure nothing yet.

        Args:
            measurer: decodes.
            arms: finalists.
            off: what the verdict compares with.
            load: makes an arm's draft the loaded one, and the target lie as it does with that.
            on_pair: told of every measured pair.
        """
        self._measurer = measurer
        self._off = off
        self._load = load
        self._on_pair = on_pair
        self._pairs: dict[Arm, list[Pair]] = {arm: [] for arm in arms}
        """Each with the target alone as it lies beside the arm's draft."""
        self._off_runs: list[GenerationResult] = []
        """Of every prompt, as the target lies without a draft."""
        self._n_legs = 0

    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """What was measured of a finalist, against off."""
        if not self._is_moved(arm):
            return tuple(self._pairs[arm])
        # An interrupt may have left one of them behind.
        both = zip(self._pairs[arm], self._off_runs, strict=False)
        return tuple(replace(pair, baseline=off) for pair, off in both)

    def in_place(self, arm: Arm) -> tuple[Pair, ...]:
        """The same against the target alone as it lies beside the arm's draft.

        Empty where that is no other place.
        """
        return tuple(self._pairs[arm]) if self._is_moved(arm) else ()

    def _is_moved(self, arm: Arm) -> bool:
        return arm.n_cpu_moe != self._off.n_cpu_moe

    @property
    def n_items(self) -> int:
        """Prompts that were measured with a finalist at least."""
        return max(map(len, self._pairs.values()))

    @property
    def n_pairs(self) -> int:
        """Runs of finalists that have one of off to be compared with."""
        return sum(len(self.pairs(arm)) for arm in self._pairs)

    def measure(self, arms: Sequence[Arm], start: int, items: Sequence[WorkItem]) -> None:
        """Measure some of the finalists, and off.

        Args:
            arms: finalists that still run.
            start: prompts that were measured before.
            items: the next ones.
        """
        by_draft = list(self._by_draft(arms))
        # It begins with what the last leg has left loaded.
        if self._n_legs % 2:
            by_draft.reverse()
        self._n_legs += 1
        for alike in by_draft:
            self._load(alike[0])
            for arm in alike:
                self._measurer.warm_up(arm.speculation)
            for turn, item in enumerate(items, start):
                self._measure_item(item, alike, turn)

    def _measure_item(self, item: WorkItem, arms: Sequence[Arm], turn: int) -> None:
        if arms[0].is_off:
            self._off_runs.append(self._measurer.decode(item, None))
            return
        pairs = self._measurer.block(item, [arm.speculation for arm in arms], turn)
        if not self._is_moved(arms[0]) and len(self._off_runs) == turn:
            self._off_runs.append(pairs[0].baseline)
        for arm, pair in zip(arms, pairs, strict=True):
            self._pairs[arm].append(pair)
            self._on_pair(pair)

    def _by_draft(self, arms: Sequence[Arm]) -> Iterator[list[Arm]]:
        """Finalists that one loaded draft serves: they share the runs without speculation.

        Off stands among them where no finalist runs in its place. There are no more of them than
        take turns with off.
        """

        def place(arm: Arm) -> tuple[int, str]:
            return arm.n_cpu_moe or 0, arm.draft or ""

        running = list(arms)
        if all(map(self._is_moved, running)):
            running.append(self._off)
        for _place, alike in groupby(sorted(running, key=place), key=place):
            found = list(alike)
            size = self._measurer.n_beside_off or len(found)
            yield from (found[start : start + size] for start in range(0, len(found), size))
