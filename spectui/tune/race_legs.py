"""Base of all ways to measure a race: legs in alternating order, and their results."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer, Pair
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
    off: Arm
    """Arm that the verdict compares with."""
    load: Callable[[Arm], None]
    """Makes an arm's draft the loaded one, and the target lie as it does with that."""
    on_pair: Callable[[Pair], None]
    """Told of every measured pair."""
    _n_legs: int = field(init=False, default=0)

    @abstractmethod
    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements of a finalist against off."""

    @abstractmethod
    def in_place(self, arm: Arm) -> tuple[Pair, ...]:
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
