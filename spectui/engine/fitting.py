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
from spectui.llama.planned import CONTEXT_STEP, ModelPlan, Plan, PlanRequest
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

    def planned(n_steps: int) -> Plan:
        return plan(_with_context(request, n_steps))

    smallest = plan(with_smallest_context(request))
    from_disk = reads_from_disk(smallest, free)

    def left_bytes(n_steps: int) -> int:
        try:
            return least_left(demands(planned(n_steps), free), from_disk=from_disk)
        except DoesNotFitError:
            # By how much is not told.
            return -1

    most = max(smallest.target.info.n_ctx_train // CONTEXT_STEP, 1)
    # Caches grow along a line, or nearly so.
    n_asked = max(request.context.ctx_size // CONTEXT_STEP, _FAR)
    left, grown = left_bytes(1), left_bytes(1) - left_bytes(n_asked)
    guess = 1 + left * (n_asked - 1) // grown if grown > 0 else most
    return _last_with_room(left_bytes, 1, most, guess) * CONTEXT_STEP or None


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

    def with_layers(n_layers: int) -> tuple[Demand, ...]:
        target = with_n_cpu_moe(request.target, n_layers)
        return demands(plan(replace(request, target=target)), free)

    planned = plan(request)
    model = planned.target
    if not model.info.n_experts or not request.target.n_gpu_layers:
        return None
    n_layers = model.info.n_layers

    def left_bytes(n_kept: int) -> int:
        """Bytes left on the GPUs, which keep the experts of the last ``n_kept - 1`` layers."""
        try:
            found = with_layers(n_layers + 1 - n_kept)
        except DoesNotFitError:
            return -1
        return _left_on_gpus(found)

    guess = _kept_layers(model, _left_on_gpus(demands(planned, free)))
    n_kept = _last_with_room(left_bytes, 1, n_layers + 1, 1 + guess)
    if not n_kept:
        return None
    smallest = n_layers + 1 - n_kept
    return smallest if all(one.can_load for one in with_layers(smallest)) else None


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

    def with_layers(n_layers: int) -> tuple[Demand, ...]:
        target = replace(request.target, n_gpu_layers=n_layers)
        return demands(plan(replace(request, target=target)), free)

    def left_bytes(n_and_one: int) -> int:
        try:
            return _left_on_gpus(with_layers(n_and_one - 1))
        except DoesNotFitError:
            return -1

    # The output is a layer, too.
    most = plan(request).target.info.n_layers + 1
    n_and_one = _last_with_room(left_bytes, 1, most + 1, 1 + most // 2)
    if not n_and_one:
        return None
    return n_and_one - 1 if all(one.can_load for one in with_layers(n_and_one - 1)) else None


def _left_on_gpus(found: tuple[Demand, ...]) -> int:
    return least_left(tuple(one for one in found if one.memory != HOST))


def _kept_layers(model: ModelPlan, left_bytes: int) -> int:
    """Guess of how many layers the GPUs can keep the experts, by what the plan leaves free there.

    Args:
        model: model with some or all experts on GPUs.
        left_bytes: free bytes of the GPUs beside that; negative if it does not fit.
    """
    on_gpus = model.traffic.gpu_expert_bytes
    per_layer = (on_gpus + model.traffic.cpu_expert_bytes) // max(model.info.n_layers, 1)
    return (on_gpus + left_bytes) // per_layer if per_layer else 0


def alone(request: PlanRequest) -> PlanRequest:
    """The request for the target without anything that drafts."""
    return replace(request, draft=None, mtp=False)


def _last_with_room(left_bytes: Callable[[int], int], first: int, last: int, guess: int) -> int:
    """Last number from ``first`` to ``last`` that leaves something, which never grows; 0 for none.

    By interpolation (regula falsi), and by halves where a step of that gains little.

    Args:
        left_bytes: negative for what does not fit. Asked twice where the guess is right.
        first: smallest number.
        last: largest number.
        guess: estimate of that number.
    """

    def at(number: int) -> tuple[int, int]:
        return number, left_bytes(number)

    guessed = at(min(max(guess, first), last))
    low = high = guessed
    # What is next to a good guess decides; what is far away bounds the search.
    if guessed[1] >= 0:
        for number in sorted({min(guessed[0] + 1, last), last}):
            high = at(number) if number != guessed[0] else guessed
            if high[1] < 0:
                break
            low = high
        else:
            return last
    else:
        for number in sorted({max(guessed[0] - 1, first), first}, reverse=True):
            low = at(number) if number != guessed[0] else guessed
            if low[1] >= 0:
                break
            high = low
        else:
            return 0
    by_halves = False
    while high[0] - low[0] > 1:
        gap = high[0] - low[0]
        share = 0.5 if by_halves else low[1] / (low[1] - high[1])
        middle = at(low[0] + min(max(int(gap * share), 1), gap - 1))
        low, high = (middle, high) if middle[1] >= 0 else (low, middle)
        by_halves = not by_halves and high[0] - low[0] > gap // 2
    return low[0]
