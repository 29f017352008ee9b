"""Trials: the setting that was tried beside off, and its results. Plain data of a study."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.measure.arm import Arm
from spectui.measure.measurer import NOTHING_DRAFTED, Pair


class TrialState(StrEnum):
    """State of a trial."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAIL = "fail"
    """The setting could not be measured, or its models do not fit; the record has the error."""
    INTERRUPTED = "interrupted"
    """The trial was stopped, or its process ended. Does not count as tried."""

    @classmethod
    def _missing_(cls, value: object) -> "TrialState | None":
        # As earlier versions kept what did not fit.
        return cls.FAIL if value == "pruned" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScore:
    """Score of the setting on one prompt of a trial."""

    prompt_id: str
    category: str
    n_tokens: int
    decode_s: float
    n_drafted: int
    n_accepted: int
    n_rounds: int | None
    """None where a server decoded, which does not report them."""


def score(pair: Pair) -> PromptScore:
    """The numbers of a prompt that the study keeps, without its text."""
    result = pair.speculative
    return PromptScore(
        prompt_id=pair.item.id,
        category=pair.item.category,
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
    speedup: float | None = None
    """Over the target alone on the same prompts, without an interval: for ranking. None where
    nothing was decoded."""
    anchor_tokens_per_s: float | None = None
    """Speed of the target alone around a trial of an earlier version, which measured a setting by
    itself, and off as well; such a trial has no speedup, and counts for nothing."""
    error: str | None = None
    log: tuple[str, ...] = ()
    """Last lines of llama.cpp's log where its process ended, as far as they are known."""

    @property
    def is_old(self) -> bool:
        """Whether an earlier version measured it."""
        return self.anchor_tokens_per_s is not None

    @property
    def is_tried(self) -> bool:
        """Whether it was measured, or cannot be."""
        return self.state in {TrialState.COMPLETE, TrialState.FAIL} and not self.is_old

    @property
    def tokens_per_s(self) -> float | None:
        """Over all its prompts, None if it did not complete."""
        seconds = sum(p.decode_s for p in self.prompts)
        return sum(p.n_tokens for p in self.prompts) / seconds if seconds else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted, None when nothing was drafted."""
        drafted = sum(p.n_drafted for p in self.prompts)
        return sum(p.n_accepted for p in self.prompts) / drafted if drafted else None

    def document(self) -> Json:
        """A trial as JSON."""
        reason = self.error or "it is not finished"
        was_measured = self.tokens_per_s is not None
        return {
            "number": self.number,
            "state": str(self.state),
            "source": "measured in the old way" if self.is_old else "measured",
            "params": self.arm.document(),
            **or_reason("tokens_per_s", self.tokens_per_s, reason),
            **or_reason("speedup", self.speedup, "off is not known" if was_measured else reason),
            **or_reason(
                "acceptance_rate", self.acceptance_rate, NOTHING_DRAFTED if was_measured else reason
            ),
            "error": self.error,
            **({"log": list(self.log)} if self.log else {}),
        }


LEFT = "its process ended before it was measured"
"""Error of a trial whose process has ended."""


def n_measured(records: Sequence[TrialRecord]) -> int:
    """Number of completed trials, without those given up or interrupted."""
    return sum(record.state is TrialState.COMPLETE for record in records)


def best_trial(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the completed trial with the largest speedup; None where none speculates."""
    measured = (
        one
        for one in records
        if one.state is TrialState.COMPLETE and not one.arm.is_off and one.speedup is not None
    )
    return max(measured, key=lambda one: one.speedup or 0.0, default=None)
