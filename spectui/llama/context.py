"""A ``llama_context`` and its sequence: decode, read logits, forget a suffix.

Where it costs no memory, there is room for more sequences, which share the cells of the cache.
"""

import ctypes
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spectui.closing import Closing
from spectui.cores import default_threads
from spectui.errors import BadInputError, CancelledError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.buffers import parse_buffers
from spectui.llama.library import C
from spectui.llama.log import native_log
from spectui.llama.model import Model, ran_out_of_memory
from spectui.llama.sequence import Batch, SequenceMemory
from spectui.models.header import TENSOR_TYPES
from spectui.options.setup import ContextOptions, FlashAttention
from spectui.speculative.models import Outputs, Rollback, Row, n_common

Logits = npt.NDArray[np.float32]

_FLASH_ATTENTION = {
    FlashAttention.AUTO: "LLAMA_FLASH_ATTN_TYPE_AUTO",
    FlashAttention.ON: "LLAMA_FLASH_ATTN_TYPE_ENABLED",
    FlashAttention.OFF: "LLAMA_FLASH_ATTN_TYPE_DISABLED",
}
"""C's constants by name: there may be no library."""

_ABORTED = 2
_SEQUENCE = 0
_MOST_SNAPSHOTS = 64
_MOST_SEQUENCES = 16


