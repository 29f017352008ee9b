"""Measurements of a cell. Plain data without text, stored line by line."""

from dataclasses import dataclass
from enum import StrEnum

from spectui.sweep.order import Visit
from spectui.tune.lossless import LosslessCheck
from spectui.tune.statistics import PairedMeasurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One prompt, decoded once."""

    n_tokens: int
    """That ``decode_s`` paid for: the first one came with the prompt."""
    decode_s: float
    n_drafted: int
    n_accepted: int
    n_rounds: int | None
    """None where a server does not tell."""
    output_sha256: str
    """Of the token ids as decimal numbers, one per line."""

    @property
    def tokens_per_s(self) -> float | None:
        """Decode throughput; None if nothing was decoded."""
        return self.n_tokens / self.decode_s if self.n_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRun:
    """One prompt without and with speculation, one directly after the other."""

    prompt_id: str
    category: str
    n_prompt_tokens: int
    off: Decoded
    on: Decoded
    """Of a cell of the target alone, once more without."""

    @property
    def measurement(self) -> PairedMeasurement | None:
        """Seconds and tokens; None if the text ended before anything was decoded."""
        if not (self.off.n_tokens and self.on.n_tokens):
            return None
        return PairedMeasurement(
            prompt_id=self.prompt_id,
            category=self.category,
            baseline_s=self.off.decode_s,
            baseline_tokens=self.off.n_tokens,
            speculative_s=self.on.decode_s,
            speculative_tokens=self.on.n_tokens,
            n_accepted=self.on.n_accepted,
        )


class VisitState(StrEnum):
    """State of a visit."""

    STARTED = "started"
    """Written before it begins: one that ends the process leaves this."""
    COMPLETE = "complete"
    FAILED = "failed"
    """It could not be measured; the record says why."""
    INTERRUPTED = "interrupted"
    """It was stopped. Does not count as tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitRecord:
    """One line of a stored sweep."""

    visit: Visit
    state: VisitState
    runs: tuple[PromptRun, ...] = ()
    anchors_tokens_per_s: tuple[float, float] | None = None
    """Of short runs of the target alone before and after."""
    noisy: bool = False
    """Whether they disagree."""
    lossless: LosslessCheck | None = None
    """None with temperature, and where nobody can look into the target."""
    wall_s: float = 0.0
    """All that it took, loading included."""
    error: str | None = None
    of_server: bool = False
    """Whether it was a llama-server that failed."""
