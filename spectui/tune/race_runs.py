"""Race measurements: a setting and off on the same prompts, in legs of alternating order.

Where the setting's draft takes room from the target's experts, off is not measured beside it but
where it is fastest, without a draft. Both cannot be loaded at once, so all prompts of a leg are
decoded in one place of the target after the other. Where each change loads models, every prompt of
a leg is decoded by one side, and then by the other. Where a server has several slots, blocks of
prompts take the place of single ones. The order turns round from leg to leg: it begins with what is
loaded, and drift cancels.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from spectui.measure.arm import OFF, Arm
from spectui.measure.backend import again_after_a_death
from spectui.measure.measurer import Measurer, Pair, Timed, paired
from spectui.measure.workload import WorkItem


@dataclass(eq=False)
class RaceRuns:
    """Measures legs of a race, and keeps the results."""

    measurer: Measurer
    """Decodes."""
    arm: Arm
    """The setting."""
    _: KW_ONLY
    off: Arm = OFF
    """Arm that the verdict compares with."""
    load: Callable[[Arm], None]
    """Makes an arm's draft the loaded one, and the target lie as it does with that."""
    on_pair: Callable[[Pair], None]
    """Told of every measured pair."""
    check_time: Callable[[int], None] = lambda _n: None
    """Asked before each prompt, with the number that were decoded; raises to end it."""

    def __post_init__(self) -> None:
        self._is_apart = self.measurer.n_beside_off == 0
        """Whether no setting is loaded beside off."""
        self._is_moved = self.arm.layout != self.off.layout
        """Whether the target lies otherwise beside the setting's draft."""
        self._items: list[WorkItem] = []
        self._beside: list[Pair] = []
        """Runs of the setting, each with the target alone in the same place."""
        self._off: list[Timed] = []
        """Runs of off in a place of its own."""
        self._on: list[Timed] = []
        """Runs of the setting where nothing is loaded beside off."""
        self._n_told = 0
        self._n_legs = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the setting against off."""
        # An interrupt may have left one of both sides behind.
        if self._is_apart:
            return tuple(paired(self._items, self._off, self._on))
        if not self._is_moved:
            return tuple(self._beside)
        both = zip(self._beside, self._off, strict=False)
        return tuple(replace(pair, baseline=alone, segments=()) for pair, (alone, _s) in both)

    @property
    def pairs_where_target_moved(self) -> tuple[Pair, ...]:
        """Paired measurements against the target alone as it lies beside the setting's draft.

        Empty where that is no other place.
        """
        return tuple(self._beside) if self._is_moved else ()

    @property
    def n_items(self) -> int:
        """Prompts that were measured with the setting."""
        return len(self._on if self._is_apart else self._beside)

    def measure(self, items: Sequence[WorkItem]) -> None:
        """Measure the next prompts with the setting and off."""
        start = self.n_items
        self._items += items
        self._n_legs += 1
        sides = (self.off, self.arm) if self._is_apart or self._is_moved else (self.arm,)
        # Each leg begins with what the one before has left loaded.
        for side in sides[:: 1 if self._n_legs % 2 else -1]:
            self.load(side)
            again_after_a_death(partial(self.measurer.warm_up, side.speculation))
            size = self.measurer.n_streams
            for at in range(0, len(items), size):
                self.check_time(self.n_items)
                block = items[at : at + size]
                if self._is_apart or side.is_off:
                    self._decode_alone(side, block)
                else:
                    self._decode_beside(block, -(-(start + at) // size))

    def _decode_alone(self, side: Arm, block: Sequence[WorkItem]) -> None:
        def decode() -> list[Timed]:
            return list(self.measurer.decode_together(block, side.speculation))

        runs = self._off if side.is_off else self._on
        runs += again_after_a_death(decode)
        if self._is_apart:
            for pair in self.pairs[self._n_told :]:
                self._n_told += 1
                self.on_pair(pair)

    def _decode_beside(self, block: Sequence[WorkItem], turn: int) -> None:
        decode = partial(self.measurer.block, block, self.arm.speculation, turn)
        for pair in again_after_a_death(decode):
            self._beside.append(pair)
            self.on_pair(pair)
