"""Which prompts choose a setting, and which text judges it; divided before anything is recorded.

The best of thousands of settings on a few prompts is partly the best for just these, and looks
better on them than it is: judged on the prompts that chose them, settings that gain 2 % were
advised as gaining more in a quarter of simulated searches. So no text does both.

The prompts are divided, each part with its share of every category. From ``FEWEST_FOR_BOTH``
prompts on, at least ``JUDGES`` of them judge, and the others choose; of fewer, ``MIN_PROMPTS`` do.
Where there are no more than these, all prompts are timed, and nothing is recommended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from random import Random

from spectui.measure.comparable import digest
from spectui.measure.statistics import MIN_PROMPTS
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem, Workload

TRIAL_PROMPTS = 8
"""Prompts of a trial, at most."""
JUDGES = 8
"""Prompts that judge, at least, where prompts are divided."""
FEWEST_FOR_BOTH = 12
"""Prompts of which some may choose and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The prompts of a search by what they do."""

    trial_items: tuple[WorkItem, ...]
    """Prompts of the recording and of every trial: they choose."""
    unseen: tuple[WorkItem, ...]
    """Prompts that no choice sees."""

    @property
    def basis(self) -> Basis:
        """Whether the unseen prompts are enough to judge."""
        return Basis.UNSEEN if len(self.unseen) >= MIN_PROMPTS else Basis.SAME

    @property
    def judges(self) -> tuple[WorkItem, ...]:
        """Prompts to race on where nothing is recorded."""
        return self.unseen if self.basis is Basis.UNSEEN else (*self.unseen, *self.trial_items)


def divide(workload: Workload, n_trial: int) -> Division:
    """Divide the prompts of a search, the same ones always in the same way.

    Args:
        workload: prompts of the search.
        n_trial: prompts that choose, at most.
    """
    items = workload.items
    n = len(items)
    n_judging = JUDGES if n >= FEWEST_FOR_BOTH else MIN_PROMPTS
    n_choosing = min(n_trial, n - n_judging if n > n_judging else max(1, n // 2))
    by_category = list(chain.from_iterable(_categories(items)))
    choosing = {
        item.id
        for index, item in enumerate(by_category)
        if (index + 1) * n_choosing // n > index * n_choosing // n
    }
    return Division(
        trial_items=in_turn(item for item in by_category if item.id in choosing),
        unseen=in_turn(item for item in by_category if item.id not in choosing),
    )


def mixed(items: Sequence[WorkItem]) -> tuple[WorkItem, ...]:
    """Items by chance, always the same, and one of each category after the other.

    So the first ones stand for all.
    """
    return in_turn(chain.from_iterable(_categories(items)))


def _categories(items: Sequence[WorkItem]) -> list[list[WorkItem]]:
    """The prompts of each category in an order by chance, which the prompts themselves seed."""
    chance = Random(digest([item.tokens for item in items]))  # noqa: S311 - not a secret
    return [chance.sample(alike, len(alike)) for alike in _alike(items)]


def _alike(items: Iterable[WorkItem]) -> list[list[WorkItem]]:
    found: dict[str, list[WorkItem]] = {}
    for item in items:
        found.setdefault(item.category, []).append(item)
    return list(found.values())


def in_turn(items: Iterable[WorkItem]) -> tuple[WorkItem, ...]:
    """One prompt of each category after the other, so that the first ones stand for all."""
    rows = zip_longest(*_alike(items))
    return tuple(item for item in chain.from_iterable(rows) if item is not None)
