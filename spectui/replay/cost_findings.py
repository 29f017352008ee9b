"""What the terms of a round come to: what decides, where break-even lies, what is possible."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from spectui.replay.cost_break_even import Outlook
from spectui.replay.cost_terms import RoundTerms, rounds_of_lengths
from spectui.replay.costs import Costs

_NOTHING = 0.005
"""Share of a round below which the draft's work counts as none."""


class Term(StrEnum):
    """What keeps a setting from being faster."""

    REJECTIONS = "rejections"
    DRAFT = "draft"
    AGAIN = "again"
    """The second draft pass."""
    VERIFY = "verify"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a setting's numbers come to."""

    terms: RoundTerms
    speedup: float
    is_measured: bool
    """Whether the speedup was measured, not replayed."""
    decides: Term
    speedup_without: float
    """If what decides cost nothing."""
    drafts_are_free: bool
    """Whether drafting takes next to nothing, as that of n-gram drafters."""
    break_even_step_s: float | None
    """A draft step that takes longer makes it a loss, at the same acceptance. None where even a
    draft for nothing would lose, or where drafts cost next to nothing as it is."""
    break_even_alpha: float | None
    """A lower acceptance makes it a loss, at the same costs. None where even 1 would lose."""
    speedup_if_free: float
    """With a draft that takes no time, at the same acceptance."""
    speedup_if_perfect: float
    """With a draft that is always right, at the same costs."""
    limit: float
    """With a draft that is both."""
    limit_verify_ratio: float
    """V(n)/V(1) at the length where ``limit`` is reached."""
    limit_drafted: float
    """That length."""
    limit_rest_s: float
    """What a round with such a draft takes beside verifying."""
    limit_of_parts: float
    """``limit`` as the parts of the round have it, before it is scaled to the speedup."""
    limit_is_general: bool
    """Whether it holds for all lengths; without costs only that of the setting is known."""

    @property
    def break_even_c(self) -> float | None:
        """``break_even_step_s`` over one step of the target."""
        step_s = self.break_even_step_s
        return None if step_s is None else step_s / self.terms.target_step_s


def find(
    terms: RoundTerms,
    *,
    speedup: float,
    is_measured: bool,
    costs: Costs | None,
    has_floor: bool,
) -> Findings:
    """Solve for what would change the answer.

    Args:
        terms: of the setting.
        speedup: of the setting.
        is_measured: whether the speedup is.
        costs: of the draft, for other lengths; None for the setting's alone.
        has_floor: whether drafts end at a probability. α is that of confident tokens then, and does
            not hold for longer drafts of the same model.
    """
    lengths = () if costs is None else rounds_of_lengths(costs, range(1, costs.lengths[-1] + 1))
    own = terms.mean_round()
    outlook = partial(Outlook, own, alpha=terms.alpha, emitted=terms.emitted, speedup=speedup)
    better = outlook(lengths)
    faster = outlook(()) if has_floor else better
    scale = faster.break_even_draft()
    is_free = own.chain_s + own.again_s < _NOTHING * terms.parts.total_s
    decides, without = _largest_loss(better, terms)
    limit, at = better.limit(lengths)
    one_token_s = costs.single_s if costs is not None and at is not own else terms.target_step_s
    return Findings(
        terms=terms,
        speedup=speedup,
        is_measured=is_measured,
        decides=decides,
        speedup_without=without,
        drafts_are_free=is_free,
        break_even_step_s=None if scale is None or is_free else scale * terms.step_s,
        break_even_alpha=better.break_even_alpha(),
        speedup_if_free=faster.speedup(draft_scale=0.0),
        speedup_if_perfect=better.speedup(alpha=1.0),
        limit=limit,
        limit_verify_ratio=at.verify_s / one_token_s,
        limit_drafted=at.drafted,
        limit_rest_s=at.fixed_s + at.token_s * (at.drafted + 1),
        limit_of_parts=at.speedup(1.0, 0.0),
        limit_is_general=costs is not None,
    )


def _largest_loss(outlook: Outlook, terms: RoundTerms) -> tuple[Term, float]:
    """Return the term that costs most, and the speedup of the setting if it alone were ideal."""
    own = outlook.own
    one_token = replace(own, verify_s=min(own.verify_s, terms.target_step_s))
    # Rollback stays, to tell what rejections cost in tokens from what they cost in seconds.
    rollback_s = own.rejection_s * terms.rejected
    accepted = replace(own, rejection_s=0.0, fixed_s=own.fixed_s + rollback_s)
    without = {
        Term.REJECTIONS: outlook.changed(accepted, alpha=1.0),
        Term.DRAFT: outlook.changed(own.without("chain_s")),
        Term.AGAIN: outlook.changed(own.without("again_s")),
        Term.VERIFY: outlook.changed(one_token),
        Term.ROLLBACK: outlook.changed(own.without("rejection_s")),
    }
    worst = max(without, key=lambda term: without[term])
    return worst, without[worst]
