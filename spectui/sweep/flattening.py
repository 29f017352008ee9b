"""Finds the draft length beyond which speedup flattens. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.sweep.cells import Place, Task
from spectui.sweep.summary import CellSummary, ranked, speedup_of

_ENOUGH = 0.98
"""Share of the best speedup beyond which a longer draft is not worth it."""
_FEWEST_LENGTHS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Flattening:
    """Point where speedup by ``draft_max`` flattens, for one drafter on one category."""

    drafter: str
    place: Place
    task: Task
    category: str | None
    """The category; None for all prompts."""
    by_length: Mapping[int, float]
    """Speedup by ``draft_max``."""

    @property
    def best(self) -> int:
        """The fastest ``draft_max``."""
        return max(self.by_length, key=self.by_length.__getitem__)

    @property
    def flattens_at(self) -> int:
        """The shortest ``draft_max`` with 98 % of the best one's speedup."""
        enough = _ENOUGH * self.by_length[self.best]
        return min(length for length, speedup in self.by_length.items() if speedup >= enough)


def flattenings(summaries: Sequence[CellSummary]) -> tuple[Flattening, ...]:
    """Flattenings per drafter, place and task with at least three measured draft lengths.

    Over all prompts and by category. Where several cells have the same length, the fastest counts.
    """
    found: dict[tuple[str, Place, Task, str | None], dict[int, float]] = {}
    for summary in ranked(summaries):
        cell, speculation = summary.cell, summary.cell.speculation
        for category, runs in (None, summary.runs), *summary.categories.items():
            speedup = speedup_of(runs)
            if speculation is None or speculation.model is None:
                continue
            if speedup is None or speedup.is_noise:
                continue
            key = (cell.arm.drafter, cell.place, cell.task, category)
            lengths, longest = found.setdefault(key, {}), speculation.model.draft_max
            lengths[longest] = max(lengths.get(longest, 0.0), speedup.estimate)
    return tuple(
        Flattening(
            drafter=drafter,
            place=place,
            task=task,
            category=category,
            by_length=dict(sorted(lengths.items())),
        )
        for (drafter, place, task, category), lengths in found.items()
        if len(lengths) >= _FEWEST_LENGTHS
    )