class Context(Closing):
    """Owns a ``llama_context``; implements ``SequenceModel`` with its sequence 0.

    ``native_s`` adds up the seconds inside llama.cpp, as opposed to those of spectui's own code.
    """

    native_s = 0.0
    n_outputs = 0
    """Logits of the last decode."""
    _n_last = 0
    """Tokens of the last decode that are still held, if nothing came after it."""

    def __init__(
        self,
        model: Model,
        options: ContextOptions,
        *,
        max_outputs: int,
        n_snapshots: int = 0,
        n_slots: int = 1,
    ) -> None:
        """Allocate caches and compute buffers.

        Args:
            model: stays open longer than this context. On one without memory this plans: caches
                are counted, not allocated, and nothing can be decoded.
            options: sizes, threads and attention, as given to llama-server.
            max_outputs: most logits that one decode may ask for; more costs memory.
            n_snapshots: of a recurrent state, where the architecture can; each is as large as that.
            n_slots: of a llama-server that is planned; what decodes here has one.

        Raises:
            CancelledError: the model's ``abort`` is set.
            DoesNotFitError: caches or buffers could not be allocated.
            UsageError: llama.cpp makes no context with these options.
        """
        self.model, self.vocabulary = model, model.vocabulary
        self.n_slots, self._options = n_slots, options
        params = context_params(
            model, options, max_outputs=max_outputs, n_snapshots=n_snapshots, n_slots=n_slots
        )
        self._adapt(params)
        self.c: Any = _created(model, options, params)
        """The ``llama_context`` pointer, valid until ``close``."""
        self._memory = SequenceMemory(self.c, swa_full=options.swa_full)
        self.n_ctx = self.n_cells = int(C.llama_n_ctx_seq(self.c))
        """Tokens of a sequence at most, and of all sequences together."""
        self.n_sequences: int = C.llama_n_seq_max(self.c)
        """Sequences that can be decoded at once, the own one included."""
        self._others: set[int] = set()
        """Sequences beside its own that have cells."""
        self.n_batch, self.max_outputs = int(C.llama_n_batch(self.c)), int(params.n_outputs_max)
        self.tokens: list[int] = []
        """Tokens in the cache."""
        self._batch, self._each = self._new_batch(), Batch(self.n_sequences)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        self.buffers = parse_buffers(native_log.tail())
        """Caches and compute buffers, as the log has them; of a plan a few have sizes."""

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""
        return len(self.tokens)

    @property
    def rollback(self) -> Rollback:
        """The way in which it forgets rejected tokens."""
        return self._memory.rollback

    def _adapt(self, params: Any) -> None:  # noqa: ANN401 - a C structure
        """Adjust the parameters for a kind of context, before it is created."""

    def _new_batch(self) -> Batch:
        return Batch(self.n_batch)

    def _prepare(self) -> None:
        """Detect how the context forgets tokens; a target creates its compute threads first."""
        if self.model.no_alloc:
            self._memory.predict_rollback(self.model.rollback)
            return
        # As common_context_can_seq_rm: decode two tokens and try to forget one.
        self.decode((0, 0), Outputs.LAST)
        self._memory.detect_rollback()
        self.clear()
        self.native_s = 0.0

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Append ``tokens`` and compute logits, in pieces of at most ``n_batch``.

        Raises:
            BadInputError: the context is too small.
            CancelledError: the abort flag was set; the cache is as it was before, or holds a
                beginning of that where it cannot forget a suffix.
            DoesNotFitError: llama.cpp failed to compute.
            UsageError: more logits are asked for than the context was made for.
        """
        start, n = self.n_past, len(tokens)
        self.n_outputs = 0
        if start + n > self.n_ctx:
            raise BadInputError(
                f"{start + n} tokens do not fit in a context of {self.n_ctx}; raise -c"
            )
        if outputs is Outputs.ALL and n > self.max_outputs:
            # llama.cpp would assert.
            raise UsageError(
                f"{n} outputs of one decode, in a context made for {self.max_outputs}; "
                "raise -b or the longest draft"
            )
        for offset in range(0, n, self.n_batch):
            piece = tokens[offset : offset + self.n_batch]
            is_last = offset + len(piece) == n
            self._decode_piece(piece, outputs if is_last else Outputs.NONE, start)
        self._n_last = self._batch.c.n_tokens
        self.n_outputs = {Outputs.NONE: 0, Outputs.LAST: 1, Outputs.ALL: n}[outputs]

    def _decode_piece(self, piece: Sequence[int], outputs: Outputs, start: int) -> None:
        self._batch.fill(piece, self.n_past, outputs)
        status = self._compute(self._batch)
        if status == 0:
            self.tokens.extend(piece)
            return
        del self.tokens[self._memory.recover(start) :]
        self._n_last = 0
        raise self._failure(status)

    def _compute(self, batch: Batch) -> int:
        began = time.perf_counter()
        status: int = C.llama_decode(self.c, batch.c)
        # A GPU computes asynchronously: without this its time would be booked on the sampler.
        C.llama_synchronize(self.c)
        self.native_s += time.perf_counter() - began
        return status

    @staticmethod
    def _failure(status: int) -> SpectuiError:
        if status == _ABORTED:
            return CancelledError("decoding was cancelled")
        return DoesNotFitError(
            f"llama.cpp could not compute (code {status}: {_last_line()}); "
            "the memory of a device may be exhausted"
        )

    def decode_each(self, rows: Sequence[Row]) -> None:
        """Append a token to each of several sequences, and compute the logits of all, in order.

        Args:
            rows: at most one of a sequence. The own one counts its ``tokens`` without them.

        Raises:
            SpectuiError: as ``decode``; then every sequence is empty.
        """
        self._each.fill_each(rows)
        if status := self._compute(self._each):
            self.clear()
            raise self._failure(status)
        self.n_outputs, self._n_last = len(rows), 0

    def copy_to(self, sequence: int, n_past: int = -1) -> None:
        """Let another sequence go on from the own one's first ``n_past`` tokens, -1 for all.

        Both hold their cells.
        """
        self._memory.copy_to(sequence, n_past)
        self._others.add(sequence)

    def hold(self, sequence: int, state: bytes) -> None:
        """Have a sequence go on from what another context of the model ``save``d."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        if not C.llama_state_seq_set_data(self.c, buffer, len(state), sequence):
            raise RuntimeError("llama.cpp refused a state that it had saved")

    def drop(self, sequence: int) -> None:
        """Forget another sequence."""
        self._memory.drop(sequence)
        self._others.discard(sequence)

    def logits(self, output: int) -> Logits:
        """[n_vocab] float32 view of output ``output`` of the last decode, until the next one.

        Raises:
            IndexError: the last decode computed no such output.
        """
        if not 0 <= output < self.n_outputs:
            raise IndexError(f"output {output} of {self.n_outputs} was never asked for")
        # A negative index counts outputs from the last one, and skips tokens without any.
        address = C.llama_get_logits_ith(self.c, output - self.n_outputs)
        row_type = ctypes.c_float * self.vocabulary.n_tokens
        row = row_type.from_address(ctypes.addressof(address.contents))
        return np.frombuffer(memoryview(row).cast("B"), dtype=np.float32)

    def truncate(self, n_past: int) -> None:
        """Forget all but the first ``n_past`` tokens; no logits are left.

        Where a recurrent state cannot go back that far, accepted tokens are decoded again.

        Raises:
            CancelledError: the abort flag was set while they were.
        """
        if n_past == self.n_past:
            return
        if n_past > self.n_past:
            # llama.cpp would find nothing to forget and be content.
            raise ValueError(f"cannot keep {n_past} of {self.n_past} tokens")
        kept = self.tokens[:n_past]
        self._forget(n_past)
        n_held = self.n_past
        for offset in range(n_held, n_past, self.n_batch):
            piece = kept[offset : offset + self.n_batch]
            self._decode_piece(piece, Outputs.NONE, n_held)

    def _forget(self, n_past: int) -> None:
        """Hold the first ``n_past`` tokens or, where that cannot be, fewer."""
        n_held = self._memory.forget(n_past, self.n_past, self._n_last)
        del self.tokens[n_held:]
        self._n_last = self.n_outputs = 0

    def mark(self) -> None:
        """Save a checkpoint where truncating to the tokens held now needs one."""
        self._memory.mark(self.n_past)

    @property
    def n_ahead(self) -> int:
        """Tokens that can be decoded one by one and forgotten again with nothing else lost.

        They take the place of what lies behind a window, for which there is room for a micro-batch.
        """
        return self._memory.n_ubatch if self._memory.has_window else self.n_ctx

    def keep_prefix(self, prompt: Sequence[int]) -> None:
        """Forget all but what the cache has in common with ``prompt`` without its last token.

        The last token has to be decoded in any case, for its logits.
        """
        self.truncate(n_common(self.tokens, prompt[:-1]))

    def clear(self) -> None:
        """Forget everything, other sequences as well."""
        self._memory.clear()
        self._others.clear()
        self.tokens.clear()
        self._n_last = self.n_outputs = 0

    @property
    def state_bytes(self) -> int:
        """Size of what ``save`` would return now."""
        return int(C.llama_state_seq_get_size(self.c, _SEQUENCE))

    def save(self) -> bytes:
        """Return the cache of the sequence, for ``restore`` on this same context."""
        size = self.state_bytes
        buffer = (ctypes.c_uint8 * size)()
        written = C.llama_state_seq_get_data(self.c, buffer, size, _SEQUENCE)
        return bytes(memoryview(buffer)[:written])

    def restore(self, state: bytes, tokens: Sequence[int]) -> None:
        """Bring back what ``save`` returned when ``tokens`` were held. No logits follow.

        Where no other sequence has cells it lies as when it was evaluated.
        """
        if self._others:
            self.truncate(0)
        else:
            self.clear()
        self.hold(_SEQUENCE, state)
        self.tokens.extend(tokens)

    def settle(self) -> None:
        """Lay the cache out in memory as after ``restore``. No logits are left.

        A sliding window that was filled by decoding has its cells in another order than a restored
        one, so that sums would be rounded otherwise.
        """
        if self._memory.has_window:
            self.restore(self.save(), tuple(self.tokens))

    def close(self) -> None:
        """Free caches and buffers."""
        if self.c:
            self._batch.close()
            self._each.close()
            C.llama_free(self.c)
            self.c = None


