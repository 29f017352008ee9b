"""Prompts decoded without and with speculation as they are stored, and their sums. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spectui.documents import Json, or_reason
from spectui.measure.comparable import digest
from spectui.measure.measurer import NOTHING_DRAFTED, Pair
from spectui.measure.speedup import PairedMeasurement
from spectui.speculative.counters import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One prompt decoded without and with speculation, by spectui's own engine or by a server."""

    measurement: PairedMeasurement
    n_drafted: int
    n_accepted: int
    digest: str
    """Digest of the prompt's tokens: prompts of one name may change."""


def digest_of(tokens: Sequence[int]) -> str:
    """Sixteen characters that stand for a prompt, and do not reveal its text."""
    return digest(list(tokens))[:16]


def observed_of(pairs: Iterable[Pair]) -> tuple[Observed, ...]:
    """The pairs that decoded something."""
    return tuple(
        Observed(
            measurement=measurement,
            n_drafted=pair.speculative.counters.n_drafted,
            n_accepted=pair.speculative.counters.n_accepted,
            digest=digest_of(pair.item.tokens),
        )
        for pair in pairs
        if (measurement := pair.measurement) is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(Tally):
    """Sums over prompts, each decoded without and with speculation."""

    baseline_tokens: int
    baseline_s: float
    speculative_tokens: int
    speculative_s: float

    @property
    def baseline_tokens_per_s(self) -> float | None:
        """Decode throughput without speculation; None if nothing was decoded."""
        return self.baseline_tokens / self.baseline_s if self.baseline_s else None

    @property
    def tokens_per_s(self) -> float | None:
        """Decode throughput with it; None if nothing was decoded."""
        return self.speculative_tokens / self.speculative_s if self.speculative_s else None

    def document(self) -> Json:
        """The sums in documents."""
        return {
            "baseline": {
                "tokens_per_s": self.baseline_tokens_per_s,
                "n_tokens": self.baseline_tokens,
                "decode_s": self.baseline_s,
            },
            "speculative": {
                "tokens_per_s": self.tokens_per_s,
                "n_tokens": self.speculative_tokens,
                "decode_s": self.speculative_s,
                "n_drafted": self.n_drafted,
                "n_accepted": self.n_accepted,
                **or_reason("acceptance_rate", self.acceptance_rate, NOTHING_DRAFTED),
            },
        }


def totals(observed: Iterable[Observed]) -> Totals:
    """Sum up prompts, and repeats of them."""
    found = tuple(observed)
    measured = [one.measurement for one in found]
    return Totals(
        baseline_tokens=sum(one.baseline_tokens for one in measured),
        baseline_s=sum(one.baseline_s for one in measured),
        speculative_tokens=sum(one.speculative_tokens for one in measured),
        speculative_s=sum(one.speculative_s for one in measured),
        n_drafted=sum(one.n_drafted for one in found),
        n_accepted=sum(one.n_accepted for one in found),
    )
