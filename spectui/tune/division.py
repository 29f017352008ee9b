"""Which prompts choose a setting, and which text judges it; divided before anything is recorded.

The best of thousands of settings on a few prompts is partly the best for just these, and looks
better on them than it is: judged on the prompts that chose them, settings that gain 2 % were
advised as gaining more in a quarter of simulated searches. So no text does both.

The prompts are divided, each part with its share of every category. From ``FEWEST_FOR_BOTH``
prompts on, at least ``JUDGES`` of them judge alone, and the others choose. With fewer, those that
judge would be too few to decide much: of settings that gain 20 %, three of six prompts confirm a
third. Then fresh text is made of the half that chose as well: what follows the answers that it
chose on. What one prompt prefers may last beyond its first answer, so the race takes a higher level
of confidence there (``LATER_ERROR``). ``benchmarks/race_coverage.py`` simulates both.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from random import Random

from spectui.engine.events import GenerationResult
from spectui.measure.comparable import digest
from spectui.measure.statistics import MIN_PROMPTS
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem, Workload
from spectui.speculative.decoder import Stop

JUDGES = 8
"""Prompts that judge, at least, where prompts are divided."""
FEWEST_FOR_BOTH = 12
"""Prompts of which some may choose and nothing else."""
LATER_ERROR = 0.01
"""Error of an interval on later text, both sides. It leaves at least 95 % where half of what a
prompt prefers lasts: it was the reason for the choice, and looks like a gain for all prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The prompts of a search by what they do."""

    trial_items: tuple[WorkItem, ...]
    """Prompts of the recording and of every trial: they choose."""
    unseen: tuple[WorkItem, ...]
    """Prompts that no choice sees."""

    @property
    def takes_later_text(self) -> bool:
        """Whether the unseen prompts are too few to judge alone."""
        return len(self.unseen) < JUDGES

    @property
    def planned(self) -> tuple[WorkItem, ...]:
        """As many prompts as will judge, as far as that is known before the answers are."""
        return (*self.unseen, *self.trial_items) if self.takes_later_text else self.unseen

    def judged(
        self, written: Mapping[str, GenerationResult], *, n_predict: int, n_ctx: int
    ) -> tuple[tuple[WorkItem, ...], Basis]:
        """Text that no choice saw, or all prompts where there is too little of that.

        Args:
            written: what the target alone wrote of the trials' prompts, by prompt.
            n_predict: tokens that each text is continued by.
            n_ctx: tokens that there is room for.
        """
        if not self.takes_later_text:
            return self.unseen, Basis.UNSEEN
        later = [
            replace(item, tokens=item.tokens + written[item.id].tokens, n_prefix=len(item.tokens))
            for item in self.trial_items
            if item.id in written and written[item.id].stop is Stop.LENGTH
        ]
        fitting = [item for item in later if len(item.tokens) + n_predict + 1 <= n_ctx]
        items = (*self.unseen, *fitting)
        if len(items) < min(MIN_PROMPTS, len(self.planned)):
            return self.planned, Basis.SAME
        return items, Basis.LATER if fitting else Basis.UNSEEN


def divide(workload: Workload, n_trial: int, tried: Collection[str] = ()) -> Division:
    """Divide the prompts of a search, the same ones always in the same way.

    Args:
        workload: prompts of the search.
        n_trial: prompts that choose, at most.
        tried: names of the prompts that trials of the same study have measured; these choose.
    """
    items = workload.items
    n = len(items)
    n_choosing = min(n_trial, n - JUDGES if n >= FEWEST_FOR_BOTH else max(1, n // 2))
    by_category = list(chain.from_iterable(_categories(items)))
    choosing = {item.id for item in items if item.id in tried} or {
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
