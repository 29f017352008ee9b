"""How much of the draft counts."""

from collections.abc import Iterable
from dataclasses import dataclass

from spectui.live.expectation import draft_step_s
from spectui.live.throughput import ratio
from spectui.models.sizes import counted
from spectui.speculative.counters import Counters, Round


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
    """With the present settings, over all turns."""
    draft_step_ratio: float | None = None
    """c: one draft step / one single-token target step."""
    n_rounds: int = 0
    """Of this turn."""
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
