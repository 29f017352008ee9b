"""Expected speedup: Leviathan's formula, the full estimate, and the share that is lost."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum


class Loss(StrEnum):
    """A term that keeps the speedup below γ + 1."""

    REJECTIONS = "rejected drafts"
    DRAFT = "draft cost"
    VERIFY = "verify cost"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundModel:
    """One mean round. Costs are in single-token decodes of the target, V(1)."""

    alpha: float
    """α: probability that a drafted token is accepted, 0 to 1."""
    gamma: float
    """γ: drafted tokens per round; a mean need not be whole."""
    draft_step: float
    """c: one step of the draft."""
    verify: float
    """V(γ+1)/V(1), above 0."""
    rollback: float = 0.0
    redone: float = 0.0
    """Share of the rounds that are redone: each emits one token more."""

    @property
    def cost(self) -> float:
        """Cost of one round."""
        return self.gamma * self.draft_step + self.verify + self.rollback


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


def leviathan_speedup(alpha: float, gamma: float, draft_step: float) -> float:
    """Return the speedup of theorem 3.8, which lets verifying cost one token: V(γ+1) = V(1)."""
    return expected_tokens(alpha, gamma) / (gamma * draft_step + 1)


def full_speedup(model: RoundModel) -> float:
    """Return E[tokens/round] / (γ·c + V(γ+1)/V(1) + rollback/V(1))."""
    return (expected_tokens(model.alpha, model.gamma) + model.redone) / model.cost


def largest_loss(model: RoundModel) -> tuple[Loss, float]:
    """Return the term that costs most, and the speedup if it alone were ideal.

    Ideal: every draft accepted; a draft for nothing; verifying for the price of one token; no
    rollback.
    """
    ideal = {
        Loss.REJECTIONS: replace(model, alpha=1.0, redone=0.0),
        Loss.DRAFT: replace(model, draft_step=0.0),
        Loss.VERIFY: replace(model, verify=min(model.verify, 1.0)),
        Loss.ROLLBACK: replace(model, rollback=0.0, redone=0.0),
    }
    without = {loss: full_speedup(changed) for loss, changed in ideal.items()}
    worst = max(without, key=lambda loss: without[loss])
    return worst, without[worst]
