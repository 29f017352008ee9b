"""``--tune n_cpu_moe``: placements of experts that fit in memory, planned before loading."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from spectui.cli.given import Models
from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.engine.fitting import FreeMemory, PlanCall, expert_overrides
from spectui.engine.planning import Planner
from spectui.errors import DoesNotFitError
from spectui.llama.planned import PlanRequest
from spectui.options.setup import ModelOptions
from spectui.tune.candidates import Candidate
from spectui.tune.placements import Placements, misfits, place_experts, why_idle


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertPlan:
    """Placements, and the inputs that they were planned from."""

    request: PlanRequest
    drafts: Mapping[str, ModelOptions]
    free: FreeMemory
    placements: Placements

    def check(self, kept: Placements, study: str) -> None:
        """Refuse to go on with placements that were made when more memory was free.

        Raises:
            DoesNotFitError: says which.
        """
        if kept == self.placements:
            return
        with Planner() as planner:
            found = list(misfits(planner.plan, self.request, self.drafts, kept, self.free))
        if found:
            beside = " or ".join("alone" if name is None else f"beside {name}" for name in found)
            raise DoesNotFitError(
                f"the study {study} measured with n_cpu_moe {kept.text}, with which the target "
                f"does not fit {beside} any more; close what has taken the memory since, or "
                "choose another --study"
            )


def plan_experts(
    options: SharedOptions, models: Models, progress: Progress, *, max_draft: int
) -> tuple[Models, ExpertPlan | None]:
    """Plan where the experts are placed with each draft.

    Args:
        options: as given; their placement of experts is replaced.
        models: nothing of them is loaded.
        progress: told what was found.
        max_draft: longest draft.

    Returns:
        The models, without the drafts that have no room, and the plan; None where the placement
        makes no difference.

    Raises:
        DoesNotFitError: the target has no room even with all experts in RAM.
        SpectuiError: a file is unusable, or an option cannot be.
    """
    request = PlanRequest(
        target=options.target_options(models.target),
        context=options.context_options(),
        max_draft=max_draft,
    )
    drafts = {name: options.draft_options(path) for name, path in models.drafts.items()}
    with Planner() as planner:
        # Every draft's search asks for the target as it was given.
        plan: PlanCall = cache(planner.plan)
        idle = why_idle(plan, request, has_gpus=bool(planner.gpus()))
        if idle is not None:
            progress.say(f"n_cpu_moe changes nothing here ({idle}); the rest is searched")
            return models, None
        free = planner.free_memory()
        placed = place_experts(plan, request, drafts, free)
    refused = tuple(
        Candidate(name=name, options=drafts[name], loaded=None, error=error)
        for name, error in placed.refused.items()
    )
    found = ExpertPlan(request=request, drafts=drafts, free=free, placements=placed.placements)
    progress.say(
        f"layers with their experts in RAM{_instead(request.target)}: {found.placements.text}; "
        "fewer do not fit, and more are not tried"
    )
    left = {name: path for name, path in models.drafts.items() if name not in placed.refused}
    return replace(models, drafts=left, refused=(*models.refused, *refused)), found


def _instead(target: ModelOptions) -> str:
    """The placement options for experts that the search replaces, as a clause."""
    said = [f"-ot {one.pattern}={one.buffer}" for one in expert_overrides(target)]
    said += ["--cpu-moe"] * target.cpu_moe
    said += [f"--n-cpu-moe {target.n_cpu_moe}"] * (target.n_cpu_moe > 0)
    return f", instead of {' and '.join(said)}" if said else ""
