"""Rounds of which only lengths and seconds are known."""

from spectui.speculative.counters import Round, RoundEnd, RoundTimes


def timed_round(n_drafted: int, n_tokens: int, seconds: float, *, is_redone: bool = False) -> Round:
    """A round whose seconds were all spent on verifying; a step of the draft for each token."""
    return Round(
        draft=(0,) * n_drafted,
        probabilities=(),
        tokens=(0,) * n_tokens,
        n_accepted=min(n_tokens, n_drafted),
        end=RoundEnd.EXHAUSTED,
        n_steps=n_drafted,
        chain_s=0.0,
        times=RoundTimes(verify_s=seconds),
        is_redone=is_redone,
    )
