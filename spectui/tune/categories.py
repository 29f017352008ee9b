"""The confirmed setting's gain by category of prompt."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.documents import Json, or_reason
from spectui.measure.measurer import NOTHING_DRAFTED, Pair, measurements
from spectui.speculative.counters import Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryGain:
    """Prompts of one category."""

    category: str
    n_prompts: int
    speedup: float | None
    """Over off, as much text on both sides; None where nothing was decoded."""
    n_drafted: int
    n_accepted: int

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    def document(self) -> Json:
        """The category as JSON."""
        return {
            "category": self.category,
            "n_prompts": self.n_prompts,
            **or_reason("speedup", self.speedup, "nothing was decoded"),
            **or_reason("acceptance_rate", self.acceptance_rate, NOTHING_DRAFTED),
        }


def by_category(pairs: Sequence[Pair]) -> tuple[CategoryGain, ...]:
    """Gains of the setting that ``pairs`` compare with off, by category."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(pair.item.category, []).append(pair)
    return tuple(_gain(category, alike) for category, alike in found.items())


def _gain(category: str, pairs: Sequence[Pair]) -> CategoryGain:
    measured = measurements(pairs)
    off_s = sum(one.baseline_s * one.speculative_tokens / one.baseline_tokens for one in measured)
    on_s = sum(one.speculative_s for one in measured)
    rounds = sum((pair.speculative.counters for pair in pairs), Counters())
    return CategoryGain(
        category=category,
        n_prompts=len({pair.item.id for pair in pairs}),
        speedup=off_s / on_s if on_s else None,
        n_drafted=rounds.n_drafted,
        n_accepted=rounds.n_accepted,
    )
