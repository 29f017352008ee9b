"""Tiny pairs with random weights, whose generations can be stopped at any node of a graph."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spectui.closing import Closing
from spectui.errors import CancelledError
from spectui.llama.context import Context, Logits
from spectui.llama.library import C
from spectui.llama.model import AbortFlag, Model
from spectui.llama.mtp import MtpContext
from spectui.llama.pair import DraftContext, TargetContext
from spectui.llama.sampling import SamplerChain
from spectui.measure.lossless import Divergence
from spectui.options.setup import ContextOptions, Devices, ModelOptions, SamplingConfig
from spectui.speculative.decoder import Decoder
from spectui.speculative.drafters import Drafter
from spectui.speculative.models import Outputs, Rollback
from tests.support.architectures import (
    write_cohere2,
    write_glm4moe,
    write_lfm2,
    write_mamba,
    write_mimo2,
    write_qwen35,
)
from tests.support.models import Tiny, vocabulary, write_tiny

MAX_DRAFT = 16
N_VOCAB = len(vocabulary(Tiny()))
CONTEXT = ContextOptions(ctx_size=1024, ubatch_size=64, threads=1)
GREEDY = SamplingConfig(temp=0.0, ignore_eos=True)
NOISE = 0.1
"""Of a draft's weights: it is often wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of model by what it remembers, and how llama.cpp lets it forget."""

    name: str
    write: Callable[[Tiny, Path], None]
    rollbacks: tuple[Rollback, ...]
    n_experts: int = 0
    n_before: int = 0
    """Tokens ahead of every prompt: a window that has moved on has forgotten some of them."""
    mtp: bool = False
    """Whether it drafts for itself, and nobody else for it."""

    def written(self, folder: Path, noise: float) -> ModelOptions:
        """Its file in ``folder``, written on first use."""
        path = folder / f"{self.name}-{noise}.gguf"
        if not path.exists():
            self.write(Tiny(noise=noise, n_experts=self.n_experts), path)
        return ModelOptions(path=path)


def _write_windowed_hybrid(recipe: Tiny, path: Path) -> None:
    write_lfm2(recipe, path, window=32)


_MANY = 320
"""More than the cells of a window of 32 tokens and a micro-batch, in steps of 256."""
_TRUNCATES = (Rollback.TRUNCATE,)
_BOTH = (Rollback.SNAPSHOT, Rollback.CHECKPOINT)
DENSE = Kind(name="dense", write=write_tiny, rollbacks=_TRUNCATES)
RECURRENT = Kind(name="recurrent", write=write_mamba, rollbacks=(Rollback.CHECKPOINT,))
KINDS = (
    DENSE,
    Kind(name="mixture of experts", write=write_tiny, rollbacks=_TRUNCATES, n_experts=4),
    Kind(name="sliding window", write=write_cohere2, rollbacks=_TRUNCATES, n_before=_MANY),
    RECURRENT,
    Kind(name="hybrid", write=write_lfm2, rollbacks=_BOTH),
    Kind(
        name="hybrid with a window",
        write=_write_windowed_hybrid,
        rollbacks=_BOTH,
        n_before=_MANY,
    ),
    Kind(name="MTP layer, hybrid", write=write_qwen35, rollbacks=_BOTH, mtp=True),
    Kind(name="MTP layer with experts", write=write_glm4moe, rollbacks=_TRUNCATES, mtp=True),
    Kind(name="three MTP layers, window", write=write_mimo2, rollbacks=_TRUNCATES, mtp=True),
)


