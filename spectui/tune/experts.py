"""Placement of the target's experts beside each draft (``--tune n_cpu_moe``).

A draft and the target's experts compete for the memory of the GPUs. Of two placements that fit, the
one with more experts in RAM reads more from the slower memory and gains nothing for it, where that
is the slower one. So each draft has a placement of its own, and having none has one, too: as few
layers with their experts in RAM as leave room for it, or as many as the target is fastest with by
itself (``placing``).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from spectui.engine.demand import FreeMemory, can_load
from spectui.engine.fitting import (
    PlanCall,
    alone,
    expert_overrides,
    smallest_n_cpu_moe,
    with_n_cpu_moe,
)
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.planned import PlanRequest
from spectui.options.setup import Fit, ModelOptions
from spectui.tune.candidates import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """Layers that keep their experts in RAM (``--n-cpu-moe``), by drafter."""

    alone: int
    """Without a draft model: off, and n-gram drafters."""
    beside: Mapping[str, int]
    """Layers by name of the draft."""

    def of(self, draft: str | None) -> int:
        """Layers beside ``draft``, None for no draft model."""
        return self.alone if draft is None else self.beside[draft]

    @property
    def most(self) -> int:
        """Largest number of layers in RAM, with which every draft fits."""
        return max((self.alone, *self.beside.values()))

    def at_least(self, n: int) -> "Placements":
        """The same with the experts of ``n`` layers in RAM without a draft, and no fewer beside."""
        return Placements(
            alone=n, beside={draft: max(n, own) for draft, own in self.beside.items()}
        )

    @property
    def text(self) -> str:
        """The placements in words, for a line of progress."""
        beside = [f"{n} beside {draft}" for draft, n in self.beside.items()]
        return ", ".join([f"{self.alone} without a draft", *beside])


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Result of placing the target beside each draft."""

    placements: Placements
    refused: Mapping[str, SpectuiError]
    """Drafts that have none, with the reason."""


def place_experts(
    plan: PlanCall, request: PlanRequest, drafts: Mapping[str, ModelOptions], free: FreeMemory
) -> Placed:
    """Find the placement for each draft, and for none.

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
    return Placed(placements=Placements(alone=without, beside=beside), refused=refused)


def misfits(
    plan: PlanCall,
    request: PlanRequest,
    drafts: Mapping[str, ModelOptions],
    placements: Placements,
    free: FreeMemory,
) -> Iterator[str | None]:
    """Yield the drafts, None for none, beside which the target cannot be loaded as it is placed.

    Args:
        plan: asked once per draft.
        request: the target and the context.
        drafts: by name.
        placements: placements of an earlier run, when other memory was free.
        free: free memory, with nothing loaded.
    """
    for name in (None, *placements.beside):
        target = with_n_cpu_moe(request.target, placements.of(name))
        moved = replace(request, target=target)
        if not can_load(plan(moved if name is None else moved.beside(drafts[name])), free):
            yield name


def why_idle(plan: PlanCall, request: PlanRequest, *, has_gpus: bool) -> str | None:
    """Say why ``n_cpu_moe`` would change nothing; None where it does.

    Raises:
        SpectuiError: as ``plan`` does.
    """
    target = request.target
    if not plan(alone(request)).target.info.n_experts:
        return f"{target.path.name} has no experts"
    if not has_gpus:
        return "without a GPU all experts are in RAM"
    return None if target.n_gpu_layers else "with -ngl 0 all experts are in RAM"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertPlan:
    """Placements, and the inputs that they were planned from."""

    request: PlanRequest
    drafts: Mapping[str, ModelOptions]
    free: FreeMemory
    placements: Placements
    n_layers: int
    """Layers of the target."""
    fits_as_given: bool
    """Whether the target fits without a draft as the request places it."""

    def check(self, kept: Placements, study: str) -> None:
        """Refuse to go on with placements that were made when more memory was free.

        Raises:
            DoesNotFitError: says which.
        """
        if kept == self.placements:
            return
        with Planner(rpc=self.request.target.devices.rpc) as planner:
            found = list(misfits(planner.plan, self.request, self.drafts, kept, self.free))
        if found:
            beside = " or ".join("alone" if name is None else f"beside {name}" for name in found)
            raise DoesNotFitError(
                f"the study {study} measured with n_cpu_moe {kept.text}, with which the target "
                f"does not fit {beside} any more; close what has taken the memory since, or "
                "choose another --study"
            )


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
    with Planner(rpc=request.target.devices.rpc) as planner:
        # Every draft's search asks for the target as it was given.
        plan: PlanCall = cache(planner.plan)
        gpus = planner.gpus()
        idle = why_idle(plan, request, has_gpus=bool(gpus))
        if idle is not None:
            say(f"n_cpu_moe changes nothing here ({idle}); the rest is searched")
            return None, ()
        free = planner.free_memory().with_margins(margins, request.target.devices, gpus)
        placed = place_experts(plan, request, drafts, free)
        without = plan(alone(request))
        found = ExpertPlan(
            request=request,
            drafts=drafts,
            free=free,
            placements=placed.placements,
            n_layers=without.target.info.n_layers,
            fits_as_given=can_load(without, free),
        )
    refused = tuple(
        Candidate(name=name, options=drafts[name], loaded=None, error=error)
        for name, error in placed.refused.items()
    )
    say(
        f"layers with their experts in RAM{_instead(request.target)}: {found.placements.text} at "
        "least; fewer do not fit"
    )
    return found, refused


def _instead(target: ModelOptions) -> str:
    """The placement options for experts that the search replaces, as a clause."""
    said = [f"-ot {one.pattern}={one.buffer}" for one in expert_overrides(target)]
    said += ["--cpu-moe"] * target.cpu_moe
    said += [f"--n-cpu-moe {target.n_cpu_moe}"] * (target.n_cpu_moe > 0)
    return f", instead of {' and '.join(said)}" if said else ""
