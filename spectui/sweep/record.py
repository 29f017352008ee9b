"""Measurements of a cell. Plain data without text, stored line by line."""

from dataclasses import dataclass
from enum import StrEnum

from spectui.measure.lossless import LosslessCheck
from spectui.measure.statistics import PairedMeasurement
from spectui.sweep.order import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One decoding of a prompt."""

    n_tokens: int
    """Number of tokens decoded in ``decode_s``: the first one came with the prompt."""
    decode_s: float
    n_drafted: int
    n_accepted: int
    n_rounds: int | None
    """None if a server does not report it."""
    output_sha256: str
    """SHA-256 of the token ids as decimal numbers, one per line."""

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
    """The run with speculation; in cells of the target alone, a second run without."""

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
    """Written before a visit begins: it remains if the process is ended by it."""
    COMPLETE = "complete"
    FAILED = "failed"
    """The cell could not be measured; the record says why."""
    INTERRUPTED = "interrupted"
    """The visit was stopped, and does not count as an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitRecord:
    """One line of a stored sweep."""

    visit: Visit
    state: VisitState
    runs: tuple[PromptRun, ...] = ()
    anchors_tokens_per_s: tuple[float, float] | None = None
    """Tokens/s of short runs of the target alone before and after."""
    noisy: bool = False
    """Whether the anchors disagree."""
    lossless: LosslessCheck | None = None
    """None with temperature, and if the target cannot be examined."""
    wall_s: float = 0.0
    """Seconds for the whole visit, including loading."""
    error: str | None = None
    of_server: bool = False
    """Whether a llama-server failed."""