def context_params(
    model: Model, options: ContextOptions, *, max_outputs: int, n_snapshots: int = 0, n_slots: int
) -> Any:  # noqa: ANN401 - a C structure
    """``struct llama_context_params``; arguments and errors as ``Context``."""
    params = C.llama_context_default_params()
    params.n_ctx = n_slots * options.ctx_size
    params.n_batch = min(options.batch_size, params.n_ctx)
    params.n_ubatch = min(options.ubatch_size, params.n_batch)
    # llama.cpp asserts that a micro-batch holds more than the tokens with snapshots, and its
    # graphs have room for some dozens of them.
    params.n_rs_seq = min(n_snapshots, _MOST_SNAPSHOTS, max(params.n_ubatch - 2, 0))
    params.n_outputs_max = min(n_slots * max_outputs, params.n_batch)
    params.n_seq_max = n_slots if n_slots > 1 else _n_sequences(model, params)
    params.n_threads = options.threads or default_threads()
    params.n_threads_batch = options.threads_batch or params.n_threads
    params.flash_attn_type = getattr(C, _FLASH_ATTENTION[options.flash_attn])
    params.type_k = TENSOR_TYPES[model.options.cache_type_k]
    params.type_v = TENSOR_TYPES[model.options.cache_type_v]
    params.abort_callback = model.abort.callback
    params.abort_callback_data = model.abort.data
    params.kv_unified = n_slots == 1
    params.offload_kqv = options.kv_offload
    params.op_offload = options.op_offload
    # llama-server's default, which is not the library's.
    params.swa_full = options.swa_full
    return params


