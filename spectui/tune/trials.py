"""Trials: the arm that ran, and its results. Plain data, stored with the study."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.measure.workload import WorkItem


class TrialState(StrEnum):
    """State of a trial."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAIL = "fail"
    """The setting could not be measured; the record says why."""
    PRUNED = "pruned"
    """The setting was not tried: its models do not fit. The record says by how much."""
    INTERRUPTED = "interrupted"
    """The trial was stopped, or its process ended. Does not count as tried."""

    @property
    def is_tried(self) -> bool:
        """Whether it was measured, or cannot be."""
        return self in {TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScore:
    """Score of one prompt in a trial."""

    prompt_id: str
    category: str
    n_tokens: int
    decode_s: float
    n_drafted: int
    n_accepted: int
    n_rounds: int | None
    """None where a server decoded, which does not tell."""


def score(item: WorkItem, result: GenerationResult) -> PromptScore:
    """Reduce a generation to what the study keeps; no text."""
    return PromptScore(
        prompt_id=item.id,
        category=item.category,
        n_tokens=result.n_decoded,
        decode_s=result.decode_s,
        n_drafted=result.counters.n_drafted,
        n_accepted=result.counters.n_accepted,
        n_rounds=result.counters.known_rounds,
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
    died: bool = False
    """Whether the process that measured it ended meanwhile."""
    log: tuple[str, ...] = ()
    """Last lines of llama.cpp's log where it did, as far as they are known."""

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

    def document(self, records: Sequence["TrialRecord"]) -> Json:
        """A trial as JSON; ``records`` are all of its study."""
        reason = self.error or "it is not finished"
        was_measured = self.tokens_per_s is not None
        no_speedup = "the off arm was not measured" if was_measured else reason
        nothing_drafted = NOTHING_DRAFTED if was_measured else reason
        return {
            "number": self.number,
            "state": str(self.state),
            "source": "measured",
            "params": self.arm.document(),
            **or_reason("tokens_per_s", self.tokens_per_s, reason),
            **or_reason("speedup", speedup_estimate(self, records), no_speedup),
            **or_reason("acceptance_rate", self.acceptance_rate, nothing_drafted),
            "noisy": self.noisy,
            "error": self.error,
            **({"died": True, "log": list(self.log)} if self.died else {}),
        }


LEFT = "its process ended before it was measured"
"""Error of a trial that nobody measures any more."""
_MOST_DEATHS = 2


def deadly(records: Sequence[TrialRecord]) -> frozenset[Arm]:
    """Arms whose process has ended twice while they were measured: they are tried no more.

    It may be the arm that ends the process, the one with the models or all of spectui. Not off:
    without it nothing can be compared, so that every run tries it once.
    """
    ended = (one.arm for one in records if one.died or one.error == LEFT)
    deaths = Counter(arm for arm in ended if not arm.is_off)
    return frozenset(arm for arm, n in deaths.items() if n >= _MOST_DEATHS)


def n_measured(records: Sequence[TrialRecord]) -> int:
    """Number of completed trials, without those given up or interrupted."""
    return sum(record.state is TrialState.COMPLETE for record in records)


def off_level(records: Sequence[TrialRecord]) -> float | None:
    """Mean relative throughput of the completed off trials; None without one.

    A noisy one may be off by any factor, and every estimate with it: where there is no other, the
    anchors stand in for it, which are of the target alone as well.
    """
    off = [one for one in records if one.arm.is_off and one.relative is not None]
    levels = [one.relative for one in off if one.relative and not one.noisy]
    if levels:
        return sum(levels) / len(levels)
    return 1.0 if off else None


def levelled(records: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    """Trials with anchors as if all had been run where the target lies without a draft.

    Anchors tell how fast the machine is at the time. With more experts in RAM the target alone is
    slower at any time, which must not pass for the machine's doing.
    """
    shares = _shares(records)
    return tuple(
        replace(one, anchor_tokens_per_s=one.anchor_tokens_per_s / shares[one.arm.layout])
        if one.anchor_tokens_per_s and one.arm.layout in shares
        else one
        for one in records
    )


def _shares(records: Sequence[TrialRecord]) -> dict[str | None, float]:
    """Speed of the target alone over its speed as off has it, by layout."""
    anchors: dict[str | None, list[float]] = {}
    for one in records:
        if one.anchor_tokens_per_s:
            anchors.setdefault(one.arm.layout, []).append(one.anchor_tokens_per_s)
    means = {layout: sum(values) / len(values) for layout, values in anchors.items()}
    homes = [means[one.arm.layout] for one in records if one.arm.is_off and one.relative]
    return {layout: mean / homes[0] for layout, mean in means.items()} if homes else {}


def speedup_estimate(record: TrialRecord, records: Sequence[TrialRecord]) -> float | None:
    """Throughput over the off arm's, drift taken out by the anchors. No interval: for ranking."""
    return _estimate(record, off_level(records), _shares(records))


def speedup_estimates(records: Sequence[TrialRecord]) -> list[float | None]:
    """The estimate of every trial."""
    level, shares = off_level(records), _shares(records)
    return [_estimate(one, level, shares) for one in records]


def _estimate(
    record: TrialRecord, level: float | None, shares: Mapping[str | None, float]
) -> float | None:
    if not (record.relative and level):
        return None
    if record.arm.is_off and record.noisy:
        return 1.0
    return record.relative * shares.get(record.arm.layout, 1.0) / level


def best_trial(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the fastest completed trial that speculates."""
    shares = _shares(records)
    candidates = [
        r
        for r in records
        if r.state is TrialState.COMPLETE and not r.arm.is_off and r.relative is not None
    ]
    return max(
        candidates, key=lambda r: (r.relative or 0.0) * shares.get(r.arm.layout, 1.0), default=None
    )
