"""Layouts of the target's experts beside each draft (``--tune n_cpu_moe``).

A draft and the target's experts compete for the memory of the GPUs. Of two placements that fit, the
one with more experts in RAM reads more from the slower memory and gains nothing for it, where that
is the slower one. So each draft has a placement of its own, and having none has one, too: as few
layers with their experts in RAM as leave room for it, or as many as the target is fastest with by
itself (``placing``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from spectui.engine.demand import FreeMemory, can_load, demands
from spectui.engine.fitting import (
    PlanCall,
    alone,
    smallest_n_cpu_moe,
    with_n_cpu_moe,
)
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.buffers import HOST
from spectui.llama.library import library
from spectui.llama.planned import PlanRequest
from spectui.options.setup import Fit, ModelOptions
from spectui.tune.candidates import Candidate
from spectui.tune.layouts import Layout, LayoutPlan, Layouts

_CACHE_STEP_BYTES = 64 << 20


def place_experts(
    plan: PlanCall, request: PlanRequest, drafts: Mapping[str, ModelOptions], free: FreeMemory
) -> tuple[Layouts, Mapping[str, SpectuiError]]:
    """Find the placement for each draft, and for none; and why some have none.

    Args:
        plan: asked some four times per draft.
        request: the target and the context; where its experts lie is left out.
        drafts: by name.
        free: free memory, with nothing loaded. GPUs keep their margins.

    Raises:
        DoesNotFitError: the target does not fit even with all experts in RAM.
        SpectuiError: as ``plan`` does, for the target.
    """
    without = smallest_n_cpu_moe(plan, alone(request), free)
    if without is None:
        raise DoesNotFitError(
            f"{request.target.path} does not fit even with the experts of all layers in RAM; give "
            "a smaller -c, or fewer layers with -ngl"
        )
    beside: dict[str, int] = {}
    refused: dict[str, SpectuiError] = {}
    for name, options in drafts.items():
        try:
            found = smallest_n_cpu_moe(plan, request.beside(options), free)
        except (BadInputError, DoesNotFitError, UsageError) as error:
            # The target alone could be planned: whatever is wrong is the draft's.
            refused[name] = error
            continue
        if found is None:
            refused[name] = DoesNotFitError(
                f"{options.path} does not fit beside the target even with the experts of all "
                "layers in RAM; give a smaller draft, or keep it in RAM with -ngld 0"
            )
        else:
            beside[name] = found
    layouts = Layouts(
        alone=_layout(request.target, without),
        beside={name: _layout(request.target, n) for name, n in beside.items()},
    )
    return layouts, refused


def _layout(target: ModelOptions, n_cpu_moe: int) -> Layout:
    return Layout.of(with_n_cpu_moe(target, n_cpu_moe), f"n_cpu_moe {n_cpu_moe}")


def at_least(layouts: Layouts, target: ModelOptions, n_cpu_moe: int) -> Layouts:
    """The layouts with the experts of so many layers in RAM without a draft, no fewer beside."""
    return Layouts(
        alone=_layout(target, n_cpu_moe),
        beside={
            draft: _layout(target, max(n_cpu_moe, one.n_cpu_moe))
            for draft, one in layouts.beside.items()
        },
    )


def plan_caches(
    request: PlanRequest, margins: Fit | None, *, moves_experts: bool
) -> tuple[int, ...]:
    """MiB of the caches of experts (``--moe-cache-mib``) that are worth trying.

    Args:
        request: the target and its context, of which nothing is loaded.
        margins: what stays free on the GPUs; None for the usual.
        moves_experts: whether the search may put all experts into RAM.

    Returns:
        None of them without a GPU, without experts in RAM, and of a library that has no cache.

    Raises:
        SpectuiError: the target cannot be planned.
    """
    if not library().reading.has_moe_cache:
        return ()
    with Planner(rpc=request.target.devices.rpc) as planner:
        gpus = planner.gpus()
        if not gpus:
            return ()
        free = planner.free_memory().with_margins(margins, request.target.devices, gpus)
        return cache_sizes_mib(planner.plan, request, free, moves_experts=moves_experts)


def cache_sizes_mib(
    plan: PlanCall, request: PlanRequest, free: FreeMemory, *, moves_experts: bool
) -> tuple[int, ...]:
    """Quarters of what the target leaves free on the GPU where that is most, in whole 64 MiB.

    They are no larger than the experts in RAM. Llama.cpp divides a cache among several GPUs as it
    does the layers, so that one of them may have no room: such a place is refused when it is tried.

    Raises:
        SpectuiError: as ``plan`` does.
    """
    asked = alone(replace(request, context=replace(request.context, moe_cache_mib=0)))
    found = plan(asked)
    if moves_experts:
        every = with_n_cpu_moe(asked.target, found.target.info.n_layers)
        found = plan(replace(asked, target=every))
    rooms = (
        one.left_bytes - one.margin_bytes
        for one in demands(found, free)
        if one.memory != HOST and one.allocated_bytes and one.left_bytes is not None
    )
    room_bytes = min(max(rooms, default=0), found.target.traffic.cpu_expert_bytes)
    quarters = {room_bytes * n // 4 // _CACHE_STEP_BYTES for n in range(1, 5)}
    return tuple(sorted(n * (_CACHE_STEP_BYTES >> 20) for n in quarters if n > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertPlan(LayoutPlan):
    """Layouts of the experts alone, from the fewest layers in RAM on."""

    n_layers: int
    """Layers of the target."""
    fits_as_given: bool
    """Whether the target fits without a draft as the request has it."""

    @property
    def needed(self) -> Layouts:
        """The layouts: the search of places may move the target."""
        return self.layouts


def plan_experts(
    request: PlanRequest,
    drafts: Mapping[str, ModelOptions],
    say: Callable[[str], None],
    margins: Fit | None = None,
) -> tuple[ExpertPlan | None, tuple[Candidate, ...]]:
    """Plan where the experts are placed with each draft.

    Args:
        request: the target and its context, of which nothing is loaded; its placement of experts
            is replaced.
        drafts: by name.
        say: told what was found.
        margins: what stays free on the GPUs; None for the usual.

    Returns:
        The plan, None where the placement makes no difference, and the drafts that have no room.

    Raises:
        DoesNotFitError: the target has no room even with all experts in RAM.
        SpectuiError: a file is unusable, or an option cannot be.
    """
    target = request.target
    with Planner(rpc=target.devices.rpc) as planner:
        # Every draft's search asks for the target as it was given.
        plan: PlanCall = cache(planner.plan)
        gpus, without = planner.gpus(), plan(alone(request))
        if not (gpus and target.n_gpu_layers and without.target.info.n_experts):
            say(
                "n_cpu_moe changes nothing here: it takes experts, and layers on a GPU; the rest "
                "is searched"
            )
            return None, ()
        free = planner.free_memory().with_margins(margins, target.devices, gpus)
        layouts, refused = place_experts(plan, request, drafts, free)
        fits_as_given = can_load(without, free)
    say(
        f"layers with their experts in RAM, whatever the command says of them: {layouts.text} at "
        "least; fewer do not fit"
    )
    found = ExpertPlan(
        request=request,
        layouts=layouts,
        tightest=max((None, *layouts.beside), key=lambda name: layouts.of(name).n_cpu_moe),
        n_layers=without.target.info.n_layers,
        fits_as_given=fits_as_given,
    )
    return found, tuple(
        Candidate(name=name, options=drafts[name], loaded=None, error=error)
        for name, error in refused.items()
    )
