"""Layers for multi-token prediction (MTP), as a draft of the target's sequence.

They are the target's own, or in a file of their own, which is a model to llama.cpp. They take a
token and the target's hidden state of the position before it, and give logits and a hidden state of
their own, which stands in for the target's where that has not decoded yet, as in
``common_speculative_impl_draft_mtp``.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spectui.llama.context import Context, make_mtp
from spectui.llama.library import EXT, C
from spectui.llama.model import Model
from spectui.llama.pair import HiddenStates, TargetContext
from spectui.llama.sampling import top_token
from spectui.llama.sequence import Batch, SequenceMemory
from spectui.models.facts import shares_cache
from spectui.options.setup import ContextOptions
from spectui.speculative.models import Outputs, n_common

State = npt.NDArray[np.float32]
"""[n_embd]"""


class _PairBatch(Batch):
    """Tokens, each with the hidden state of the position before it."""

    def __init__(self, capacity: int, n_embd: int) -> None:
        super().__init__(capacity)
        self.states = np.zeros((capacity, n_embd), np.float32)
        self.c.embd = self.states.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    def close(self) -> None:
        # The states are numpy's: llama.cpp must not free them.
        self.c.embd = None
        super().close()


class _BehindTargetBatch(_PairBatch):
    """Tokens that all stand at the place behind what a target holds."""

    def __init__(self, capacity: int, n_embd: int, target: TargetContext) -> None:
        super().__init__(capacity, n_embd)
        self._target = target

    def fill(self, tokens: Sequence[int], first_position: int, outputs: Outputs) -> None:
        """Hold ``tokens``, wherever they would stand in a cache of their own."""
        del first_position
        super().fill(tokens, self._target.n_past, outputs)


class MtpContext(Context):
    """MTP layers over the sequence that the target decodes; implements ``DraftModel``.

    It reads along once it is the follower in the target's ``show_states_to``.
    """

    _batch: _PairBatch

    def __init__(
        self, target: TargetContext, options: ContextOptions, model: Model | None = None
    ) -> None:
        """Allocate a cache for the MTP layers, of whose drafts all states can be had at once.

        Args:
            target: stays open longer than this context; its model was loaded with ``load_mtp`` and,
                without another ``model``, passed ``check_mtp``.
            options: those of the target.
            model: has the layers, was loaded with ``load_mtp`` and passed ``check_mtp``, and
                stays open longer than this context; None for the target's own.

        Raises:
            DoesNotFitError: caches or buffers could not be allocated.
        """
        model = target.model if model is None else model
        self._target = target
        self.n_layers: int = C.llama_model_n_layer_nextn(model.c)
        """Number of layers that draft in turn: of several, each drafts one token of a chain."""
        if shares_cache(model.info.arch):
            # One decode runs all of them.
            self.n_layers = 1
        self._chain_start = self._n_steps = 0
        self._n_embd: int = C.llama_model_n_embd_out(model.c)
        self._states: dict[int, State] = {}
        """States by position: the target's, and its own beyond those. Few more than are needed."""
        super().__init__(model, options, max_outputs=target.max_draft + 1, n_slots=target.n_slots)

    def _adapt(self, params: Any) -> None:  # noqa: ANN401 - a C structure
        is_own = self.model is self._target.model
        make_mtp(params, self.model, self.n_slots, is_own=is_own)
        params.ctx_other = self._target.c

    def _new_batch(self) -> _PairBatch:
        return _PairBatch(self.n_batch, self._n_embd)

    def _prepare(self) -> None:
        EXT.llama_set_embeddings_nextn(self.c, True, True)
        # On a plan nothing can be decoded, nor need be: the cache holds tokens, in hybrids as well.
        if not self.model.no_alloc:
            super()._prepare()

    def keep_prefix_of_both(self, prompt: Sequence[int]) -> None:
        """``keep_prefix`` of these layers and of the target, which shows again what they lack.

        That is one token more where these were cut back: to read the next one they take the hidden
        state of the last one, which is lost then.
        """
        self.keep_prefix(prompt)
        is_known = self.n_past - 1 in self._states
        n_followed = self.n_past if is_known else max(self.n_past - 1, 0)
        self._target.keep_prefix(prompt[: n_followed + 1])

    def receive(self, position: int, states: HiddenStates) -> None:
        """Take the hidden states of what the target has just decoded from ``position`` on.

        Tokens that these layers have read already need none, except the last of them, for the next.
        """
        n_past = max(self.n_past - 1 - position, 0)
        self._states.update(enumerate(states[n_past:].copy(), start=position + n_past))

    def keep_prefix(self, prompt: Sequence[int]) -> None:
        """Keep a prefix like ``Context.keep_prefix``, but decode nothing again that cannot be kept.

        The hidden states for that are lost: the target has to show it once more. Nor is kept what
        the target has not decoded: a draft that was stopped in mid-chain read it with states of its
        own.
        """
        n_past = min(n_common(self.tokens, prompt[:-1]), self._target.n_past)
        if n_past < self.n_past:
            self._forget(n_past)

    def make_room(self, n: int) -> None:
        """Decode what gathered while the target reads a prompt, if ``n`` more were too many."""
        if self._target.n_past - self.n_past + n > self.n_batch:
            self.catch_up()

    def catch_up(self) -> None:
        """Decode what it lacks of the target's tokens, while it holds their hidden states.

        Raises:
            CancelledError: the abort flag was set meanwhile.
        """
        lacking = self._target.tokens[self.n_past :]
        if lacking:
            self.decode(lacking, Outputs.NONE)

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Decode like ``Context.decode``; after ``Outputs.LAST`` it may go on beyond the target."""
        if outputs is not Outputs.LAST:
            self._forget_states()
            super().decode(tokens, outputs)
            return
        if self.n_layers > 1:
            tokens = self._next_step(tokens)
        # Llama.cpp gives as many hidden states as there are outputs; of some architectures those of
        # the first tokens, whichever tokens the outputs are of. So all have outputs.
        head, tail = tokens[: -self.max_outputs], tokens[-self.max_outputs :]
        if head:
            super().decode(head, Outputs.NONE)
        super().decode(tail, Outputs.ALL)
        if self.n_past > self._target.n_past:
            address = EXT.llama_get_embeddings_nextn_ith(self.c, len(tail) - 1)
            own = np.ctypeslib.as_array(address, (self._n_embd,))
            self._states[self.n_past - 1] = own.copy()

    def _next_step(self, tokens: Sequence[int]) -> Sequence[int]:
        """Let the next layer read the chain so far, of which its own cache holds nothing."""
        chain = (*self.tokens[self._chain_start :], *tokens)
        self.truncate(self._chain_start)
        EXT.llama_set_nextn_layer_offset(self.c, self._n_steps)
        self._n_steps += 1
        return chain

    def mark(self) -> None:
        """Begin a chain; the hidden states of what came long before are forgotten."""
        self._forget_states()
        self._chain_start, self._n_steps = self.n_past, 0
        super().mark()

    def _forget_states(self) -> None:
        needed = self.n_past - 1
        self._states = {at: state for at, state in self._states.items() if at >= needed}

    def _decode_piece(self, piece: Sequence[int], outputs: Outputs, start: int) -> None:
        position, states = self.n_past, self._batch.states
        for row in range(len(piece)):
            # Nothing comes before the first token, and after a cut the state may be lost: zeros,
            # as llama-server starts with.
            states[row] = self._states.get(position - 1 + row, 0.0)
        if outputs is not Outputs.NONE:
            super()._decode_piece(piece, outputs, start)
            return
        for layer in range(self.n_layers):
            self.truncate(position)
            EXT.llama_set_nextn_layer_offset(self.c, layer)
            super()._decode_piece(piece, outputs, start)

    def top(self) -> tuple[int, float]:
        """Top token of the last output, of those that the target knows."""
        n_known = self._target.vocabulary.n_tokens
        return top_token(self.logits(self.n_outputs - 1)[:n_known])

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._states = {}
        self._chain_start = self._n_steps = 0

    @property
    def _next_state(self) -> State:
        """The hidden state that the next token needs."""
        return self._states.get(self.n_past - 1, np.zeros(self._n_embd, np.float32))

    @property
    def state_bytes(self) -> int:
        """Size of what ``save`` would return now."""
        return super().state_bytes + self._next_state.nbytes

    def save(self) -> bytes:
        """Return the cache, and the hidden state that the next token needs."""
        return self._next_state.tobytes() + super().save()

    def restore(self, state: bytes, tokens: Sequence[int]) -> None:
        """Bring back what ``save`` returned when ``tokens`` were held."""
        n_bytes = self._next_state.nbytes
        super().restore(state[n_bytes:], tokens)
        self._states = {len(tokens) - 1: np.frombuffer(state[:n_bytes], np.float32)}


class SharingMtpContext(MtpContext):
    """MTP layers without a cache of their own: they attend to the target's.

    All tokens of a draft stand at the place behind that, as llama-server has it.
    """

    def _new_batch(self) -> _PairBatch:
        return _BehindTargetBatch(self.n_batch, self._n_embd, self._target)

    def _prepare(self) -> None:
        """Forget by truncation, which does nothing here: the cache is the target's."""
        EXT.llama_set_embeddings_nextn(self.c, True, True)
        self._memory = SequenceMemory(self.c, swa_full=True)

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Decode the last of ``tokens`` if there shall be an output; take note of the others."""
        self._forget_states()
        self.n_outputs = 0
        self.tokens.extend(tokens if outputs is Outputs.NONE else tokens[:-1])
        if outputs is not Outputs.NONE:
            super().decode(tokens[-1:], Outputs.LAST)

    def clear(self) -> None:
        """Forget everything, but leave the cache to the target."""
        self.tokens.clear()
        self._states = {}
        self.n_outputs = 0

    @property
    def state_bytes(self) -> int:
        """Size of what ``save`` would return now."""
        return self._next_state.nbytes

    def save(self) -> bytes:
        """Return the hidden state that the next token needs."""
        return self._next_state.tobytes()

    def restore(self, state: bytes, tokens: Sequence[int]) -> None:
        """Bring back what ``save`` returned when ``tokens`` were held."""
        self.clear()
        self.tokens.extend(tokens)
        self._states = {len(tokens) - 1: np.frombuffer(state, np.float32)}


def mtp_context(
    target: TargetContext, options: ContextOptions, model: Model | None = None
) -> MtpContext:
    """The context for the MTP layers of ``model``; arguments and errors as ``MtpContext``."""
    shares = model is not None and shares_cache(model.info.arch)
    kind = SharingMtpContext if shares else MtpContext
    return kind(target, options, model)
