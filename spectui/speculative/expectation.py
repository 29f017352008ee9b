"""Tokens of a round, and the speedup if nothing cost time but drafting and verifying."""

import math


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
