"""Measurements of a cell. Plain data without text, stored line by line."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.measure.lossless import LosslessCheck
from spectui.measure.measurer import Pair, sha256
from spectui.measure.observed import Observed, observed_of
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.sweep.cells import Visit

NO_ROUNDS = "no round was run, or the server does not tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRun(Observed):
    """One prompt of a cell; in cells of the target alone, both sides are without speculation."""

    n_prompt_tokens: int
    n_rounds: int | None
    """Rounds with speculation; None if a server does not report them."""
    outputs: tuple[str, str]
    """SHA-256 of the token ids without and with speculation, as decimal numbers, one per line."""
    whole_s: tuple[float, float] | None = None
    """Seconds of the whole requests beside others; None where it was decoded alone."""

    def document(self, repeat: int) -> Json:
        """The run in documents; ``repeat`` counts from 1."""
        measured, whole_s = self.measurement, self.whole_s
        names = ("off_request_s", "on_request_s")
        return {
            "repeat": repeat,
            "prompt": measured.prompt_id,
            "category": measured.category,
            "n_prompt_tokens": self.n_prompt_tokens,
            "off_n_tokens": measured.baseline_tokens,
            "off_decode_s": measured.baseline_s,
            "on_n_tokens": measured.speculative_tokens,
            "on_decode_s": measured.speculative_s,
            "n_drafted": self.n_drafted,
            "n_accepted": self.n_accepted,
            **or_reason("n_rounds", self.n_rounds, NO_ROUNDS),
            "off_output_sha256": self.outputs[0],
            "output_sha256": self.outputs[1],
            **({} if whole_s is None else dict(zip(names, whole_s, strict=True))),
        }


def runs_of(pairs: Sequence[Pair]) -> tuple[PromptRun, ...]:
    """The pairs that decoded something."""
    decoded = [pair for pair in pairs if pair.has_decoded]
    return tuple(map(_run, decoded, observed_of(decoded)))


def _run(pair: Pair, observed: Observed) -> PromptRun:
    return PromptRun(
        measurement=observed.measurement,
        n_drafted=observed.n_drafted,
        n_accepted=observed.n_accepted,
        digest=observed.digest,
        n_prompt_tokens=len(pair.item.tokens),
        n_rounds=pair.speculative.counters.known_rounds,
        outputs=(sha256(pair.baseline.tokens), sha256(pair.speculative.tokens)),
        whole_s=pair.whole_s,
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
    ended_at_once: tuple[str, ...] = ()
    """Prompts whose answer ended before anything was decoded."""
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
