"""Settings that would fit: the largest context, and experts in RAM. Each is tried by a plan."""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from spectui.engine.demand import FreeMemory, can_load, demands, least_left, reads_from_disk
from spectui.errors import DoesNotFitError
from spectui.llama.buffers import HOST
from spectui.llama.planned import CONTEXT_STEP, Plan, PlanRequest
from spectui.options.setup import ModelOptions, TensorOverride

PlanCall = Callable[[PlanRequest], Plan]
"""Such as ``Planner.plan``. Should be cached: most plans are made more than once."""
_LONGEST = 1 << 20
"""Tokens up to which a context is looked for: a plan takes fifty bytes of each."""


def largest_context(plan: PlanCall, request: PlanRequest, free: FreeMemory) -> int | None:
    """Find the largest ``-c`` that fits, up to a million or what the target was trained for.

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
    smallest = plan(_with_context(request, 1))
    from_disk = reads_from_disk(smallest, free)

    def left_bytes(n_steps: int) -> int:
        found = demands(plan(_with_context(request, n_steps)), free)
        return least_left(found, from_disk=from_disk)

    longest = min(smallest.target.info.n_ctx_train, _LONGEST)
    most = max(longest // CONTEXT_STEP, 1)
    return _last_that_fits(left_bytes, most) * CONTEXT_STEP or None


def _with_context(request: PlanRequest, n_steps: int) -> PlanRequest:
    context = replace(request.context, ctx_size=n_steps * CONTEXT_STEP)
    return replace(request, context=context)


def expert_overrides(options: ModelOptions) -> tuple[TensorOverride, ...]:
    """Return those ``-ot`` that place experts, which ``--n-cpu-moe`` would stand in for."""
    return tuple(one for one in options.override_tensor if "exps" in one.pattern)


def with_n_cpu_moe(options: ModelOptions, n_layers: int) -> ModelOptions:
    """Return the options with the experts of ``n_layers`` in RAM; other expert overrides go."""
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

    def planned(n_steps: int) -> Plan:
        """The plan with the experts of ``n_steps`` - 1 layers on the GPUs."""
        n_in_ram = info.n_layers - (n_steps - 1)
        return plan(replace(request, target=with_n_cpu_moe(target, n_in_ram)))

    def left_bytes(n_steps: int) -> int:
        found = demands(planned(n_steps), free)
        return least_left([one for one in found if one.memory != HOST])

    last = _last_that_fits(left_bytes, info.n_layers + 1)
    return info.n_layers + 1 - last if last and can_load(planned(last), free) else None


def _last_that_fits(left_bytes: Callable[[int], int], last: int) -> int:
    """Largest number from 1 to ``last`` for which ``left_bytes``, which falls, is not negative.

    0 if there is none.
    """

    def lacks(number: int) -> bool:
        with suppress(DoesNotFitError):
            return left_bytes(number) < 0
        return True

    return bisect_left(range(1, last), x=True, key=lacks) if lacks(last) else last


def alone(request: PlanRequest) -> PlanRequest:
    """The request for the target without a draft model or MTP layers."""
    return replace(request, draft=None, mtp=False)
