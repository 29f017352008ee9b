"""The loaded pair: the native objects, the order in which they close, and caches kept of them."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain

import psutil

from spectui.cores import default_threads
from spectui.engine.commands import LoadDraft, LoadTarget
from spectui.engine.demand import free_memory
from spectui.engine.events import LoadProgress, Role, Sink
from spectui.engine.prompt_store import PromptStore
from spectui.errors import BadInputError, DoesNotFitError, MissingLibraryError, UsageError
from spectui.llama.architectures import check_generates
from spectui.llama.breakdown import bytes_beside_weights
from spectui.llama.buffers import HOST, Buffer, ModelMemory, add_up, mapped_bytes
from spectui.llama.context import Context
from spectui.llama.devices import gpu_memories, has_gpu
from spectui.llama.model import AbortFlag, Model, check_pair
from spectui.llama.mtp import MtpContext, mtp_context
from spectui.llama.pair import AnswersContext, DraftContext, TargetContext
from spectui.llama.threadpools import use_numa
from spectui.models.facts import check_is_model, check_is_target, check_mtp
from spectui.models.gguf import read_gguf
from spectui.models.weights import WeightTraffic, mtp_traffic, shifted_traffic, weight_traffic
from spectui.options.drafters import Ngram
from spectui.options.setup import ContextOptions
from spectui.speculative.drafters import TextDrafter
from spectui.speculative.ngram import ngram_drafter

_CHAT_BYTES = 2 << 30


def _room_for_chat() -> int:
    """Bytes that a chat which is put aside may take: half of what is free, but not too few.

    A larger one is evaluated again.
    """
    return max(_CHAT_BYTES, psutil.virtual_memory().available // 2)


class Conversation:
    """Knows which contexts hold the chat, and keeps its caches when they do not.

    What is lost costs time, never correctness: the chat's prompt is then evaluated again.
    """

    def __init__(self) -> None:
        """Hold no chat yet."""
        self._present: set[Context] = set()
        self._aside: dict[Context, tuple[bytes, list[int]]] = {}
        self._drafters: dict[Ngram, TextDrafter] = {}

    def ngram_drafter(self, options: Ngram) -> TextDrafter:
        """The n-gram drafter with these settings, which has learnt from the chat's turns."""
        return self._drafters.setdefault(options, ngram_drafter(options))

    def put_aside(self, contexts: Sequence[Context]) -> None:
        """Save the chat's caches, if ``contexts`` hold them: others are about to overwrite them."""
        leaving = [context for context in contexts if context in self._present]
        self._present.difference_update(leaving)
        kept_bytes = sum(len(cache) for cache, _tokens in self._aside.values())
        if kept_bytes + sum(context.state_bytes for context in leaving) <= _room_for_chat():
            self._aside |= {context: (context.save(), context.tokens.copy()) for context in leaving}

    def take_up(self, contexts: Sequence[Context]) -> None:
        """Make the contexts hold the chat, or nothing."""
        for context in contexts:
            if context in self._present:
                continue
            context.clear()
            if context in self._aside:
                context.restore(*self._aside[context])
        self._aside = {}
        self._present = set(contexts)

    def forget(self, context: Context) -> None:
        """Forget a context that is about to close."""
        self._aside.pop(context, None)
        self._present.discard(context)

    def clear(self) -> None:
        """Forget everything."""
        self._drafters.clear()
        self._aside = {}
        self._present = set()


_LEAST_PROMPTS_BYTES = 256 << 20
"""Bytes that caches of prompts may take even where little memory is free."""


