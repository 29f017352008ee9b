"""Lengths of requests, as a user asks for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Lengths of a request, in tokens."""

    n_prompt: int
    n_answer: int
    longest_answer: int | None = None
    """Tokens that the answer may go on to: measurements cut it short. None where it ends there."""

    @property
    def text(self) -> str:
        """Such as ``1,200 + 300 tokens``."""
        return f"{self.n_prompt:,} + {self.n_answer:,} tokens"


def check_lengths(
    requests: Sequence[RequestShape],
    depths: Sequence[int],
    *,
    n_predict: int,
    n_ctx: int,
    remedy: str,
) -> None:
    """Refuse requests and depths for which there is no room.

    Args:
        requests: lengths that a user has given.
        depths: lengths of prompts that a user has given.
        n_predict: tokens that prompts of those lengths are continued by.
        n_ctx: tokens that there is room for.
        remedy: what to do where that is too little.

    Raises:
        UsageError: one does not fit.
    """
    # As for prompts: a token stays free.
    needed = {
        f"--request {one.n_prompt}+{one.n_answer} needs": (
            one.n_prompt + max(one.n_answer, n_predict) + 1
        )
        for one in requests
    }
    for depth in depths:
        what = f"a depth of {depth} and {n_predict} tokens to predict need"
        needed[what] = depth + n_predict + 1
    for what, n_tokens in needed.items():
        if n_tokens > n_ctx:
            raise UsageError(f"{what} a context of {n_tokens}, but it has {n_ctx}; {remedy}")
