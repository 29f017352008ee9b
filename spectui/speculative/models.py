"""Interfaces of the target and the draft model that the speculative loop needs.

Both hold one sequence. Token positions are implicit: a decode appends at ``n_past``.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class Outputs(Enum):
    """Tokens of a decode for which the logits are computed."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


class SequenceModel(Protocol):
    """A causal model over one cached sequence."""

    @property
    def n_ctx(self) -> int:
        """Tokens that the cache can hold."""
        ...

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""
        ...

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Append ``tokens`` to the cache and compute the logits that ``outputs`` asks for."""
        ...

    def mark(self) -> None:
        """Prepare to be truncated to what the cache holds now, or to a bit more.

        Without it a truncation is right as well; with a recurrent state it may cost much more.
        """
        ...

    def truncate(self, n_past: int) -> None:
        """Forget all but the first ``n_past`` tokens."""
        ...


class TargetModel(SequenceModel, Protocol):
    """The model whose output counts."""

    def sample(self, output: int) -> int:
        """Sample one token from output number ``output`` of the last decode.

        Each call draws once from the seeded stream, so the loop must call it once per emitted
        token.
        """
        ...

    def is_eog(self, token: int) -> bool:
        """Whether ``token`` ends a generation."""
        ...

    def can_forget(self, n_tokens: int) -> bool:
        """Whether truncating the last ``n_tokens`` of the last decode costs next to nothing.

        Where not, the state before that decode has to be marked, and what counts of it is decoded
        again.
        """
        ...


class DraftModel(SequenceModel, Protocol):
    """The cheap proposer."""

    def top(self) -> tuple[int, float]:
        """Most probable token of the last output, and its probability.

        The probability is the softmax over the ten highest logits only, as in llama.cpp
        (``common_speculative_impl_draft_simple`` samples with ``top_k = 10``).
        """
        ...
