"""The model of a round: its tokens, its terms, its break-even, and the term that costs most.

The break-even is the draft step, or the acceptance, at which speculation gains nothing.

Tokens per round follow from α as if every drafted token were accepted independently of the others
(Leviathan et al. 2023, arXiv 2211.17192, eq. 1). What that misses at the setting in question is
corrected by scaling the estimate to the setting's known speedup. For a draft that is always right
the formula is exact: as α grows towards 1, the correction of tokens per round vanishes.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from spectui.speculative.counters import Counters

_BISECTIONS = 60
"""Halvings of the interval of α: beyond the precision of a float."""
_NOTHING = 0.005
"""Share of a round below which the draft's work counts as none."""


def expected_tokens(alpha: float, gamma: float) -> float:
    """E[tokens/round] = (1 - α^(γ+1)) / (1 - α): Leviathan et al. 2023, arXiv 2211.17192, eq. 1.

    Between 1 (nothing accepted, the bonus token counts) and γ + 1.
    """
    if alpha <= 0:
        return 1.0
    if alpha >= 1:
        return gamma + 1
    # Without cancellation near α = 1.
    return math.expm1((gamma + 1) * math.log(alpha)) / (alpha - 1)


def ideal_speedup(alpha: float, gamma: float, draft_step: float, verify: float = 1.0) -> float:
    """Return E[tokens/round] / (γ·c + V(γ+1)/V(1)), with nothing else that costs time.

    With the default, verifying a batch costs as much as one token: Leviathan's theorem 3.8.

    Args:
        alpha: probability that a drafted token is accepted.
        gamma: drafted tokens per round; a mean need not be whole.
        draft_step: c, one step of the draft over V(1).
        verify: V(γ+1)/V(1).
    """
    return expected_tokens(alpha, gamma) / (gamma * draft_step + verify)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTerms:
    """The mean round of a setting: its parts in seconds, and its tokens."""

    drafted: float
    """γ: drafted tokens per round; a mean need not be whole."""
    chain_s: float
    again_s: float
    """The draft evaluates the verified batch again."""
    verify_s: float
    fixed_s: float
    """Everything else that every round takes, whatever is accepted."""
    mark_s: float
    """Saving the target's state, whatever comes of it."""
    token_s: float
    """Per emitted token."""
    rejection_s: float
    """Rollback, per round that ends in a mismatch."""
    off_s: float
    """One token of the target alone."""
    alpha: float
    """Accepted / (accepted + rejections)."""
    emitted: float
    """Tokens per round, the bonus token included."""
    rejected: float
    """Share of the rounds that end in a mismatch. Their rollback is the same, however many tokens
    were accepted before it."""
    step_s: float
    """d(1): one step of the draft's chain."""
    target_step_s: float
    """V(1)."""

    @property
    def sample_s(self) -> float:
        """Sampling of all tokens."""
        return self.token_s * self.emitted

    @property
    def rollback_s(self) -> float:
        """Rollback, and saving the state for it."""
        return self.mark_s + self.rejection_s * self.rejected

    @property
    def total_s(self) -> float:
        """Seconds of the whole round."""
        return sum(seconds for _name, _words, seconds in self.parts)

    @property
    def parts(self) -> tuple[tuple[str, str, float], ...]:
        """(name of the part, its words, seconds)."""
        return (
            ("draft", "drafting", self.chain_s),
            ("second_draft_pass", "the second draft pass", self.again_s),
            ("verify", "verifying", self.verify_s),
            ("sample", "sampling", self.sample_s),
            ("rollback", "rollback", self.rollback_s),
            ("other", "the rest", self.fixed_s),
        )

    @property
    def c(self) -> float:
        """One draft step over one single-token step of the target."""
        return self.step_s / self.target_step_s

    @property
    def verify_ratio(self) -> float:
        """V(n)/V(1) in the mean over the rounds."""
        return self.verify_s / self.target_step_s

    def speedup(self, alpha: float, emitted: float) -> float:
        """Throughput over the target's alone, with another acceptance than the measured one.

        Args:
            alpha: acceptance per token.
            emitted: tokens per round.
        """
        p_full: float = alpha**self.drafted
        rollback_s = self.rejection_s * (1 - p_full)
        draft_s = self.chain_s + self.again_s
        fixed_s = self.verify_s + self.mark_s + self.fixed_s
        return self.off_s * emitted / (draft_s + fixed_s + self.token_s * emitted + rollback_s)