class LoadedModels:
    """At most one target and one draft. Not thread-safe: the engine's thread owns it."""

    def __init__(self) -> None:
        """Start with nothing loaded."""
        self.abort = AbortFlag()
        """Ends what they load or decode."""
        self._target_stack = ExitStack()
        self._draft_stack = ExitStack()
        self.context_options = ContextOptions()
        """Options of both contexts."""
        self._target: TargetContext | None = None
        self._draft: DraftContext | MtpContext | None = None
        self._mtp: MtpContext | None = None
        self._loads_mtp = False
        """Whether the target was loaded for drafts of MTP layers."""
        self.prompts = PromptStore(self._free_for_prompts)
        self.conversation = Conversation()
        self.memory: dict[Role, ModelMemory] = {}
        """Memory that each loaded model takes and its decodes read."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers of what is loaded."""
        loaded = ((Role.TARGET, self._target), (Role.DRAFT, self._draft))
        groups = (self.memory[role].buffers for role, context in loaded if context is not None)
        return tuple(chain.from_iterable(groups))

    @property
    def contexts(self) -> tuple[Context, ...]:
        """Loaded contexts, the target's first."""
        contexts = (self._target, self._draft, self._mtp)
        return tuple(context for context in contexts if context is not None)

    def _free_for_prompts(self) -> int:
        """Bytes that caches of prompts may take beside those that are kept.

        Together half of what the models leave: another draft may come, and other programs too.
        Mapped weights are counted as free by the kernel, but must not be read from disk again.
        """
        kept = self.prompts.n_bytes
        free = psutil.virtual_memory().available - mapped_bytes(self.buffers)
        return max(_LEAST_PROMPTS_BYTES, (kept + free) // 2) - kept

    def has_room_for_answers(self, n_answers: int, n_cells: int) -> bool:
        """Whether a plan of an ``AnswersContext`` fits beside all that is loaded.

        On the host into half of what the models leave, as caches of prompts.
        """
        target = self.target
        free = dict(free_memory(gpu_memories()).by_memory)
        free[HOST] = (free[HOST] - mapped_bytes(self.buffers)) // 2
        options = self.context_options
        with (
            # llama.cpp may make no such context, or a library not tell what it takes.
            suppress(DoesNotFitError, MissingLibraryError, UsageError),
            Model(target.model.options, no_alloc=True) as model,
            AnswersContext(model, options, n_answers=n_answers, n_cells=n_cells) as planned,
        ):
            needed = bytes_beside_weights(planned.c)
            return all(n_bytes <= free.get(name, n_bytes) for name, n_bytes in needed.items())
        return False

    @property
    def target(self) -> TargetContext:
        """The target's context.

        Raises:
            UsageError: none is loaded.
        """
        if self._target is None:
            raise UsageError("no target is loaded; give one with -m")
        return self._target

    @property
    def draft(self) -> DraftContext:
        """The context of a draft that is a model of its own.

        Raises:
            UsageError: none is loaded.
        """
        if not isinstance(self._draft, DraftContext):
            raise UsageError("no draft is loaded; give one with -md")
        return self._draft

    @property
    def mtp(self) -> MtpContext:
        """The context of the MTP layers: those of a loaded file, else the target's own.

        Raises:
            UsageError: neither is loaded.
        """
        if isinstance(self._draft, MtpContext):
            return self._draft
        if self._mtp is None:
            raise UsageError("the target was loaded without its MTP layers; load it with them")
        return self._mtp

    @property
    def draft_context(self) -> DraftContext | MtpContext:
        """The context of the loaded draft, whatever it consists of."""
        return self.mtp if isinstance(self._draft, MtpContext) else self.draft

    def mtp_layers(self, role: Role) -> int:
        """Layers with which the target can draft for itself, or a draft for it; 0 for none."""
        context = self._mtp if role is Role.TARGET else self._draft
        return context.n_layers if isinstance(context, MtpContext) else 0

    def load_target(self, command: LoadTarget, sink: Sink) -> None:
        """Load model and context. On failure nothing is loaded.

        Raises:
            BadInputError: the model cannot generate, or lacks MTP layers that were asked for.
        """
        self.close()
        use_numa(command.context.numa)
        path = command.options.path
        gguf = read_gguf(path)
        check_is_target(path, gguf)
        check_generates(path, gguf)
        if command.mtp:
            check_mtp(path, gguf, gguf)
        load_mtp = command.mtp or command.mtp_file
        with ExitStack() as stack:
            model = stack.enter_context(self._model(command, sink, load_mtp=load_mtp))
            model.check_overrides()
            context = TargetContext(
                model,
                command.context,
                max_draft=command.max_draft,
                n_snapshots=command.max_draft if load_mtp else 0,
            )
            stack.enter_context(context)
            mtp = mtp_context(context, command.context) if command.mtp else None
            if mtp is not None:
                stack.enter_context(mtp)
            self.memory[Role.TARGET] = _memory(model, context, mtp)
            self._target_stack = stack.pop_all()
        self._target, self._mtp, self._loads_mtp = context, mtp, load_mtp
        self.context_options = command.context

    def load_draft(self, command: LoadDraft, sink: Sink) -> None:
        """Load a draft beside the target. On failure the target stays, without a draft.

        Raises:
            BadInputError: it is no model of its own, or has no MTP layers for the target where
                those were asked for, or its vocabulary does not fit the target's.
            UsageError: the target was loaded for other drafts than MTP layers.
        """
        self.unload_draft()
        path, target = command.options.path, self.target.model
        if command.mtp:
            check_mtp(path, read_gguf(path), read_gguf(target.options.path))
        else:
            check_is_model(path, read_gguf(path))
            check_generates(path, read_gguf(path))
        with ExitStack() as stack:
            model = stack.enter_context(self._model(command, sink, load_mtp=command.mtp))
            check_pair(target, model)
            context = self._new_draft_context(model, mtp=command.mtp)
            stack.enter_context(context)
            self.memory[Role.DRAFT] = _memory(model, context)
            self._draft_stack = stack.pop_all()
        if command.mtp:
            # What is kept is of the layers that drafted before.
            self.prompts.forget(MtpContext)
        self._draft = context

    def _model(self, command: LoadTarget | LoadDraft, sink: Sink, *, load_mtp: bool) -> Model:
        role = Role.TARGET if isinstance(command, LoadTarget) else Role.DRAFT
        path = command.options.path
        return Model(
            command.options,
            on_progress=lambda done: sink(LoadProgress(role=role, path=path, fraction=done)),
            abort=self.abort,
            load_mtp=load_mtp,
        )

    def _new_draft_context(self, model: Model, *, mtp: bool) -> DraftContext | MtpContext:
        target, options = self.target, _draft_options(self.context_options)
        if mtp and not self._loads_mtp:
            raise UsageError("the target was loaded for other drafts than MTP layers")
        if mtp:
            return mtp_context(target, options, model)
        return DraftContext(model, options, target_vocabulary=target.vocabulary)

    def unload_draft(self) -> None:
        """Free the draft, if there is one."""
        if self._draft is not None:
            self.conversation.forget(self._draft)
            self.prompts.forget(type(self._draft))
        self._draft = None
        self._draft_stack.close()

    def close(self) -> None:
        """Free everything: contexts before their models, the draft before the target."""
        self.unload_draft()
        self.conversation.clear()
        self._target = self._mtp = None
        self.prompts.clear()
        self._target_stack.close()


def _draft_options(options: ContextOptions) -> ContextOptions:
    """Context options of a draft, by ``common_base_params_to_speculative``."""
    batch = options.threads_batch or options.threads or default_threads()
    return replace(
        options,
        threads=options.threads_draft or options.threads,
        threads_batch=options.threads_batch_draft or batch,
    )


def _memory(model: Model, *contexts: Context | None) -> ModelMemory:
    """Memory of a model and its contexts, and what decodes read of it."""
    used = [one for one in contexts if one is not None]
    has_mtp = any(isinstance(one, MtpContext) for one in used)
    traffic = own = None
    shifted: dict[int, WeightTraffic] = {}
    # It has been loaded: what fails is a file that only the reader of headers cannot follow.
    with suppress(BadInputError):
        gguf, options = read_gguf(model.options.path), model.options
        traffic = weight_traffic(gguf, options, gpu_devices=has_gpu())
        shifted = shifted_traffic(gguf, options, gpu_devices=has_gpu())
        own = mtp_traffic(gguf, options, gpu_devices=has_gpu()) if has_mtp else None
    if own is not None and len(used) == 1:
        # A file of MTP layers alone.
        traffic, own = own, None
    caches = (one for context in used for one in context.buffers)
    buffers = add_up((*model.buffers, *caches))
    return ModelMemory(
        buffers=buffers, traffic=traffic, mtp_traffic=own, shifted=shifted, devices=gpu_memories()
    )
