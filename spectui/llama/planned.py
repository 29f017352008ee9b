"""Memory that a pair would take. Pure: displaying or judging a plan needs no llama.cpp."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from spectui.documents import Known
from spectui.errors import SpectuiError
from spectui.llama.buffers import Buffer, DeviceMemory
from spectui.llama.facts import LibraryFacts
from spectui.models.facts import ModelFacts, is_mtp_file
from spectui.models.weights import WeightTraffic
from spectui.options.drafters import DraftSimple
from spectui.options.setup import ContextOptions, ModelOptions
from spectui.speculative.models import Rollback


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A target, and a draft beside it, as they would be loaded."""

    target: ModelOptions
    draft: ModelOptions | None = None
    mtp: bool = False
    """Whether MTP layers draft: those of ``draft`` or, without one, the target's own."""
    context: ContextOptions = field(default_factory=ContextOptions)
    """Options of both contexts; cache types are those of each model's own options."""
    max_draft: int = DraftSimple().draft_max
    """Longest draft: the target computes logits for it, and keeps snapshots where it can."""
    n_slots: int = 1
    """Slots of a llama-server with ``-np``, each with a context of that size."""

    def beside(self, draft: ModelOptions) -> "PlanRequest":
        """The same target with a draft, whose file tells whether it has MTP layers alone."""
        return replace(self, draft=draft, mtp=is_mtp_file(draft.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """One model with its context."""

    info: ModelFacts
    n_ctx: int
    """Tokens that the context would hold, as llama.cpp rounds what was asked for."""
    rollback: Rollback
    buffers: tuple[Buffer, ...]
    """Weights, cache and compute in bytes. Recurrent state and output are what llama.cpp's log
    tells, in hundredths of a MiB; cache and recurrent state together are exact."""
    traffic: WeightTraffic
    """Bytes that its decodes read."""
    misplanned: tuple[Buffer, ...] = ()
    """Bytes by which llama.cpp's own plan is off, which ``--fit`` goes by: more, or fewer, than
    what is allocated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Allocations of a ``PlanRequest``."""

    target: ModelPlan
    draft: ModelPlan | None
    """Or the MTP layers, with an output for each drafted token. Those of a llama-server have one
    for each slot, so that their compute buffer may be less by the logits of the others. The weights
    of a target's own are among the target's."""
    incompatibility: str | None
    """Why the draft cannot serve the target; None if it can, and without a draft."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers of both models."""
        return self.target.buffers + (self.draft.buffers if self.draft else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The llama.cpp that plans, and the GPUs that it sees."""

    llama_cpp_python: str
    """Version of the binding."""
    llama_cpp: Known[str]
    """Version of llama.cpp itself, or why there is none."""
    backends: tuple[str, ...]
    """Backends that the library was built with, such as ``cuda``, with or without a driver."""
    gpus: tuple[DeviceMemory, ...]
    library: LibraryFacts | None = None
    """None without a library."""


class Ask(Enum):
    """Questions without particulars."""

    ARE_YOU_THERE = "are you there"
    """Answered by itself, once llama.cpp is loaded. It starts no driver."""
    BACKEND = "backend"
    """Answered by a ``Backend``."""


Question = Ask | PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file is looked at next; the answer itself comes after it."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A question has no answer."""

    error: SpectuiError


Answer = Ask | Backend | Plan | Refused


_BUILD_FOLDER = re.compile(r"\A/\S*/(?=[^/\s]+:\d+: )")
"""Folder in which llama.cpp was compiled, in front of a source file and its line."""


def without_folder(words: str) -> str:
    """llama.cpp's last words, without the folder that it was compiled in."""
    return _BUILD_FOLDER.sub("", words)


def are_of_rpc(words: str) -> bool:
    """Whether llama.cpp's last words are of a lost RPC server: only that ends the process there."""
    return "ggml-rpc" in words


CONTEXT_STEP = 256
"""Llama.cpp rounds contexts up to multiples of it."""
LONGEST = 1 << 20
"""Tokens of the longest contexts that llama.cpp plans itself: 150 MB, and a tenth of a second."""


def plan_any_length(plan: Callable[[PlanRequest], Plan], request: PlanRequest) -> Plan:
    """Plan a context of any length, too long a one by arithmetic, from shorter ones.

    Llama.cpp keeps some fifty bytes per token of a context, even of one that is only planned: two
    billion tokens are gigabytes, and a minute. What caches and compute buffers take grows along a
    line.

    Args:
        plan: plans contexts of up to ``LONGEST``; asked twice for a longer one.
        request: models and context to plan.
    """
    half = max(LONGEST // 2 // CONTEXT_STEP // request.n_slots, 1)
    n_steps = -(-request.context.ctx_size // CONTEXT_STEP)
    if n_steps <= 2 * half:
        return plan(request)

    def drawn(short: int, long: int) -> int:
        return long + (long - short) * (n_steps - 2 * half) // half

    def extended(short: ModelPlan, long: ModelPlan) -> ModelPlan:
        sizes = {(one.device, one.kind): one.size_bytes for one in short.buffers}
        buffers = (
            replace(
                one,
                size_bytes=drawn(sizes.get((one.device, one.kind), one.size_bytes), one.size_bytes),
            )
            for one in long.buffers
        )
        return replace(long, n_ctx=drawn(short.n_ctx, long.n_ctx), buffers=tuple(buffers))

    contexts = (replace(request.context, ctx_size=n * CONTEXT_STEP) for n in (half, 2 * half))
    short, long = (plan(replace(request, context=one)) for one in contexts)
    draft = short.draft and long.draft and extended(short.draft, long.draft)
    return replace(long, target=extended(short.target, long.target), draft=draft)