def make_mtp(params: Any, model: Model, n_slots: int, *, is_own: bool) -> None:  # noqa: ANN401 - a C structure
    """Change parameters to those of MTP layers; ``is_own`` where they are the target's."""
    params.ctx_type = C.LLAMA_CONTEXT_TYPE_MTP
    params.n_seq_max = n_slots
    if is_own:
        # As of any draft: whatever the types of the target's own cache are.
        params.type_k = TENSOR_TYPES[model.options.cache_type_k_mtp]
        params.type_v = TENSOR_TYPES[model.options.cache_type_v_mtp]


def _n_sequences(model: Model, params: Any) -> int:  # noqa: ANN401 - a C structure
    """Sequences that cost no memory: they share one cache, and the logits of a draft.

    A recurrent state has a row for each sequence, and a cache with a window has room for the
    windows of all. llama.cpp rounds a micro-batch up to a multiple of their number.
    """
    if model.rollback is not Rollback.TRUNCATE or C.llama_model_n_swa(model.c) > 0:
        return 1
    most = math.gcd(params.n_ubatch, _MOST_SEQUENCES)
    while most > params.n_outputs_max:
        most //= 2
    return most


def _created(model: Model, options: ContextOptions, params: Any) -> Any:  # noqa: ANN401 - of C
    """A new ``llama_context``; its log begins with a mark."""
    native_log.mark()
    created = C.llama_init_from_model(model.c, params)
    if created:
        return created
    name, reason = model.options.path.name, _last_line()
    if ran_out_of_memory():
        raise DoesNotFitError(
            f"no context of {options.ctx_size} tokens could be made for {name} ({reason}); "
            "choose a smaller -c, or cache types -ctk/-ctv that take less"
        )
    cache = "--moe-cache-mib, " if options.moe_cache_mib else ""
    raise UsageError(
        f"no context can be made for {name} with these options ({reason}); change {cache}-fa, "
        "-ctk, -ctv, -b or -ub"
    )


def _last_line() -> str:
    lines = [line for line in native_log.tail(20) if line.strip()]
    return lines[-1].strip() if lines else "llama.cpp gave no reason"
