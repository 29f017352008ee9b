"""Acceptance of drafts, and the speedup that it promises beside the measured one."""

from collections.abc import Iterable
from dataclasses import dataclass

from spectui.format import counted
from spectui.live.throughput import ratio
from spectui.speculative.counters import Counters, Round
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
    """Speedup by the full estimate, if that term alone were ideal."""

    @property
    def condition(self) -> str:
        """Condition under which ``speedup_without`` would hold, in words."""
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
    """Inputs of the full estimate."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceState:
    """Acceptance of this turn, or why there is none."""

    reason: str | None = "nothing has been drafted yet"
    """Why there is no acceptance rate; None if there is one."""
    acceptance_rate: float | None = None
    """Accepted / drafted of this turn."""
    tokens_per_round: float | None = None
    """Tokens per round of this turn, the bonus token included."""
    conditional: tuple[float | None, ...] = ()
    """[draft_max]: accepted at i / rounds that reached i, with the present settings."""
    alpha: float | None = None
    """Acceptance rate with the present settings, over all turns."""
    draft_step_ratio: float | None = None
    """c: one draft step / one single-token target step."""
    n_rounds: int = 0
    """Rounds of this turn."""
    recent: tuple[tuple[int, int], ...] = ()
    """Drafted and accepted tokens of the last rounds, oldest first."""


def acceptance_state(
    turn: Counters,
    setting: Counters,
    recent: Iterable[Round],
    *,
    speculates: bool,
    by_ngrams: bool = False,
    step_s: float | None,
) -> AcceptanceState:
    """Put the numbers together.

    Args:
        turn: counters of this turn.
        setting: counters of all turns with the present settings.
        recent: the last rounds with the present settings.
        speculates: whether this turn drafts.
        by_ngrams: whether the text itself is drafted from, without a model.
        step_s: V(1), seconds of a single-token decode of the target.
    """
    if not speculates:
        return AcceptanceState(reason="this turn runs without the draft", n_rounds=turn.n_rounds)
    return AcceptanceState(
        reason=_reason(turn, by_ngrams=by_ngrams),
        acceptance_rate=turn.acceptance_rate,
        tokens_per_round=turn.tokens_per_round,
        conditional=setting.conditional_acceptance,
        alpha=setting.alpha,
        draft_step_ratio=ratio(draft_step_s(setting), step_s),
        n_rounds=turn.n_rounds,
        recent=tuple((finished.n_drafted, finished.n_accepted) for finished in recent),
    )


def _reason(turn: Counters, *, by_ngrams: bool) -> str | None:
    if turn.n_drafted:
        return None
    if not turn.n_rounds:
        return "nothing has been drafted yet"
    if by_ngrams:
        return f"no draft in {counted(turn.n_rounds, 'round')} of this turn: too little to repeat"
    why = "draft_p_min or draft_min drops them all"
    return f"no draft in {counted(turn.n_rounds, 'round')}: {why}"
