"""Options with which a pair that has no room would fit, each tried by a plan before it is said."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from spectui.engine.demand import FreeMemory, can_load, demands, least_left
from spectui.engine.fitting import (
    PlanCall,
    alone,
    largest_context,
    largest_n_gpu_layers,
    smallest_n_cpu_moe,
    with_n_cpu_moe,
)
from spectui.errors import DoesNotFitError
from spectui.llama.buffers import HOST
from spectui.llama.planned import PlanRequest
from spectui.options.setup import FlashAttention, ModelOptions

_SMALLER = "q8_0"
"""Type of a cache that costs next to no quality."""
_LARGE_TYPES = frozenset({"f32", "f16", "bf16"})

_Remedy = tuple[str, PlanRequest]
"""Options as they are typed, and the request with them."""


def remedies(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> tuple[str, ...]:
    """Return options with each of which alone the request fits, in llama-server's words.

    GPUs keep their margin. Where nothing fits whole, it is what can be loaded at all and read from
    disk, unless the request can be loaded as it is.

    Args:
        plan: asked some twenty times. Best one that remembers.
        request: what has no room.
        free: free memory, with nothing of it loaded.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """
    fitting, loading = list[str](), list[str]()
    for text, changed in _candidates(plan, request, free):
        with suppress(DoesNotFitError):
            found = demands(plan(changed), free)
            if least_left(found) >= 0:
                fitting.append(text)
            elif least_left(found, from_disk=True) >= 0:
                loading.append(text)
    with suppress(DoesNotFitError):
        if can_load(plan(request), free):
            loading.clear()
    return tuple(fitting or loading)


def _candidates(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> Iterator[_Remedy]:
    """Yield what may help, what costs least first."""
    has_gpus = bool(free.by_memory.keys() - {HOST})
    n_ctx = largest_context(plan, request, free)
    if n_ctx is not None and n_ctx < request.context.ctx_size:
        yield f"-c {n_ctx}", replace(request, context=replace(request.context, ctx_size=n_ctx))
    n_cpu_moe = smallest_n_cpu_moe(plan, request, free) if has_gpus else None
    if n_cpu_moe:
        target = with_n_cpu_moe(request.target, n_cpu_moe)
        yield f"--n-cpu-moe {n_cpu_moe}", replace(request, target=target)
    yield from _with_smaller_caches(request)
    n_layers = largest_n_gpu_layers(plan, request, free) if has_gpus else None
    if n_layers is not None:
        target = replace(request.target, n_gpu_layers=n_layers)
        yield f"-ngl {n_layers}", replace(request, target=target)
    draft = request.draft
    if draft is not None and draft.n_gpu_layers and has_gpus:
        yield "-ngld 0", replace(request, draft=replace(draft, n_gpu_layers=0))
    if draft is not None or request.mtp:
        yield "the target without its draft", alone(request)


def _with_smaller_caches(request: PlanRequest) -> Iterator[_Remedy]:
    """Yield caches of ``q8_0`` for those that are larger."""
    words = list[str]()

    def smaller(model: ModelOptions, suffix: str = "") -> ModelOptions:
        if {model.cache_type_k, model.cache_type_v}.isdisjoint(_LARGE_TYPES):
            return model
        words.append(f"-ctk{suffix} {_SMALLER} -ctv{suffix} {_SMALLER}")
        return replace(model, cache_type_k=_SMALLER, cache_type_v=_SMALLER)

    target = smaller(request.target)
    draft = None if request.draft is None else smaller(request.draft, "d")
    context = request.context
    if words and context.flash_attn is FlashAttention.OFF:
        # Without it llama.cpp has no quantized V.
        words.append("-fa on")
        context = replace(context, flash_attn=FlashAttention.ON)
    if words:
        yield " ".join(words), replace(request, target=target, draft=draft, context=context)
