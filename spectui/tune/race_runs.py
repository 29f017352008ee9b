"""Race measurements: finalists and off on the same prompts, in legs of alternating order.

Where a finalist's draft takes room from the target's experts, off is not measured beside it but
where it is fastest, without a draft. Both cannot be loaded at once, so all prompts of a leg are
decoded in one place of the target after the other (``RaceRuns``). Where each change loads models,
every prompt of a leg is decoded by one setting, and then by the next (``ApartRuns``). Where a
server has several slots, blocks of prompts take the place of single ones. The order turns round
from leg to leg: it begins with what is loaded, and drift cancels.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TypeVar

from spectui.engine.events import GenerationResult
from spectui.measure.arm import OFF, Arm
from spectui.measure.backend import again_after_a_death
from spectui.measure.measurer import Measurer, Pair, Timed, paired
from spectui.measure.workload import WorkItem

T = TypeVar("T")


@dataclass(eq=False)
class RaceLegs(ABC):
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
    _n_legs: int = field(init=False, default=0)

    @abstractmethod
    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements of a finalist against off."""

    @abstractmethod
    def pairs_where_target_moved(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements against the target alone as it lies beside the arm's draft.

        Empty where that is no other place.
        """

    @property
    @abstractmethod
    def n_items(self) -> int:
        """Prompts that were measured with a finalist at least."""

    @property
    def n_pairs(self) -> int:
        """Runs of finalists that have one of off to be compared with."""
        return sum(len(self.pairs(arm)) for arm in self.arms)

    @abstractmethod
    def measure(self, arms: Sequence[Arm], start: int, items: Sequence[WorkItem]) -> None:
        """Measure some of the finalists, and off.

        Args:
            arms: finalists that still run.
            start: prompts that were measured before.
            items: the next ones.
        """

    def _in_turn(self, order: Sequence[T]) -> list[T]:
        """The order of the next leg, which begins with what the last one has left loaded."""
        self._n_legs += 1
        return list(order) if self._n_legs % 2 else list(reversed(order))


@dataclass(eq=False)
class RaceRuns(RaceLegs):
    """Measures by prompts, in one placement of the target after the other."""

    _pairs: defaultdict[Arm, list[Pair]] = field(
        init=False, default_factory=partial(defaultdict, list)
    )
    """Each with the target alone as it lies beside the arm's draft."""
    _off_runs: list[GenerationResult] = field(init=False, default_factory=list)
    """Runs of off on every prompt, as the target lies without a draft."""

    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements of a finalist against off."""
        if not self._is_moved(arm):
            return tuple(self._pairs[arm])
        # An interrupt may have left one of them behind.
        both = zip(self._pairs[arm], self._off_runs, strict=False)
        return tuple(replace(pair, baseline=off, segments=()) for pair, off in both)

    def pairs_where_target_moved(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements in the place beside the arm's draft; empty where that is off's."""
        return tuple(self._pairs[arm]) if self._is_moved(arm) else ()

    def _is_moved(self, arm: Arm) -> bool:
        return arm.layout != self.off.layout

    @property
    def n_items(self) -> int:
        """Prompts that were measured with a finalist at least."""
        return max(len(self._pairs[arm]) for arm in self.arms)

    def measure(self, arms: Sequence[Arm], start: int, items: Sequence[WorkItem]) -> None:
        """Measure some of the finalists, and off."""
        by_draft = self._in_turn(list(self._by_draft(arms)))
        for alike in by_draft:
            self.load(alike[0])
            for arm in alike:
                again_after_a_death(partial(self.measurer.warm_up, arm.speculation))
            self._measure_items(items, alike, start)

    def _measure_items(self, items: Sequence[WorkItem], arms: Sequence[Arm], start: int) -> None:
        settings = [arm.speculation for arm in arms]
        for turn, block in _blocks(items, self.measurer.n_streams, start):
            self.check_time(self.n_items)
            if arms[0].is_off:
                for item in block:
                    self._off_runs.append(
                        again_after_a_death(partial(self.measurer.decode, item, None))
                    )
                continue
            found = again_after_a_death(partial(self.measurer.blocks, block, settings, turn))
            if not self._is_moved(arms[0]) and len(self._off_runs) == turn:
                self._off_runs += [pair.baseline for pair in found[0]]
            for arm, pairs in zip(arms, found, strict=True):
                for pair in pairs:
                    self._pairs[arm].append(pair)
                    self.on_pair(pair)

    def _by_draft(self, arms: Sequence[Arm]) -> Iterator[list[Arm]]:
        """Finalists that one loaded draft serves: they share the runs without speculation.

        Off stands among them where no finalist runs in its place. There are no more of them than
        take turns with off.
        """

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


@dataclass(eq=False)
class ApartRuns(RaceLegs):
    """Measures by one after the other."""

    _items: list[WorkItem] = field(init=False, default_factory=list)
    _timed: defaultdict[Arm, list[Timed]] = field(
        init=False, default_factory=partial(defaultdict, list)
    )
    _n_told: Counter[Arm] = field(init=False, default_factory=Counter)

    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements of a finalist against off."""
        # An interrupt may have left one of them behind.
        return tuple(paired(self._items, self._timed[self.off], self._timed[arm]))

    def pairs_where_target_moved(self, _arm: Arm) -> tuple[Pair, ...]:
        """None: the target lies in one place."""
        return ()

    @property
    def n_items(self) -> int:
        """Prompts that were measured with a finalist at least."""
        return max(len(self._timed[arm]) for arm in self.arms)

    def measure(self, arms: Sequence[Arm], _start: int, items: Sequence[WorkItem]) -> None:
        """Measure off and some of the finalists on the next prompts."""
        self._items += items
        for arm in self._in_turn([self.off, *arms]):
            self.load(arm)
            self.measurer.warm_up(arm.speculation)
            for _turn, block in _blocks(items, self.measurer.n_streams, 0):
                self.check_time(self.n_items)
                self._timed[arm] += self.measurer.decode_together(block, arm.speculation)
                self._tell()

    def _tell(self) -> None:
        """Emit events of pairs that have become complete."""
        for arm in self.arms:
            pairs = self.pairs(arm)
            for pair in pairs[self._n_told[arm] :]:
                self.on_pair(pair)
            self._n_told[arm] = len(pairs)


def _blocks(
    items: Sequence[WorkItem], size: int, start: int
) -> Iterator[tuple[int, Sequence[WorkItem]]]:
    """Prompts by blocks, each with its number; ``start`` prompts went before."""
    for at in range(0, len(items), size):
        yield -(-(start + at) // size), items[at : at + size]


def legs_of(measurer: Measurer) -> type[RaceLegs]:
    """Legs of a race as they suit what measures."""
    return ApartRuns if measurer.n_beside_off == 0 else RaceRuns
