"""Lengths of the requests that a user names with ``--request``."""

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
    *,
    n_predict: int,
    n_ctx: int,
    remedy: str,
) -> None:
    """Refuse requests for which there is no room.

    Args:
        requests: lengths that a user has given.
        n_predict: tokens that prompts of those lengths are continued by.
        n_ctx: tokens that there is room for.
        remedy: what to do where that is too little.

    Raises:
        UsageError: one does not fit.
    """
    # As for prompts: a token stays free.
    for one in requests:
        n_tokens = one.n_prompt + max(one.n_answer, n_predict) + 1
        if n_tokens > n_ctx:
            raise UsageError(
                f"--request {one.n_prompt}+{one.n_answer} needs a context of {n_tokens}, but it "
                f"has {n_ctx}; {remedy}"
            )
