"""Speedups of rounds that were run: ideal, predicted and measured, and the term that costs most."""

from dataclasses import dataclass

from spectui.speculative.counters import Counters
from spectui.trace.terms import Findings, Term, expected_tokens, ideal_speedup, measured_terms

LOSSES = {
    Term.REJECTIONS: ("rejected drafts", "were no draft rejected"),
    Term.DRAFT: ("draft cost", "if drafting cost nothing"),
    Term.AGAIN: ("second draft pass", "without the second draft pass"),
    Term.VERIFY: ("verify cost", "if verifying cost one token"),
    Term.ROLLBACK: ("rollback", "if rollback cost nothing"),
}
"""(name, condition under which the speedup without it would hold) of each term, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationState:
    """Speedups against the target alone, with the present settings."""

    reason: str | None = "needs rounds with a draft"
    """Why there is no estimate; None if there is one."""
    ideal: float | None = None
    """Were verifying any number of tokens as cheap as one: Leviathan's formula."""
    predicted: float | None = None
    """With the real cost of every part of a round, as the verdict takes it."""
    measured: float | None = None
    loss: Term | None = None
    """The term that costs most."""
    without_loss: float | None = None
    """Speedup, if that term alone were ideal."""


def expectation_state(
    setting: Counters,
    *,
    step_s: float | None,
    baseline_tokens_per_s: float | None,
    measured: float | None,
) -> ExpectationState:
    """Compute both estimates.

    Args:
        setting: counters of all turns with the present settings.
        step_s: V(1).
        baseline_tokens_per_s: throughput of the target alone.
        measured: speedup with the present settings against the baseline.
    """
    if setting.alpha is None:
        return ExpectationState(measured=measured)
    if not step_s or not baseline_tokens_per_s:
        reason = "needs V(1): the baseline is not measured yet"
        return ExpectationState(reason=reason, measured=measured)
    terms = measured_terms(setting, target_step_s=step_s, off_s=1 / baseline_tokens_per_s)
    if terms is None or not measured:
        return ExpectationState(reason="verifying took no time", measured=measured)
    redone = setting.n_redone / setting.n_rounds
    loss, without_loss = Findings(terms, measured).largest_loss
    return ExpectationState(
        reason=None,
        ideal=ideal_speedup(terms.alpha, terms.drafted, terms.c),
        # Rounds that are redone emit one token more.
        predicted=terms.speedup(
            terms.alpha, emitted=expected_tokens(terms.alpha, terms.drafted) + redone
        ),
        measured=measured,
        loss=loss,
        without_loss=without_loss,
    )
