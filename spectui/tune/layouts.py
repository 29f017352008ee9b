"""Layouts: which layers and experts of the target lie on the devices, beside each draft.

A draft and the target compete for the memory of the devices. Without a draft the target has more
room, so it is measured in its layout without a draft, and every draft beside the target in the
layout for that draft: as ``--fit`` chooses it for a llama-server with the same models, or, with
``--tune n_cpu_moe``, with as few layers' experts in RAM as leave room for the draft. Of two
placements that fit, the one with more experts in RAM reads more from the slower memory and gains
nothing for it, where that is the slower one; so the search of places (``placing``) begins with
these, and tries more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from spectui.engine.demand import FreeMemory, can_load, demands
from spectui.engine.fitting import PlanCall, alone, smallest_n_cpu_moe, with_n_cpu_moe
from spectui.engine.planning import Planner, fitted
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.buffers import HOST
from spectui.llama.library import library
from spectui.llama.planned import Fitted, PlanRequest
from spectui.options.setup import Fit, ModelOptions, TensorOverride

_CACHE_STEP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layers and experts of a target on the devices; the rest lies in RAM."""

    text: str
    """The layout in words."""
    n_gpu_layers: int
    """As ``ModelOptions``; so are the other fields."""
    split: tuple[float, ...] = ()
    override_tensor: tuple[TensorOverride, ...] = ()
    n_cpu_moe: int = 0

    @classmethod
    def of(cls, target: ModelOptions, text: str) -> Self:
        """The layout of a target without ``--cpu-moe``."""
        return cls(
            text=text,
            n_gpu_layers=target.n_gpu_layers,
            split=target.devices.split,
            override_tensor=target.override_tensor,
            n_cpu_moe=target.n_cpu_moe,
        )

    def on(self, target: ModelOptions) -> ModelOptions:
        """The target with this layout in place of its own."""
        return replace(
            target,
            n_gpu_layers=self.n_gpu_layers,
            devices=replace(target.devices, split=self.split),
            override_tensor=self.override_tensor,
            cpu_moe=False,
            n_cpu_moe=self.n_cpu_moe,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """Layouts of a target by drafter."""

    alone: Layout
    """Without a draft model: off, and n-gram drafters."""
    beside: Mapping[str, Layout]
    """By name of the draft."""

    def of(self, draft: str | None) -> Layout:
        """The layout beside ``draft``, None for no draft model."""
        return self.alone if draft is None else self.beside[draft]

    @property
    def differ(self) -> bool:
        """Whether the layout beside any draft differs from the one without a draft."""
        return any(one != self.alone for one in self.beside.values())

    @property
    def text(self) -> str:
        """The layouts in words, for a line of progress."""
        beside = [f"{layout.text} beside {draft}" for draft, layout in self.beside.items()]
        return "; ".join([f"{self.alone.text} without a draft", *beside])


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPlan:
    """Layouts of a target."""

    request: PlanRequest
    """The target and its context, as they were given."""
    layouts: Layouts
    tightest: str | None
    """The draft beside which the target leaves most room; None for no draft."""
    n_expert_layers: int = 0
    """Layers of the target whose experts the search of its place may move; 0 for none."""
    fits_as_given: bool = False
    """Whether the target fits without a draft as the request has it."""

    @property
    def needed(self) -> Layouts | None:
        """The layouts; None where the target stays in place."""
        return self.layouts if self.layouts.differ or self.n_expert_layers else None

    @property
    def loaded(self) -> ModelOptions:
        """The target as it is loaded first: beside it every draft can be examined."""
        return self.layouts.of(self.tightest).on(self.request.target)


def fit_layouts(
    request: PlanRequest,
    drafts: Mapping[str, ModelOptions],
    options: Fit,
    say: Callable[[str], None],
) -> LayoutPlan | None:
    """Lay the target out as ``--fit`` does beside each draft, and without one.

    Args:
        request: the target and its context, of which nothing is loaded.
        drafts: by name.
        options: what may be chosen.
        say: called with a sentence on the choice.

    Returns:
        None where there is nothing to choose.

    Raises:
        SpectuiError: as ``Planner.plan`` does, of the target.
    """
    by_size = sorted(drafts, key=lambda name: -drafts[name].path.stat().st_size)
    requests = {name: request.beside(drafts[name]) for name in by_size}
    with Planner(rpc=request.target.devices.rpc) as planner:
        without = fitted(planner, alone(request), options)
        beside = {name: fitted(planner, one, options) for name, one in requests.items()}
        largest = beside[by_size[0]]
        if without is None or largest is None:
            return None
    layouts = _layouts(without, {name: beside[name] or largest for name in by_size})
    sentence = f"fitted to free memory: {layouts.text}" if layouts.differ else largest.sentence
    if sentence is not None:
        say(sentence)
    return LayoutPlan(
        request=replace(request, target=replace(request.target, fit=without.target.fit)),
        layouts=layouts,
        tightest=by_size[0],
    )


def _layouts(without: Fitted, beside: Mapping[str, Fitted]) -> Layouts:
    """The layouts that ``--fit`` chose; ``beside`` has the largest draft first.

    Parts of a layer are not worth loading the target again: of those alike but for that the one
    with most room for a draft serves.
    """
    by_text: dict[str, Layout] = {}
    for found in (*beside.values(), without):
        by_text.setdefault(found.choice, Layout.of(found.target, found.choice))
    return Layouts(
        alone=by_text[without.choice],
        beside={name: by_text[found.choice] for name, found in beside.items()},
    )


def place_experts(
    plan: PlanCall, request: PlanRequest, drafts: Mapping[str, ModelOptions], free: FreeMemory
) -> tuple[Layouts, dict[str, SpectuiError]]:
    """Find the placement for each draft, and for none; and the errors of drafts that have none.

    Args:
        plan: called some four times per draft.
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
            least = smallest_n_cpu_moe(plan, request.beside(options), free)
        except (BadInputError, DoesNotFitError, UsageError) as error:
            # The target alone could be planned: whatever is wrong is the draft's.
            refused[name] = error
            continue
        if least is None:
            refused[name] = DoesNotFitError(
                f"{options.path} does not fit beside the target even with the experts of all "
                "layers in RAM; give a smaller draft, or keep it in RAM with -ngld 0"
            )
        else:
            beside[name] = least
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
    target_alone = alone(replace(request, context=replace(request.context, moe_cache_mib=0)))
    found = plan(target_alone)
    if moves_experts:
        every = with_n_cpu_moe(target_alone.target, found.target.info.n_layers)
        found = plan(replace(target_alone, target=every))
    rooms = (
        one.left_bytes - one.margin_bytes
        for one in demands(found, free)
        if one.memory != HOST and one.allocated_bytes and one.left_bytes is not None
    )
    room_bytes = min(max(rooms, default=0), found.target.traffic.cpu_expert_bytes)
    quarters = {room_bytes * n // 4 // _CACHE_STEP_BYTES for n in range(1, 5)}
    return tuple(sorted(n * (_CACHE_STEP_BYTES >> 20) for n in quarters if n > 0))


def plan_experts(
    request: PlanRequest,
    drafts: Mapping[str, ModelOptions],
    say: Callable[[str], None],
    margins: Fit | None = None,
) -> tuple[LayoutPlan | None, dict[str, SpectuiError]]:
    """Plan where the experts are placed with each draft.

    Args:
        request: the target and its context, of which nothing is loaded; its placement of experts
            is replaced.
        drafts: by name.
        say: called with a sentence on the placement.
        margins: what stays free on the GPUs; None for the usual.

    Returns:
        The plan, None where the placement makes no difference; and the errors of drafts that have
        no room.

    Raises:
        DoesNotFitError: the target has no room even with all experts in RAM.
        SpectuiError: a file is unusable, or an option cannot be.
    """
    target = request.target
    with Planner(rpc=target.devices.rpc) as planner:
        # The search of each draft plans the target as it was given.
        plan: PlanCall = cache(planner.plan)
        gpus, without = planner.gpus(), plan(alone(request))
        if not (gpus and target.n_gpu_layers and without.target.info.n_experts):
            say(
                "n_cpu_moe changes nothing here: it takes experts, and layers on a GPU; the rest "
                "is searched"
            )
            return None, {}
        free = planner.free_memory().with_margins(margins, target.devices, gpus)
        layouts, refused = place_experts(plan, request, drafts, free)
        fits_as_given = can_load(without, free)
    say(
        f"layers with their experts in RAM, whatever the command says of them: {layouts.text} at "
        "least; fewer do not fit"
    )
    found = LayoutPlan(
        request=request,
        layouts=layouts,
        tightest=max((None, *layouts.beside), key=lambda name: layouts.of(name).n_cpu_moe),
        n_expert_layers=without.target.info.n_layers,
        fits_as_given=fits_as_given,
    )
    return found, refused
