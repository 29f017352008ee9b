"""Lengths of requests, as a user asks for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Lengths of a request, in tokens."""

    n_prompt: int
    n_answer: int

    @property
    def text(self) -> str:
        """Such as ``1,200 + 300 tokens``."""
        return f"{self.n_prompt:,} + {self.n_answer:,} tokens"


def check_requests(requests: Sequence[RequestShape], n_ctx: int, remedy: str = "raise -c") -> None:
    """Refuse requests for which there is no room.

    Args:
        requests: lengths that a user has given.
        n_ctx: tokens that there is room for.
        remedy: what to do where that is too little.

    Raises:
        UsageError: one does not fit.
    """
    for one in requests:
        # As for prompts: a token stays free.
        if one.n_prompt + one.n_answer + 1 > n_ctx:
            raise UsageError(
                f"--request {one.n_prompt}+{one.n_answer} does not fit in a context of {n_ctx}; "
                f"{remedy}"
            )
