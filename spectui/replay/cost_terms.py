"""The terms of a mean round: what a setting drafts and has accepted, and where its time goes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spectui.replay.cost_break_even import MeanRound
from spectui.replay.costs import Costs
from spectui.replay.totals import Total
from spectui.speculative.counters import Counters

REST = "the rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundParts:
    """Seconds of a mean round."""

    draft_s: float
    """The chain."""
    again_s: float
    """The second pass of the draft, on the ``server`` schedule."""
    verify_s: float
    sample_s: float
    rollback_s: float
    other_s: float

    @property
    def total_s(self) -> float:
        """Of the round."""
        return sum(seconds for _, seconds in self.named)

    @property
    def named(self) -> tuple[tuple[str, float], ...]:
        """(words of the part, seconds)."""
        return (
            ("drafting", self.draft_s),
            ("the second draft pass", self.again_s),
            ("verifying", self.verify_s),
            ("sampling", self.sample_s),
            ("rollback", self.rollback_s),
            (REST, self.other_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTerms:
    """A setting in numbers."""

    alpha: float
    """Accepted / (accepted + rejections)."""
    drafted: float
    """Tokens per round."""
    emitted: float
    """Tokens per round, the bonus token included."""
    rejected: float
    """Share of the rounds that end in a mismatch."""
    step_s: float
    """d(1): one step of the draft's chain."""
    target_step_s: float
    """V(1)."""
    off_s: float
    """One token of the target alone, sampling included."""
    parts: RoundParts

    @property
    def c(self) -> float:
        """One draft step over one single-token step of the target."""
        return self.step_s / self.target_step_s

    @property
    def verify_ratio(self) -> float:
        """V(n)/V(1) in the mean over the rounds."""
        return self.parts.verify_s / self.target_step_s

    def mean_round(self) -> MeanRound:
        """As the break-even takes it."""
        parts = self.parts
        return MeanRound(
            drafted=self.drafted,
            chain_s=parts.draft_s,
            again_s=parts.again_s,
            verify_s=parts.verify_s,
            fixed_s=parts.other_s,
            token_s=parts.sample_s / self.emitted,
            # After as many accepted tokens as there are.
            rejection_s=parts.rollback_s / self.rejected if self.rejected else 0.0,
            redone_s=0.0,
            off_s=self.off_s,
        )


def measured_terms(speculative: Counters, baseline: Counters, *, off_s: float) -> RoundTerms | None:
    """Terms of rounds that were run.

    Args:
        speculative: counts and times of the setting.
        baseline: of the target alone.
        off_s: seconds per token of the target alone.

    Returns:
        None where nothing was drafted, or nothing was timed.
    """
    n = speculative.n_rounds
    alpha, step_s = speculative.alpha, speculative.draft_step_s
    timed = off_s > 0 and baseline.times.verify_s > 0 and speculative.times.verify_s > 0
    if alpha is None or not timed:
        return None
    times = speculative.times
    return RoundTerms(
        alpha=alpha,
        drafted=speculative.n_drafted / n,
        emitted=speculative.tokens_per_round or 1.0,
        rejected=speculative.n_rejections / n,
        # A drafter without a model takes no steps: all its work counts.
        step_s=times.draft_s / speculative.n_drafted if step_s is None else step_s,
        target_step_s=baseline.times.verify_s / baseline.n_rounds,
        off_s=off_s,
        parts=RoundParts(
            draft_s=times.draft_s / n if step_s is None else speculative.chain_s / n,
            again_s=0.0 if step_s is None else (times.draft_s - speculative.chain_s) / n,
            verify_s=times.verify_s / n,
            sample_s=times.sample_s / n,
            rollback_s=times.rollback_s / n,
            other_s=times.other_s / n,
        ),
    )


def replayed_terms(total: Total, costs: Costs) -> RoundTerms | None:
    """Terms of a replayed setting; None where it would draft nothing, or has no price."""
    n = total.n_rounds
    tried = total.n_accepted + total.n_rejections
    if not (tried and total.seconds and total.off_s):
        return None
    costs = costs.at(total.mean_past)
    rounds = np.asarray(total.batches, float) / n
    lengths = np.arange(float(len(rounds)))
    verify_s = float(rounds @ costs.verifying(lengths))
    again_s = float(rounds @ costs.drafting_again(lengths))
    sample_s = costs.token_s * total.n_decoded / n
    rollback_s = costs.rollback_s * total.n_rejections / n
    rollback_s += costs.rollback_token_s * total.n_before_mismatch / n
    rest_s = verify_s + again_s + sample_s + rollback_s + costs.fixed_s
    return RoundTerms(
        alpha=total.n_accepted / tried,
        drafted=total.n_drafted / n,
        emitted=total.n_decoded / n,
        rejected=total.n_rejections / n,
        step_s=costs.step_s,
        target_step_s=costs.single_s,
        off_s=total.off_s / total.n_decoded,
        parts=RoundParts(
            # A draft that stops at the floor takes one more step than it proposes tokens: what is
            # left of the seconds counts them all.
            draft_s=max(0.0, total.seconds / n - rest_s) if costs.step_s else 0.0,
            again_s=again_s,
            verify_s=verify_s,
            sample_s=sample_s,
            rollback_s=rollback_s,
            other_s=costs.fixed_s,
        ),
    )


def rounds_of_lengths(costs: Costs, lengths: Sequence[int]) -> tuple[MeanRound, ...]:
    """What rounds that always draft so many tokens cost."""
    wanted = np.asarray(lengths, float)
    verify, again = costs.verifying(wanted), costs.drafting_again(wanted)
    return tuple(
        MeanRound(
            drafted=float(length),
            chain_s=length * costs.step_s,
            again_s=float(again_s),
            verify_s=float(verify_s),
            fixed_s=costs.fixed_s,
            token_s=costs.token_s,
            rejection_s=costs.rollback_s,
            redone_s=costs.rollback_token_s,
            off_s=costs.off_s,
        )
        for length, verify_s, again_s in zip(lengths, verify, again, strict=True)
    )
