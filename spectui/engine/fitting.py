"""Settings that would fit: the largest context, experts in RAM, layers on the GPUs."""

from collections.abc import Callable
from dataclasses import replace

from spectui.engine.demand import (
    Demand,
    FreeMemory,
    demands,
    least_left,
    reads_from_disk,
)
from spectui.errors import DoesNotFitError
from spectui.llama.buffers import HOST
from spectui.llama.planned import CONTEXT_STEP, Plan, PlanRequest
from spectui.options.setup import ModelOptions, TensorOverride

PlanCall = Callable[[PlanRequest], Plan]
"""Such as ``Planner.plan``."""

_FAR = 4
"""Steps from the smallest context at which its growth shows."""


def largest_context(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the largest ``-c`` that fits, up to the context that the target was trained for.

    GPUs keep their margins. Mapped weights that RAM cannot hold with the smallest context are
    read from disk with any: then they bound nothing.

    Args:
        plan: asked for four contexts where caches grow along a line; a larger context never takes
            less. Best one that remembers: most are asked for twice.
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
        try:
            return least_left(
                demands(plan(_with_context(request, n_steps)), free), from_disk=from_disk
            )
        except DoesNotFitError:
            # By how much is not told.
            return -1

    most = max(smallest.target.info.n_ctx_train // CONTEXT_STEP, 1)
    # Caches grow along a line, or nearly so.
    n_asked = max(request.context.ctx_size // CONTEXT_STEP, _FAR)
    left, grown = left_bytes(1), left_bytes(1) - left_bytes(n_asked)
    guess = 1 + left * (n_asked - 1) // grown if grown > 0 else most
    found = _last_that_fits(lambda n_steps: left_bytes(n_steps) >= 0, most, guess)
    return found * CONTEXT_STEP or None


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
        plan: asked three times where layers are alike; more experts in RAM never take more of a
            GPU. Best one that remembers.
        request: everything but where experts lie: ``expert_overrides`` are left out.
        free: free memory.

    Returns:
        0 if all experts fit on the GPUs; None for a model without experts or without layers on a
        GPU, and where the GPUs or the RAM do not suffice even so.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """
    planned = plan(request)
    info, traffic = planned.target.info, planned.target.traffic
    if not info.n_experts or not request.target.n_gpu_layers:
        return None
    most = info.n_layers + 1
    # Layers are alike, or nearly so.
    on_gpus = traffic.gpu_expert_bytes
    per_layer = (on_gpus + traffic.cpu_expert_bytes) // max(info.n_layers, 1)
    room = on_gpus + _left_on_gpus(demands(planned, free))

    def with_experts(n_and_one: int) -> tuple[Demand, ...]:
        target = with_n_cpu_moe(request.target, most - n_and_one)
        return demands(plan(replace(request, target=target)), free)

    n_and_one = _most_on_gpus(with_experts, most, 1 + room // per_layer if per_layer else 1)
    return None if n_and_one is None else most - n_and_one


def largest_n_gpu_layers(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the largest ``-ngl`` with which a pair fits: on the GPUs, and what is left over in RAM.

    GPUs keep their margins. RAM has to hold what is allocated there.

    Args:
        plan: asked some five times; more layers on the GPUs never take less of them.
        request: everything but the layers.
        free: free memory.

    Returns:
        None if the GPUs or the RAM do not suffice even with none there.

    Raises:
        SpectuiError: as ``plan`` does, but for what does not fit.
    """
    # The output is a layer, too.
    most = plan(request).target.info.n_layers + 2

    def with_layers(n_and_one: int) -> tuple[Demand, ...]:
        target = replace(request.target, n_gpu_layers=n_and_one - 1)
        return demands(plan(replace(request, target=target)), free)

    n_and_one = _most_on_gpus(with_layers, most, most // 2)
    return None if n_and_one is None else n_and_one - 1


def _most_on_gpus(found: Callable[[int], tuple[Demand, ...]], most: int, guess: int) -> int | None:
    """Find the largest number from 1 on that fits on the GPUs.

    Args:
        found: demands by number; of a larger one the GPUs never take less.
        most: largest number.
        guess: estimate of it.

    Returns:
        None where not even the first fits, or RAM does not hold what it leaves over.
    """

    def fits(number: int) -> bool:
        try:
            return _left_on_gpus(found(number)) >= 0
        except DoesNotFitError:
            return False

    last = _last_that_fits(fits, most, guess)
    return last if last and all(one.can_load for one in found(last)) else None


def _left_on_gpus(found: tuple[Demand, ...]) -> int:
    return least_left(tuple(one for one in found if one.memory != HOST))


def alone(request: PlanRequest) -> PlanRequest:
    """The request for the target without anything that drafts."""
    return replace(request, draft=None, mtp=False)


def _last_that_fits(fits: Callable[[int], bool], last: int, guess: int) -> int:
    """Last number from 1 to ``last`` that fits, as all smaller ones do; 0 for none.

    Args:
        fits: asked twice where the guess is right.
        last: largest number.
        guess: estimate of the answer.
    """
    low, high, number = 0, last + 1, min(max(guess, 1), last)
    is_guess = True
    while high - low > 1:
        is_low = fits(number)
        low, high = (number, high) if is_low else (low, number)
        # What is next to a good guess decides.
        number = (number + 1 if is_low else number - 1) if is_guess else (low + high) // 2
        is_guess = False
    return low
