"""What the numbers promise, beside what was measured."""

from dataclasses import dataclass

from spectui.live.throughput import ratio
from spectui.speculative.counters import Counters
from spectui.speculative.expectation import (
    Loss,
    RoundModel,
    full_speedup,
    largest_loss,
    leviathan_speedup,
)

_ADVICE = {
    Loss.REJECTIONS: "were no draft rejected",
    Loss.DRAFT: "if drafting cost nothing",
    Loss.VERIFY: "if verifying cost one token",
    Loss.ROLLBACK: "if rollback cost nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestLoss:
    """The term that costs most."""

    term: Loss
    speedup_without: float
    """By the full estimate, if that term alone were ideal."""

    @property
    def condition(self) -> str:
        """When ``speedup_without`` would hold, in words."""
        return _ADVICE[self.term]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationState:
    """Speedups against the target alone, with the present settings."""

    reason: str | None = "needs rounds with a draft"
    """Why there is no estimate; None if there is one."""
    leviathan: float | None = None
    full: float | None = None
    measured: float | None = None
    inputs: RoundModel | None = None
    """What the full estimate was made from."""
    loss: LargestLoss | None = None


def draft_step_s(counters: Counters) -> float | None:
    """Return the mean seconds per drafted token; of a drafter without a model, of all its work."""
    if counters.n_steps:
        return counters.draft_step_s
    return ratio(counters.times.draft_s, counters.n_drafted)


def expectation_state(
    setting: Counters, *, speculates: bool, step_s: float | None, measured: float | None
) -> ExpectationState:
    """Compute both estimates.

    Args:
        setting: counters of all turns with the present settings.
        speculates: whether this turn uses the draft.
        step_s: V(1).
        measured: speedup with the present settings against the baseline.
    """
    if not speculates:
        return ExpectationState(reason="this turn runs without the draft", measured=measured)
    alpha, draft_step = setting.alpha, ratio(draft_step_s(setting), step_s)
    if alpha is None:
        return ExpectationState(measured=measured)
    if step_s is None or draft_step is None:
        reason = "needs V(1): the baseline is not measured yet"
        return ExpectationState(reason=reason, measured=measured)
    inputs = RoundModel(
        alpha=alpha,
        gamma=setting.n_drafted / setting.n_rounds,
        draft_step=draft_step,
        # V of the mean batch of these very rounds, not of one size.
        verify=setting.times.verify_s / setting.n_rounds / step_s,
        rollback=setting.times.rollback_s / setting.n_rounds / step_s,
        redone=setting.n_redone / setting.n_rounds,
    )
    if inputs.verify <= 0:
        return ExpectationState(reason="verifying took no time", measured=measured)
    term, speedup = largest_loss(inputs)
    return ExpectationState(
        reason=None,
        leviathan=leviathan_speedup(alpha, inputs.gamma, draft_step),
        full=full_speedup(inputs),
        measured=measured,
        inputs=inputs,
        loss=LargestLoss(term=term, speedup_without=speedup),
    )
