"""Measurements of a cell. Plain data without text, stored line by line."""

from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.measure.lossless import LosslessCheck
from spectui.measure.speedup import PairedMeasurement
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.speculative.counters import Counters, Detail
from spectui.sweep.cells import Visit

NO_ROUNDS = "no round was run, or the server does not tell"


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
    request_s: float | None = None
    """Seconds of the whole request beside others; None where it was decoded alone."""

    @property
    def tokens_per_s(self) -> float | None:
        """Decode throughput; None if nothing was decoded."""
        return self.n_tokens / self.decode_s if self.n_tokens else None

    @property
    def counters(self) -> Counters:
        """The counts, as far as they are known."""
        return Counters(
            n_rounds=self.n_rounds or 0,
            n_drafted=self.n_drafted,
            n_accepted=self.n_accepted,
            detail=Detail.TOTALS if self.n_rounds is None else Detail.N_ROUNDS,
        )


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

    def document(self, repeat: int) -> Json:
        """The run in documents; ``repeat`` counts from 1."""
        return {
            "repeat": repeat,
            "prompt": self.prompt_id,
            "category": self.category,
            "n_prompt_tokens": self.n_prompt_tokens,
            "off_n_tokens": self.off.n_tokens,
            "off_decode_s": self.off.decode_s,
            "on_n_tokens": self.on.n_tokens,
            "on_decode_s": self.on.decode_s,
            "n_drafted": self.on.n_drafted,
            "n_accepted": self.on.n_accepted,
            **or_reason("n_rounds", self.on.n_rounds, NO_ROUNDS),
            "off_output_sha256": self.off.output_sha256,
            "output_sha256": self.on.output_sha256,
            **(
                {}
                if self.off.request_s is None
                else {"off_request_s": self.off.request_s, "on_request_s": self.on.request_s}
            ),
        }


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
    disturbance: DisturbanceSummary | None = None
    """Load of the rest of the machine meanwhile; None in logs of earlier versions, which did not
    watch it."""
    lossless: LosslessCheck | None = None
    """None with temperature, and if the target cannot be examined."""
    wall_s: float = 0.0
    """Seconds for the whole visit, including loading."""
    error: str | None = None
    of_server: bool = False
    """Whether a llama-server failed."""
