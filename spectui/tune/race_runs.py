"""Race measurements: finalists and off on the same prompts, in legs of alternating order.

Where a finalist's draft takes room from the target's experts, off is not measured beside it but
where it is fastest, without a draft. Both cannot be loaded at once, so all prompts of a leg are
decoded in one place of the target after the other. Where each change loads models, every prompt of
a leg is decoded by one setting, and then by the next. Where a server has several slots, blocks of
prompts take the place of single ones. The order turns round from leg to leg: it begins with what is
loaded, and drift cancels.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import groupby

from spectui.measure.arm import OFF, Arm
from spectui.measure.backend import again_after_a_death
from spectui.measure.measurer import Measurer, Pair, Timed, paired
from spectui.measure.workload import WorkItem


@dataclass(eq=False)
class RaceLegs:
    """Measures legs of a race, and keeps the results."""

    measurer: Measurer
    """Decodes."""
    arms: Sequence[Arm]
    """Finalists."""
    _: KW_ONLY
    off: Arm = OFF
    """Arm that the verdict compares with."""
    load: Callable[[Arm], None]
    """Makes an arm's draft the loaded one, and the target lie as it does with that."""
    on_pair: Callable[[Pair], None]
    """Told of every measured pair."""
    check_time: Callable[[int], None] = lambda _n: None
    """Asked before each prompt, with the number that a finalist has decoded; raises to end it."""

    def __post_init__(self) -> None:
        self._is_apart = self.measurer.n_beside_off == 0
        """Whether no setting is loaded beside off."""
        self._items: list[WorkItem] = []
        self._beside = defaultdict[Arm, list[Pair]](list)
        """Runs of finalists, each with the target alone as it lies beside the arm's draft."""
        self._alone = defaultdict[Arm, list[Timed]](list)
        """Runs of off on every prompt, as the target lies without a draft.

        Where nothing is loaded beside off, the finalists' runs as well.
        """
        self._n_told = Counter[Arm]()
        self._n_legs = 0

    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements of a finalist against off."""
        off = self._alone[self.off]
        # An interrupt may have left one of both sides behind.
        if self._is_apart:
            return tuple(paired(self._items, off, self._alone[arm]))
        if not self._is_moved(arm):
            return tuple(self._beside[arm])
        both = zip(self._beside[arm], off, strict=False)
        return tuple(replace(pair, baseline=alone, segments=()) for pair, (alone, _s) in both)

    def pairs_where_target_moved(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements against the target alone as it lies beside the arm's draft.

        Empty where that is no other place.
        """
        return tuple(self._beside[arm]) if self._is_moved(arm) else ()

    def _is_moved(self, arm: Arm) -> bool:
        return arm.layout != self.off.layout

    @property
    def n_items(self) -> int:
        """Prompts that were measured with a finalist at least."""
        runs = self._alone if self._is_apart else self._beside
        return max(len(runs[arm]) for arm in self.arms)

    @property
    def n_pairs(self) -> int:
        """Runs of finalists that have one of off to be compared with."""
        return sum(len(self.pairs(arm)) for arm in self.arms)

    def measure(self, arms: Sequence[Arm], start: int, items: Sequence[WorkItem]) -> None:
        """Measure some of the finalists, and off.

        Args:
            arms: finalists that still run.
            start: prompts that were measured before.
            items: the next ones.
        """
        self._items += items
        self._n_legs += 1
        # Each leg begins with what the one before has left loaded.
        for alike in list(self._loaded_together(arms))[:: 1 if self._n_legs % 2 else -1]:
            self.load(alike[0])
            for arm in alike:
                again_after_a_death(partial(self.measurer.warm_up, arm.speculation))
            size = self.measurer.n_streams
            for at in range(0, len(items), size):
                self.check_time(self.n_items)
                block = items[at : at + size]
                if self._is_apart or alike[0].is_off:
                    self._decode_alone(alike[0], block)
                else:
                    self._decode_beside(alike, block, -(-(start + at) // size))

    def _decode_alone(self, arm: Arm, block: Sequence[WorkItem]) -> None:
        def decode() -> list[Timed]:
            return list(self.measurer.decode_together(block, arm.speculation))

        self._alone[arm] += again_after_a_death(decode)
        for one in self.arms if self._is_apart else ():
            pairs = self.pairs(one)
            for pair in pairs[self._n_told[one] :]:
                self.on_pair(pair)
            self._n_told[one] = len(pairs)

    def _decode_beside(self, arms: Sequence[Arm], block: Sequence[WorkItem], turn: int) -> None:
        settings, off = [arm.speculation for arm in arms], self._alone[self.off]
        found = again_after_a_death(partial(self.measurer.blocks, block, settings, turn))
        if not self._is_moved(arms[0]) and len(off) == turn:
            off += [(pair.baseline, None) for pair in found[0]]
        for arm, pairs in zip(arms, found, strict=True):
            for pair in pairs:
                self._beside[arm].append(pair)
                self.on_pair(pair)

    def _loaded_together(self, arms: Sequence[Arm]) -> Iterator[list[Arm]]:
        """Finalists that one loaded draft serves: they share the runs without speculation.

        Off stands among them where no finalist runs in its place. There are no more of them than
        take turns with off.
        """
        if self._is_apart:
            yield from ([arm] for arm in (self.off, *arms))
            return

        def place(arm: Arm) -> tuple[bool, str, str]:
            # It begins where off lies.
            return self._is_moved(arm), arm.layout or "", arm.draft or ""

        running = list(arms)
        if all(map(self._is_moved, running)):
            running.append(self.off)
        for _place, alike in groupby(sorted(running, key=place), key=place):
            found = list(alike)
            size = self.measurer.n_beside_off or len(found)
            yield from (found[start : start + size] for start in range(0, len(found), size))
