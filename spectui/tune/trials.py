"""What a trial tried and what came of it. Plain data, stored with the study."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.config import SpeculationConfig
from spectui.engine.events import GenerationResult
from spectui.tune.workload import WorkItem


class TrialState(StrEnum):
    """How far a trial came."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAIL = "fail"
    """It could not be measured; the record says why."""
    INTERRUPTED = "interrupted"
    """It was stopped, or its process ended. Does not count as tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What a trial runs: a drafter with its settings, or nothing (the off arm)."""

    draft: str | None
    """Name of the candidate; None for off and for an n-gram drafter, which need no draft model."""
    speculation: SpeculationConfig | None

    @property
    def drafter(self) -> str:
        """Who drafts: the candidate, kinds of n-gram drafters, or off."""
        if self.speculation is None:
            return "off"
        return " + ".join(
            str(self.draft) if one.ngram is None else one.ngram.kind.value
            for one in self.speculation.chain
        )

    @property
    def label(self) -> str:
        """For tables and sentences."""
        if self.speculation is None:
            return "off"
        settings = "; ".join(filter(None, (one.summary for one in self.speculation.chain)))
        return f"{self.drafter}: {settings}" if settings else self.drafter


OFF = Arm(draft=None, speculation=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScore:
    """What one prompt took in a trial."""

    prompt_id: str
    category: str
    n_tokens: int
    decode_s: float
    n_drafted: int
    n_accepted: int
    n_rounds: int


def score(item: WorkItem, result: GenerationResult) -> PromptScore:
    """Reduce a generation to what the study keeps; no text."""
    return PromptScore(
        prompt_id=item.id,
        category=item.category,
        n_tokens=result.n_decoded,
        decode_s=result.decode_s,
        n_drafted=result.counters.n_drafted,
        n_accepted=result.counters.n_accepted,
        n_rounds=result.counters.n_rounds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One trial, as stored."""

    number: int
    state: TrialState
    arm: Arm
    prompts: tuple[PromptScore, ...] = ()
    anchor_tokens_per_s: float | None = None
    """Mean of the anchor runs before and after it."""
    noisy: bool = False
    """Whether the anchors around it disagreed, where there was time after a repetition as well."""
    error: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Over all its prompts, None if it did not complete."""
        seconds = sum(p.decode_s for p in self.prompts)
        return sum(p.n_tokens for p in self.prompts) / seconds if seconds else None

    @property
    def relative(self) -> float | None:
        """Throughput in units of the machine's own speed at that time."""
        if self.tokens_per_s is None or not self.anchor_tokens_per_s:
            return None
        return self.tokens_per_s / self.anchor_tokens_per_s

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted, None when nothing was drafted."""
        drafted = sum(p.n_drafted for p in self.prompts)
        return sum(p.n_accepted for p in self.prompts) / drafted if drafted else None


def n_measured(records: Sequence[TrialRecord]) -> int:
    """How many were measured, and not given up or interrupted."""
    return sum(record.state is TrialState.COMPLETE for record in records)


def off_level(records: Sequence[TrialRecord]) -> float | None:
    """Mean relative throughput of all completed off trials."""
    levels = [r.relative for r in records if r.arm == OFF and r.relative is not None]
    return sum(levels) / len(levels) if levels else None


def speedup_estimate(record: TrialRecord, records: Sequence[TrialRecord]) -> float | None:
    """Throughput over the off arm's, drift taken out by the anchors. No interval: for ranking."""
    level = off_level(records)
    return record.relative / level if record.relative and level else None


def best_trial(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the fastest completed trial that speculates."""
    candidates = [
        r
        for r in records
        if r.state is TrialState.COMPLETE and r.arm != OFF and r.relative is not None
    ]
    return max(candidates, key=lambda r: r.relative or 0.0, default=None)
