"""Settings that would fit: the largest context, experts in RAM, layers on the GPUs, and others.

Each is tried by a plan before it is said.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from spectui.engine.demand import (
    FreeMemory,
    can_load,
    demands,
    least_left,
    reads_from_disk,
)
from spectui.errors import DoesNotFitError
from spectui.llama.buffers import HOST
from spectui.llama.planned import CONTEXT_STEP, Plan, PlanRequest
from spectui.options.setup import FlashAttention, ModelOptions, TensorOverride

PlanCall = Callable[[PlanRequest], Plan]
"""Such as ``Planner.plan``. Best one that remembers: most are asked for more than once."""

_SMALLER = "q8_0"
"""Type of a cache that costs next to no quality."""
_LARGE_TYPES = frozenset({"f32", "f16", "bf16"})


def largest_context(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the largest ``-c`` that fits, up to the context that the target was trained for.

    GPUs keep their margins. Mapped weights that RAM cannot hold with the smallest context are
    read from disk with any: then they bound nothing.

    Args:
        plan: plans; a larger context never takes less.
        request: everything but the size of the context.
        free: free memory.

    Returns:
        A multiple of ``CONTEXT_STEP``, None if not even the smallest fits.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """
    smallest = plan(with_smallest_context(request))
    from_disk = reads_from_disk(smallest, free)

    def left_bytes(n_steps: int) -> int:
        found = demands(plan(_with_context(request, n_steps)), free)
        return least_left(found, from_disk=from_disk)

    most = max(smallest.target.info.n_ctx_train // CONTEXT_STEP, 1)
    return _last_that_fits(left_bytes, most) * CONTEXT_STEP or None


def with_smallest_context(request: PlanRequest) -> PlanRequest:
    """Return the same with the smallest context that llama.cpp makes."""
    return _with_context(request, 1)


def _with_context(request: PlanRequest, n_steps: int) -> PlanRequest:
    context = replace(request.context, ctx_size=n_steps * CONTEXT_STEP)
    return replace(request, context=context)


def expert_overrides(options: ModelOptions) -> tuple[TensorOverride, ...]:
    """Return those ``-ot`` that place experts, which ``--n-cpu-moe`` would stand in for."""
    return tuple(one for one in options.override_tensor if "exps" in one.pattern)


def with_n_cpu_moe(options: ModelOptions, n_layers: int) -> ModelOptions:
    """Return the same with the experts of so many layers in RAM, and no other word on experts."""
    placed = expert_overrides(options)
    others = tuple(one for one in options.override_tensor if one not in placed)
    return replace(options, cpu_moe=False, n_cpu_moe=n_layers, override_tensor=others)


def smallest_n_cpu_moe(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the smallest ``--n-cpu-moe`` with which the target fits on the GPUs.

    GPUs keep their margins. RAM has to hold what is allocated there; mapped experts may be read
    from disk.

    Args:
        plan: plans; more experts in RAM never take more of a GPU.
        request: everything but where experts lie: ``expert_overrides`` are left out.
        free: free memory.

    Returns:
        0 if all experts fit on the GPUs; None for a model without experts or without layers on a
        GPU, and where the GPUs or the RAM do not suffice even so.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """
    info, target = plan(request).target.info, request.target
    if not info.n_experts or not target.n_gpu_layers:
        return None
    found = _most_on_gpus(
        plan, request, free, info.n_layers, lambda n: with_n_cpu_moe(target, info.n_layers - n)
    )
    return None if found is None else info.n_layers - found


def largest_n_gpu_layers(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the largest ``-ngl`` with which a pair fits: on the GPUs, and what is left over in RAM.

    GPUs keep their margins. RAM has to hold what is allocated there.

    Args:
        plan: plans; more layers on the GPUs never take less of them.
        request: everything but the layers.
        free: free memory.

    Returns:
        None if the GPUs or the RAM do not suffice even with none there.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """
    # The output is a layer, too.
    most = plan(request).target.info.n_layers + 1
    target = request.target
    return _most_on_gpus(plan, request, free, most, lambda n: replace(target, n_gpu_layers=n))


def _most_on_gpus(
    plan: PlanCall,
    request: PlanRequest,
    free: FreeMemory,
    most: int,
    placed: Callable[[int], ModelOptions],
) -> int | None:
    """Find the largest number of layers, from 0 to ``most``, of which so many fit on the GPUs.

    Args:
        plan: plans.
        request: everything but where the layers lie.
        free: free memory.
        most: largest number.
        placed: the target by the number.

    Returns:
        None where not even 0 fits, or RAM does not hold what is left over.
    """

    def planned(n: int) -> Plan:
        return plan(replace(request, target=placed(n - 1)))

    def left_bytes(n: int) -> int:
        return least_left([one for one in demands(planned(n), free) if one.memory != HOST])

    last = _last_that_fits(left_bytes, most + 1)
    return last - 1 if last and can_load(planned(last), free) else None


def _last_that_fits(left_bytes: Callable[[int], int], last: int) -> int:
    """Last number from 1 to ``last`` with which nothing is missing, as with no smaller; or 0."""

    def lacks(number: int) -> bool:
        with suppress(DoesNotFitError):
            return left_bytes(number) < 0
        return True

    return bisect_left(range(1, last), x=True, key=lacks) if lacks(last) else last


def alone(request: PlanRequest) -> PlanRequest:
    """The request for the target without anything that drafts."""
    return replace(request, draft=None, mtp=False)


_Remedy = tuple[str, PlanRequest]
"""Options as they are typed, and the request with them."""


def remedies(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> tuple[str, ...]:
    """Return options with each of which alone the request fits, in llama-server's words.

    GPUs keep their margin. Where nothing fits whole, it is what can be loaded at all and read from
    disk, unless the request can be loaded as it is.

    Args:
        plan: plans.
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
