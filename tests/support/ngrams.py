"""Rounds of an n-gram drafter."""

from spectui.speculative.drafters import Drafter


def say(drafter: Drafter, *tokens: int) -> None:
    """Let the text grow by rounds for which nothing was to be drafted."""
    for token in tokens:
        drafter.verified((token,))
        drafter.accept(0)


def play(drafter: Drafter, last: int, n_accepted: int, n_max: int = 99) -> tuple[int, ...]:
    """One round: what was drafted, of which ``n_accepted`` tokens are accepted."""
    drafted = drafter.draft(last, n_max).tokens
    drafter.verified((last, *drafted))
    if drafted:
        drafter.judged(n_accepted)
    drafter.accept(n_accepted)
    return drafted
