"""Sequences of a context: the batch that extends them, and the memory that forgets their end.

There are three ways to forget rejected tokens, found by trying, as in ``common_context_can_seq_rm``
and llama-server's slots: a cache of tokens loses its end; a recurrent state goes back to one of the
snapshots of its last decode, where the architecture has them; and otherwise to a checkpoint, from
which what was accepted is decoded again.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from spectui.llama.library import C
from spectui.speculative.models import Outputs, Rollback, Row


class Batch:
    """Room for ``capacity`` tokens of sequence 0, or of several."""

    def __init__(self, capacity: int) -> None:
        """Allocate; every token belongs to sequence 0 until ``fill_each`` says otherwise."""
        self.c = C.llama_batch_init(capacity, 0, 1)
        as_array = np.ctypeslib.as_array
        self._tokens = as_array(self.c.token, (capacity,))
        """[capacity] int32"""
        self._positions = as_array(self.c.pos, (capacity,))
        """[capacity] int32"""
        self._logits = as_array(self.c.logits, (capacity,))
        """[capacity] int8"""
        self._steps = np.arange(capacity, dtype=np.int32)
        as_array(self.c.n_seq_id, (capacity,))[:] = 1
        for index in range(capacity):
            self.c.seq_id[index][0] = 0

    def fill(self, tokens: Sequence[int], first_position: int, outputs: Outputs) -> None:
        """Hold ``tokens`` at consecutive positions, with logits where ``outputs`` asks for them."""
        n = len(tokens)
        self.c.n_tokens = n
        self._tokens[:n] = tokens
        np.add(self._steps[:n], first_position, out=self._positions[:n])
        self._logits[:n] = outputs is Outputs.ALL
        if outputs is Outputs.LAST:
            self._logits[n - 1] = 1

    def fill_each(self, rows: Sequence[Row]) -> None:
        """Hold tokens of any sequences, with logits for all. ``fill`` is not called any more."""
        self.c.n_tokens = len(rows)
        for index, row in enumerate(rows):
            self.c.seq_id[index][0] = row.sequence
            self._positions[index] = row.position
            self._tokens[index] = row.token
        self._logits[: len(rows)] = 1

    def close(self) -> None:
        """Free the native arrays."""
        C.llama_batch_free(self.c)


_SEQUENCE = 0


class SequenceMemory:
    """The memory of a context's own sequence, and of others that share its cells."""

    def __init__(self, context: Any, *, swa_full: bool) -> None:  # noqa: ANN401 - a C pointer
        """Take the memory of a new context; ``rollback`` is a guess until ``detect_rollback``.

        Args:
            context: the pointer.
            swa_full: whether layers with a sliding window keep what is behind it.
        """
        self._context = context
        self._memory = C.llama_get_memory(context)
        n_swa: int = C.llama_model_n_swa(C.llama_get_model(context))
        self._window = 0 if swa_full else n_swa
        """Tokens that a layer with a sliding window keeps and looks at; 0 where all are kept."""
        self.n_ubatch: int = C.llama_n_ubatch(context)
        """Most tokens that are computed at once."""
        self._n_marked: int | None = None
        """Tokens that were held at the checkpoint; None where there is none."""
        self._state: Any = (ctypes.c_uint8 * 0)()
        """Checkpoint: the part of the state that forgetting does not bring back.

        The buffer is used again: memory that is touched for the first time takes several times as
        long as the copy.
        """
        self._n_state_bytes = 0
        self.rollback = Rollback.TRUNCATE
        self.n_snapshots = 0
        """Snapshots of a recurrent state that may be restored: at most those that exist."""

    @property
    def has_window(self) -> bool:
        """Whether a layer forgets what lies behind a window."""
        return self._window > 0

    def detect_rollback(self) -> None:
        """Find out how it forgets, once two tokens have been decoded; it is empty afterwards."""
        self.n_snapshots = C.llama_n_rs_seq(self._context)
        if self.n_snapshots > 0:
            self.rollback = Rollback.SNAPSHOT
        elif not self._removes(1):
            self.rollback = Rollback.CHECKPOINT
        self.clear()

    def predict_rollback(self, without_snapshots: Rollback) -> None:
        """Predict how it would forget, where nothing can be decoded."""
        has_snapshots = C.llama_n_rs_seq(self._context) > 0
        self.rollback = Rollback.SNAPSHOT if has_snapshots else without_snapshots

    def mark(self, n_past: int) -> None:
        """Make it cheap to go back to the ``n_past`` tokens that are held now."""
        if self.rollback is Rollback.TRUNCATE:
            return
        where = _SEQUENCE, C.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        size = self._n_state_bytes = C.llama_state_seq_get_size_ext(self._context, *where)
        if size > len(self._state):
            # A window fills up token by token: not each of them is to take a larger buffer.
            self._state = (ctypes.c_uint8 * (size * 5 // 4))()
        C.llama_state_seq_get_data_ext(self._context, self._state, size, *where)
        self._n_marked = n_past

    def forget(self, n_past: int, n_held: int, n_last: int) -> int:
        """Forget all but the first ``n_past`` of ``n_held`` tokens.

        Args:
            n_past: tokens to keep, fewer than ``n_held``.
            n_held: tokens that are held.
            n_last: how many of them the last decode brought.

        Returns:
            Tokens that are held now: ``n_past``, or fewer, where the rest has to be decoded again.
        """
        match self.rollback:
            case Rollback.TRUNCATE:
                can = self._holds_window(n_past) and self._removes(n_past)
            case Rollback.SNAPSHOT:
                # There are snapshots after each token of the last decode alone.
                is_near = n_held - n_past <= min(self.n_snapshots, n_last - 1)
                can = is_near and self._keeps_window(n_last) and self._removes(n_past)
            case Rollback.CHECKPOINT:
                can = False
        return n_past if can else self._back_to_checkpoint(n_past)

    def recover(self, n_past: int) -> int:
        """Keep what can be kept after a decode that failed somewhere behind ``n_past``."""
        can = self.rollback is Rollback.TRUNCATE and self._holds_window(n_past)
        return n_past if can and self._removes(n_past) else self._back_to_checkpoint(n_past)

    def clear(self) -> None:
        """Forget everything."""
        self._n_marked = None
        C.llama_memory_clear(self._memory, True)

    def copy_to(self, sequence: int, n_past: int) -> None:
        """Let another sequence hold cells of the own one as well; nothing is copied."""
        C.llama_memory_seq_cp(self._memory, _SEQUENCE, sequence, -1, n_past)

    def drop(self, sequence: int) -> None:
        """Forget all of a sequence."""
        C.llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def _holds_window(self, n_past: int) -> bool:
        """Whether all is there that a token after ``n_past`` others looks at.

        What no token to come will look at makes room for new ones, or was not saved.
        """
        if not self._window:
            return True
        first: int = C.llama_memory_seq_pos_min(self._memory, _SEQUENCE)
        return first <= max(n_past + 1 - self._window, 0)

    def _keeps_window(self, n_last: int) -> bool:
        """Whether all is there that the tokens of the last decode, ``n_last`` of them, look at.

        Room for a micro-batch is made by what its first token does not look at. A recurrent state
        hides from ``llama_memory_seq_pos_min`` what the attention beside it holds.
        """
        return not self._window or n_last <= self.n_ubatch

    def _removes(self, n_past: int) -> bool:
        return bool(C.llama_memory_seq_rm(self._memory, _SEQUENCE, n_past, -1))

    def _back_to_checkpoint(self, n_past: int) -> int:
        if self._n_marked is None or self._n_marked > n_past:
            self.clear()
            return 0
        flags = C.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        state = self._state, self._n_state_bytes
        if not C.llama_state_seq_set_data_ext(self._context, *state, _SEQUENCE, flags):
            raise RuntimeError("llama.cpp refused a checkpoint that it had saved")
        # It is the recurrent part of a hybrid model, or the window's; the rest loses its end.
        if not self._removes(self._n_marked):
            raise RuntimeError("llama.cpp refused to forget what came after a checkpoint")
        return self._n_marked