class NodeStop(AbortFlag):
    """Counts the nodes of the graphs that llama.cpp computes, and ends a decode after a chosen one.

    Slower than its base: Python is asked after every node.
    """

    def __init__(self) -> None:
        """Stop nothing."""
        super().__init__()
        self.n_nodes = 0
        self.stop_at: int | None = None
        self._called = C.ggml_abort_callback(self._computed)

    @property
    def callback(self) -> Any:  # noqa: ANN401 - a C function
        """Python's own, which counts."""
        return self._called

    def _computed(self, _data: object) -> bool:
        self.n_nodes += 1
        return self.stop_at is not None and self.n_nodes >= self.stop_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a generation came to."""

    tokens: tuple[int, ...]
    n_drafted: int
    n_accepted: int
    n_prompt_nodes: int
    """Graph nodes up to the first token."""
    n_nodes: int
    """Graph nodes in all."""
    stopped: bool


class Pair(Closing):
    """A target that forgets in a given way, and two drafts, one of them of another kind.

    A target with MTP layers has these instead.
    """

    def __init__(
        self,
        kind: Kind,
        rollback: Rollback,
        folder: Path,
        devices: tuple[Devices, Devices] = (Devices(), Devices()),
    ) -> None:
        """Write the models and open them, on the devices of target and drafts."""
        self.abort = NodeStop()
        self.mtp: MtpContext | None = None
        self.drafts: dict[str, DraftContext] = {}
        with ExitStack() as stack:
            options = replace(kind.written(folder, 0.0), devices=devices[0])
            model = stack.enter_context(Model(options, load_mtp=kind.mtp, abort=self.abort))
            # Where there are snapshots every draft may use them: the engine lets MTP layers alone.
            n_snapshots = MAX_DRAFT if rollback is Rollback.SNAPSHOT else 0
            context = TargetContext(model, CONTEXT, max_draft=MAX_DRAFT, n_snapshots=n_snapshots)
            self.target = stack.enter_context(context)
            if self.target.rollback is not rollback:
                raise RuntimeError(f"{kind.name} forgets by {self.target.rollback}, not {rollback}")
            if kind.mtp:
                mtp = MtpContext(self.target, CONTEXT)
                self.mtp = stack.enter_context(mtp)
            else:
                self.drafts = self._open_drafts(stack, kind, folder, devices[1])
            self._stack = stack.pop_all()

    def _open_drafts(
        self, stack: ExitStack, kind: Kind, folder: Path, devices: Devices
    ) -> dict[str, DraftContext]:
        other = RECURRENT if kind is DENSE else DENSE
        return {
            name: self._opened(stack, replace(drafting.written(folder, NOISE), devices=devices))
            for name, drafting in (("same kind", kind), ("other kind", other))
        }

    def _opened(self, stack: ExitStack, options: ModelOptions) -> DraftContext:
        model = stack.enter_context(Model(options, abort=self.abort))
        vocabulary_ = self.target.vocabulary
        context = DraftContext(model, CONTEXT, target_vocabulary=vocabulary_)
        return stack.enter_context(context)

    @property
    def contexts(self) -> Iterator[Context]:
        """Those of who drafts, and the target's."""
        if self.mtp is not None:
            yield self.mtp
        yield from self.drafts.values()
        yield self.target

    def forget(self) -> None:
        """Leave nothing in the caches, as before a measurement."""
        for context in self.contexts:
            context.clear()

    def recall(self, text: Sequence[int]) -> None:
        """Leave in the caches what they hold of ``text``, as the next turn of a chat does."""
        for context in self.contexts:
            context.keep_prefix(text)
            if context is self.mtp:
                # What its layers have not followed the target has to show them again.
                text = text[: context.n_past + 1]

    def generate(
        self, text: Sequence[int], drafter: Drafter, n_predict: int, stop_at: int | None = None
    ) -> Run:
        """Continue ``text`` from what the caches hold of it.

        Args:
            text: one token of it at least is not in the caches.
            drafter: of this generation alone.
            n_predict: tokens to emit.
            stop_at: graph node after which a stop is asked for; None for none.
        """
        abort, target = self.abort, self.target
        abort.n_nodes, abort.stop_at = 0, stop_at
        tokens: list[int] = []
        n_drafted = n_accepted = n_prompt_nodes = 0
        stopped = False
        with SamplerChain(GREEDY, target.vocabulary) as sampler:
            target.sampler = sampler
            target.show_states_to(None if type(drafter) is Drafter else self.mtp)
            decoder = Decoder(target, drafter, n_predict=n_predict, clock=time.perf_counter)
            try:
                tokens.append(decoder.start(text))
                n_prompt_nodes = abort.n_nodes
                for finished in decoder.rounds(tokens[0]):
                    tokens += finished.tokens
                    n_drafted += len(finished.draft)
                    n_accepted += finished.n_accepted
            except CancelledError:
                stopped = True
        abort.stop_at = None
        target.show_states_to(None)
        return Run(
            tokens=tuple(tokens),
            n_drafted=n_drafted,
            n_accepted=n_accepted,
            n_prompt_nodes=n_prompt_nodes,
            n_nodes=abort.n_nodes,
            stopped=stopped,
        )

    def divergence(
        self, name: str, prompt: Sequence[int], expected: Sequence[int], tokens: Sequence[int]
    ) -> Divergence | None:
        """Where ``tokens`` part from the target's own, and how clear its choice was there."""
        if tuple(tokens) == tuple(expected):
            return None
        pairs = enumerate(zip(expected, tokens, strict=False))
        position = next((at for at, (one, other) in pairs if one != other), None)
        if position is None:
            # One is the beginning of the other, which no rounding explains.
            shorter = min(len(expected), len(tokens))
            return Divergence(prompt_id=name, position=shorter, margin=math.inf, noise=0.0)
        text = (*prompt, *expected[:position])
        single, batched = self._logits(prompt, expected[:position]), self._logits(text, ())
        second, best = np.partition(single, -2)[-2:]
        return Divergence(
            prompt_id=name,
            position=position,
            margin=float(best - second),
            noise=float(abs(single - batched).max()),
        )

    def _logits(self, batch: Sequence[int], after: Sequence[int]) -> Logits:
        """Logits after ``batch``, and tokens that come one by one ``after`` it."""
        self.target.clear()
        self.target.decode(batch, Outputs.LAST)
        for token in after:
            self.target.decode((token,), Outputs.LAST)
        return self.target.logits(0).copy()

    def close(self) -> None:
        """Free everything."""
        self._stack.close()
