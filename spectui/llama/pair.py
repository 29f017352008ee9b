"""Contexts in the roles of the speculative loop: a target that samples, a draft that proposes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from spectui.errors import UsageError
from spectui.llama.context import Context, Logits
from spectui.llama.library import EXT, C, library
from spectui.llama.model import Model
from spectui.llama.sampling import SamplerChain, top_token
from spectui.llama.search import LIBRARY_VARIABLE
from spectui.llama.threadpools import ThreadPools
from spectui.llama.vocabulary import Vocabulary
from spectui.options.setup import ContextOptions
from spectui.speculative.models import Outputs, can_forget

HiddenStates = npt.NDArray[np.float32]
"""[n, n_embd] of consecutive positions."""


_READ_AT_ONCE = 16
"""Tokens of a text that a draft reads at once: the logits of more would take much memory."""


class Follower(Protocol):
    """Reads the hidden states of what a target decodes."""

    def make_room(self, n: int) -> None:
        """Use what it was shown, if ``n`` more are too many to keep."""

    def receive(self, position: int, states: HiddenStates) -> None:
        """Take the states of what was decoded from ``position`` on; valid during the call."""


class TargetContext(Context):
    """Implements ``TargetModel``: samples with the chain it is given per generation."""

    sampler: SamplerChain | None = None
    prompt_logits: Logits | None = None
    """[n_vocab] logits of a restored prompt, which a restored cache lacks."""
    _follower: Follower | None = None
    _pools: ThreadPools | None = None

    def __init__(
        self,
        model: Model,
        options: ContextOptions,
        *,
        max_draft: int,
        n_snapshots: int = 0,
        n_slots: int = 1,
    ) -> None:
        """Room for the logits of a draft of ``max_draft`` tokens and the bonus token.

        However large its cache, it holds no more tokens than the model was trained for.

        Snapshots of a recurrent state are for drafts of MTP layers alone, as in llama-server
        (``need_n_rs_seq``).
        """
        self.max_draft = max_draft
        super().__init__(
            model, options, max_outputs=max_draft + 1, n_snapshots=n_snapshots, n_slots=n_slots
        )
        self._n_embd: int = C.llama_model_n_embd_out(model.c)
        if not model.no_alloc:
            # As a slot of llama-server (``n_ctx_slot``). A plan tells what is allocated.
            self.n_ctx = min(self.n_ctx, C.llama_model_n_ctx_train(model.c))

    def _adapt(self, params: Any) -> None:  # noqa: ANN401 - a C structure
        add_moe_cache(params, self._options)

    def _prepare(self) -> None:
        if not self.model.no_alloc:
            self._pools = ThreadPools(self.c, self._options, n_threads=C.llama_n_threads(self.c))
        super()._prepare()

    def close(self) -> None:
        """Free caches and buffers, then end the threads."""
        super().close()
        if self._pools is not None:
            self._pools.close()

    def lend_threads(self, context: object) -> None:
        """Have another ``llama_context`` of the model decode with this one's threads."""
        if self._pools is not None:
            self._pools.attach(context)

    def use_snapshots(self, n: int) -> None:
        """Go back to the last ``n`` snapshots of a recurrent state at most, from now on."""
        self._memory.n_snapshots = min(n, C.llama_n_rs_seq(self.c))

    def show_states_to(self, follower: Follower | None) -> None:
        """Let ``follower`` read along from now on; None for no follower, which is faster."""
        self._follower = follower
        EXT.llama_set_embeddings_nextn(self.c, follower is not None, False)

    def _decode_piece(self, piece: Sequence[int], outputs: Outputs, start: int) -> None:
        follower, position = self._follower, self.n_past
        if follower is not None and outputs is not Outputs.ALL:
            # Part of a prompt; drafts are short.
            follower.make_room(len(piece))
        super()._decode_piece(piece, outputs, start)
        if follower is not None:
            states = EXT.llama_get_embeddings_nextn(self.c)
            shape = (len(piece), self._n_embd)
            follower.receive(position, np.ctypeslib.as_array(states, shape))

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Decode like ``Context.decode``, and drop the logits of a restored prompt."""
        self.prompt_logits = None
        super().decode(tokens, outputs)

    def can_forget(self, n_tokens: int) -> bool:
        """Whether the last ``n_tokens`` of the last decode can be truncated without another one."""
        return can_forget(self.rollback, n_tokens, self._memory.n_snapshots)

    def sample(self, output: int) -> int:
        """Sample from an output of the last decode, or from a restored prompt."""
        if self.sampler is None:
            raise RuntimeError("no sampler was set for this generation")
        logits = self.logits(output) if self.prompt_logits is None else self.prompt_logits
        return self.sampler.sample(logits)

    def is_eog(self, token: int) -> bool:
        """Whether ``token`` ends the text."""
        return token in self.vocabulary.end_tokens


class AnswersContext(Context):
    """Room for several answers of a target, where its own context has room for one sequence."""

    def __init__(
        self,
        model: Model,
        options: ContextOptions,
        *,
        n_answers: int,
        n_cells: int,
        target: TargetContext | None = None,
    ) -> None:
        """Allocate caches of ``n_cells`` tokens in all, and the logits of a token of each answer.

        Args:
            model: the target's; on one without memory this plans.
            options: of the target's context.
            n_answers: sequences, at least 2.
            n_cells: their tokens together.
            target: lends its threads, and closes after this; None for a plan.

        Raises:
            DoesNotFitError: caches or buffers could not be allocated.
        """
        sizes = replace(options, ctx_size=n_cells, batch_size=n_answers, ubatch_size=n_answers)
        super().__init__(model, sizes, max_outputs=n_answers)
        if target is not None:
            target.lend_threads(self.c)

    def _adapt(self, params: Any) -> None:  # noqa: ANN401 - a C structure
        # As large as a micro-batch, of which llama.cpp makes a multiple of their number.
        params.n_seq_max = params.n_ubatch


def add_moe_cache(params: Any, options: ContextOptions) -> None:  # noqa: ANN401 - a C structure
    """Ask for a cache of experts where the options do: of the target alone, as in llama-server.

    Raises:
        UsageError: the library has none; the rest llama.cpp judges by model and devices.
    """
    size_mib = options.moe_cache_mib
    if not size_mib:
        return
    if not library().reading.has_moe_cache:
        raise UsageError(
            f"--moe-cache-mib {size_mib}: {library()} has no cache of experts; leave it out, or "
            f"name the folder of a llama.cpp of b11548 or later in {LIBRARY_VARIABLE}"
        )
    params.moe_cache_size = size_mib << 20


class DraftContext(Context):
    """Implements ``DraftModel``.

    Target and draft share the tokens of the smaller vocabulary; llama.cpp lets the larger one have
    up to 128 more, mostly padding.
    """

    def __init__(
        self,
        model: Model,
        options: ContextOptions,
        *,
        target_vocabulary: Vocabulary,
        n_slots: int = 1,
    ) -> None:
        """Room for the logits of a few tokens, which recordings ask for; speculation for one's.

        As in llama-server it keeps no snapshots: they are of one decode, and a chain has many.
        """
        self._n_shared = min(model.vocabulary.n_tokens, target_vocabulary.n_tokens)
        self._lacks_tokens = self._n_shared < target_vocabulary.n_tokens
        self.sampler: SamplerChain | None = None
        """By which a draft is sampled; None where nothing asks for that."""
        super().__init__(model, options, max_outputs=_READ_AT_ONCE, n_slots=n_slots)

    def decode(self, tokens: Sequence[int], outputs: Outputs) -> None:
        """Decode like ``Context.decode``; token 0 stands in for what only the target has.

        The output cannot depend on it: the worst is a bad draft.
        """
        if self._lacks_tokens:
            tokens = [token if token < self._n_shared else 0 for token in tokens]
        super().decode(tokens, outputs)

    def top(self) -> tuple[int, float]:
        """Top token of the last decode, of those that the target knows."""
        return top_token(self.logits(0)[: self._n_shared])

    def chances(self, tokens: Sequence[int]) -> list[float]:
        """Probability of a token after each output of the last decode, as ``BatchedDraft``."""
        if self.sampler is None:
            return []
        return [
            self.sampler.chance(self.logits(output)[: self._n_shared], token)
            for output, token in enumerate(tokens)
        ]

    def tops(self) -> list[tuple[int, float]]:
        """Top tokens after each output of the last decode, of those that the target knows."""
        outputs = range(self.n_outputs)
        return [top_token(self.logits(output)[: self._n_shared]) for output in outputs]