def measured_terms(
    speculative: Counters, *, target_step_s: float, off_s: float
) -> RoundTerms | None:
    """Terms of rounds that were run.

    Args:
        speculative: counts and times of the setting.
        target_step_s: V(1).
        off_s: seconds per token of the target alone.

    Returns:
        None where nothing was drafted, or nothing was timed.
    """
    n, times = speculative.n_rounds, speculative.times
    timed = off_s > 0 and target_step_s > 0 and times.verify_s > 0
    if speculative.alpha is None or not timed:
        return None
    # A drafter without a model takes no steps: all its work counts.
    chain_s = speculative.chain_s if speculative.n_steps else times.draft_s
    emitted = speculative.tokens_per_round or 1.0
    undone_s, n_rejections = times.rollback_s - speculative.mark_s, speculative.n_rejections
    return RoundTerms(
        drafted=speculative.n_drafted / n,
        chain_s=chain_s / n,
        again_s=(times.draft_s - chain_s) / n,
        verify_s=times.verify_s / n,
        fixed_s=(times.other_s + (0.0 if n_rejections else undone_s)) / n,
        mark_s=speculative.mark_s / n,
        token_s=times.sample_s / n / emitted,
        rejection_s=undone_s / n_rejections if n_rejections else 0.0,
        off_s=off_s,
        alpha=speculative.alpha,
        emitted=emitted,
        rejected=n_rejections / n,
        step_s=chain_s / (speculative.n_steps or speculative.n_drafted),
        target_step_s=target_step_s,
    )


class Term(StrEnum):
    """Term that keeps a setting from being faster."""

    REJECTIONS = "rejections"
    DRAFT = "draft"
    AGAIN = "again"
    """The second draft pass."""
    VERIFY = "verify"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class Findings:
    """Estimates from a setting's numbers for a draft that is faster, or accepted more often."""

    terms: RoundTerms
    """Its mean round."""
    speedup: float
    """Measured or replayed; the model is scaled to it."""

    def speedup_if(self, terms: RoundTerms | None = None, *, alpha: float | None = None) -> float:
        """Speedup of the setting; if its round were ``terms``, its acceptance ``alpha``."""
        tried = self.terms.alpha if alpha is None else alpha
        own = self._estimate(self.terms, self.terms.alpha)
        return self.speedup / own * self._estimate(terms or self.terms, tried)

    def _estimate(self, one: RoundTerms, alpha: float) -> float:
        return one.speedup(alpha, self._emitted(alpha))

    def _emitted(self, alpha: float) -> float:
        """Tokens per round: the measured ones at the setting's own acceptance, all of them at 1."""
        drafted, now = self.terms.drafted, self.terms.alpha
        own = expected_tokens(now, drafted)
        share = self.terms.emitted / own
        if alpha > now:
            # In proportion to the gain on the way to all tokens, so that the result never falls.
            way = math.log(expected_tokens(alpha, drafted) / own) / math.log((drafted + 1) / own)
            share **= 1 - way
        return min(share * expected_tokens(alpha, drafted), drafted + 1)

    @property
    def drafts_are_free(self) -> bool:
        """Whether drafting takes next to nothing, as that of n-gram drafters."""
        return self.terms.chain_s + self.terms.again_s < _NOTHING * self.terms.total_s

    @property
    def break_even_step_s(self) -> float | None:
        """Longest draft step at which the setting does not lose, at the same acceptance.

        None where even a free draft would lose, or where drafts cost next to nothing.
        """
        # The inverse of a speedup grows along a line with the draft's seconds.
        free_draft = replace(self.terms, chain_s=0.0, again_s=0.0)
        free, now = 1 / self.speedup_if(free_draft), 1 / self.speedup_if()
        if self.drafts_are_free or now <= free or free >= 1:
            return None
        return (1 - free) / (now - free) * self.terms.step_s

    @property
    def break_even_alpha(self) -> float | None:
        """Least α at which the setting does not lose, at the same costs; None if even 1 loses."""
        if self.speedup_if_perfect < 1:
            return None
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.speedup_if(alpha=middle) >= 1 else (middle, high)
        return high

    @property
    def speedup_if_perfect(self) -> float:
        """Speedup with a draft that is always right, at the same costs."""
        return self.speedup_if(alpha=1.0)

    @property
    def largest_loss(self) -> tuple[Term, float]:
        """The term that costs most, and the speedup of the setting if it alone were ideal."""
        terms = self.terms
        # Rollback stays: here rejections cost tokens, and ``Term.ROLLBACK`` has their seconds.
        fixed_s = terms.fixed_s + terms.rejection_s * terms.rejected
        accepted = replace(terms, rejection_s=0.0, fixed_s=fixed_s)
        one_token_s = min(terms.verify_s, terms.target_step_s)
        without = {
            Term.REJECTIONS: self.speedup_if(accepted, alpha=1.0),
            Term.DRAFT: self.speedup_if(replace(terms, chain_s=0.0)),
            Term.AGAIN: self.speedup_if(replace(terms, again_s=0.0)),
            Term.VERIFY: self.speedup_if(replace(terms, verify_s=one_token_s)),
            Term.ROLLBACK: self.speedup_if(replace(terms, rejection_s=0.0, mark_s=0.0)),
        }
        worst = max(without, key=lambda term: without[term])
        return worst, without[worst]


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
