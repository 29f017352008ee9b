"""Target and draft as the speculative loop needs them, and how they forget rejected tokens.

Both hold one sequence. Token positions are implicit: a decode appends at ``n_past``.
"""

from collections.abc import Sequence
from enum import Enum, StrEnum
from itertools import takewhile
from typing import NamedTuple, Protocol

from spectui.options.speculation import Speculation


class Outputs(Enum):
    """Tokens of a decode for which the logits are computed."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


def n_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of tokens at the beginning of two texts that are the same in both."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class SequenceModel(Protocol):
    """A causal model over one cached sequence."""

    @property
    def n_ctx(self) -> int:
        """Tokens that the cache can hold."""

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Append ``tokens`` to the cache and compute the logits that ``outputs`` asks for."""

    def mark(self) -> None:
        """Prepare to be truncated to what the cache holds now, or to a bit more.

        Truncation is correct without it as well, but may cost much more with a recurrent state.
        """

    def truncate(self, n_past: int) -> None:
        """Forget all but the first ``n_past`` tokens."""


class TargetModel(SequenceModel, Protocol):
    """The model whose output counts."""

    def sample(self, output: int) -> int:
        """Sample one token from output number ``output`` of the last decode.

        Each call draws once from the seeded stream, so the loop must call it once per emitted
        token.
        """

    def is_eog(self, token: int) -> bool:
        """Whether ``token`` ends a generation."""

    def can_forget(self, n_tokens: int) -> bool:
        """Whether truncating the last ``n_tokens`` of the last decode costs next to nothing.

        Where not, the state before that decode has to be marked, and what counts of it is decoded
        again.
        """


class DraftModel(SequenceModel, Protocol):
    """The cheap proposer."""

    def top(self) -> tuple[int, float]:
        """Most probable token of the last output, and its probability.

        The probability is the softmax over the ten highest logits only, as in llama.cpp
        (``common_speculative_impl_draft_simple`` samples with ``top_k = 10``).
        """


class Row(NamedTuple):
    """A token of a batch of several sequences."""

    sequence: int
    position: int
    token: int


class BatchedDraft(DraftModel, Protocol):
    """A draft that reads many tokens of a text at once, and goes on from several places of it.

    Its own sequence is number 0. All of them share the cells of one cache.
    """

    @property
    def max_outputs(self) -> int:
        """Most tokens of a decode for which logits are computed."""

    @property
    def n_sequences(self) -> int:
        """Number of sequences, the own one included."""

    @property
    def n_cells(self) -> int:
        """Tokens that they hold together, those that several share counted once."""

    def copy_to(self, sequence: int, n_past: int) -> None:
        """Let another sequence begin with the first ``n_past`` tokens of the own one."""

    def decode_each(self, rows: Sequence[Row]) -> None:
        """Append one token to each of several sequences, with logits for all."""

    def drop(self, sequence: int) -> None:
        """Forget another sequence."""

    def chances(self, tokens: Sequence[int]) -> list[float]:
        """Probability of drafting ``tokens[i]`` after output i of the last decode.

        For drafts that are sampled as the target's tokens are; empty without a sampler.
        """

    def tops(self) -> list[tuple[int, float]]:
        """Most probable token after each output of the last decode, as ``top`` has it."""


class Rollback(StrEnum):
    """Rollback that llama.cpp supports for a kind of memory."""

    TRUNCATE = "truncate"
    """``llama_memory_seq_rm`` forgets a suffix: attention-only models."""
    SNAPSHOT = "snapshot"
    """Removal of a suffix as far as the snapshots of a recurrent state reach: ``n_rs_seq``."""
    CHECKPOINT = "checkpoint"
    """A recurrent state is saved before a batch and restored; what counts is decoded again."""


def usable_snapshots(speculation: Speculation | None) -> int:
    """Snapshots of a recurrent state that llama-server keeps for a way of drafting.

    As ``common_params_speculative::need_n_rs_seq``: as many as MTP layers draft, and none for a
    draft model or for n-gram drafters.
    """
    return speculation.own.longest if speculation is not None and speculation.is_mtp else 0


def can_forget(rollback: Rollback, n_tokens: int, n_snapshots: int) -> bool:
    """Whether a target can drop its last ``n_tokens`` without decoding anything again.

    Where not, it goes back to a checkpoint and decodes what counts once more.
    """
    match rollback:
        case Rollback.TRUNCATE:
            return True
        case Rollback.SNAPSHOT:
            return n_tokens <= n_snapshots
        case Rollback.CHECKPOINT:
            return n_tokens == 0


def unserved(target: Rollback, draft: Rollback) -> str | None:
    """Return why llama-server cannot run a draft model beside a target; None if it can.

    It takes rejected tokens back from both alike, and aborts where the draft cannot forget them
    (``common_context_seq_rm``). Only where the target goes back to checkpoints the draft does, too.
    """
    if target is not Rollback.TRUNCATE or draft is Rollback.TRUNCATE:
        return None
    return (
        "its recurrent state cannot forget rejected tokens, and llama-server saves it only where "
        "the target has such a state, too: it would abort"
    )
