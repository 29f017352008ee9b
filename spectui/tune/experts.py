"""Experts that a batch touches: counted on real text, compared with uniform routing."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from spectui.models.weights import WeightTraffic

BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SATURATED = 0.9
"""Share of the experts from which on more tokens hardly touch more."""

Routing = Sequence[Sequence[Sequence[int]]]
"""[n_layers][n_tokens][n_used]: numbers of the experts of consecutive tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchUnion:
    """Batches of one length."""

    n_tokens: int
    union: float
    """Experts that at least one of the tokens is routed to: mean over layers and batches."""
    lowest: float
    """Mean over batches in the layer that touches fewest."""
    highest: float
    uniform: float
    """Union if every token chose its experts at random: E·(1 - (1 - k/E)^n)."""
    cpu_bytes: float
    """Weights that such a batch reads from RAM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertUse:
    """Routing of a text to a model's experts."""

    n_experts: int
    n_used: int
    """Per token."""
    n_layers: int
    n_tokens: int
    batches: tuple[BatchUnion, ...]

    @property
    def saturation(self) -> int | None:
        """Shortest batch that touches nine tenths of the experts; None beyond the longest here."""
        full = _SATURATED * self.n_experts
        return next((one.n_tokens for one in self.batches if one.union >= full), None)


def expert_use(texts: Sequence[Routing], traffic: WeightTraffic) -> ExpertUse:
    """Count the experts of consecutive tokens, as a verified batch has them.

    Args:
        texts: at least one, each with at least one layer and token; batches do not cross from one
            text into the next.
        traffic: weights that the target's decodes read.
    """
    n_used = len(texts[0][0][0])
    longest = max(len(text[0]) for text in texts)
    return ExpertUse(
        n_experts=traffic.n_experts,
        n_used=n_used,
        n_layers=len(texts[0]),
        n_tokens=sum(len(text[0]) for text in texts),
        batches=tuple(_batch(texts, n, n_used, traffic) for n in BATCHES if n <= longest),
    )


def _batch(
    texts: Sequence[Routing], n_tokens: int, n_used: int, traffic: WeightTraffic
) -> BatchUnion:
    by_layer = [
        fmean(size for text in texts for size in _unions(text[layer], n_tokens))
        for layer in range(len(texts[0]))
    ]
    union, n_experts = fmean(by_layer), traffic.n_experts
    return BatchUnion(
        n_tokens=n_tokens,
        union=union,
        lowest=min(by_layer),
        highest=max(by_layer),
        uniform=n_experts * (1 - (1 - n_used / n_experts) ** n_tokens),
        cpu_bytes=traffic.cpu_dense_bytes + union / n_experts * traffic.cpu_expert_bytes,
    )


def _unions(tokens: Sequence[Sequence[int]], n_tokens: int) -> list[int]:
    """Distinct experts of every run of ``n_tokens``; runs overlap, so that none is left out."""
    starts = range(len(tokens) - n_tokens + 1)
    return [len(set().union(*tokens[start : start + n_tokens])) for start in starts]
