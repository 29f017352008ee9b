"""Rollback past rejected tokens, and the behaviour of a round whose context cannot roll back."""

from enum import StrEnum

from spectui.options.speculation import Speculation


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
    """Whether a target loses its last ``n_tokens`` just like that.

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
    """Say why llama-server cannot run a draft model beside a target, None if it can.

    It takes rejected tokens back from both alike, and aborts where the draft cannot forget them
    (``common_context_seq_rm``). Only where the target goes back to checkpoints the draft does, too.
    """
    if target is not Rollback.TRUNCATE or draft is Rollback.TRUNCATE:
        return None
    return (
        "its recurrent state cannot forget rejected tokens, and llama-server saves it only where "
        "the target has such a state, too: it would abort"
    )
