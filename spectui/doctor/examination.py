"""Everything that the headers of a target and its drafts tell, beside what the machine has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from spectui.config import ModelOptions
from spectui.doctor.speed import (
    Bandwidth,
    DraftBound,
    SpeedBound,
    draft_bound,
    speed_bound,
)
from spectui.engine.commands import ComparePair
from spectui.engine.driver import Engine
from spectui.engine.fitting import (
    Demand,
    DraftFit,
    FreeBytes,
    PlanCall,
    can_load,
    demands,
    fitting_drafts,
    largest_context,
    reads_from_disk,
    smallest_n_cpu_moe,
)
from spectui.engine.planning import Planner
from spectui.errors import BadInputError
from spectui.llama.gguf_file import read_gguf
from spectui.llama.memory import WeightTraffic
from spectui.llama.planned import DeviceMemory, Plan, PlanRequest
from spectui.llama.weights import weight_traffic
from spectui.models.pairs import PairReport

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedDraft:
    """One draft beside the target."""

    name: str
    fit: DraftFit
    report: PairReport | None
    """None where its file is unusable."""
    traffic: WeightTraffic | None
    bound: DraftBound | None
    """None where it cannot serve, or speeds of memories are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """A target, and its drafts if there are any."""

    request: PlanRequest
    """Of the target with the first draft that can serve it, or alone."""
    plan: Plan
    demands: tuple[Demand, ...]
    fits_alone: bool
    """Whether the target can be loaded without a draft."""
    largest_context: int | None
    """In tokens; None if not even the smallest fits."""
    from_disk: bool
    """Whether RAM cannot hold all mapped weights, though the plan can be loaded."""
    smallest_n_cpu_moe: int | None
    """0 if all experts fit on the GPUs; None where that is no question, or no answer."""
    drafts: tuple[ExaminedDraft, ...]
    traffic: WeightTraffic
    bound: SpeedBound | None

    @property
    def fits(self) -> bool:
        """Whether the plan can be loaded, as far as is known."""
        return all(demand.can_load for demand in self.demands)

    @property
    def chosen(self) -> ExaminedDraft | None:
        """The draft of the plan."""
        own = self.request.draft
        return next((one for one in self.drafts if own is not None and one.fit.draft == own), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the models meet."""

    gpus: tuple[DeviceMemory, ...]
    """Those that this llama.cpp can use."""
    free: FreeBytes
    bandwidth: Bandwidth


class Examiner:
    """Looks at a target, alone and with each draft; loads no weights."""

    def __init__(self, planner: Planner, engine: Engine, around: Surroundings, say: Say) -> None:
        """Prepare.

        Args:
            planner: asked some twenty times.
            engine: compares vocabularies.
            around: memories and their speeds.
            say: told what is looked at.
        """
        self._planner = planner
        self._engine = engine
        self._around = around
        self._say = say

    def examine(self, request: PlanRequest, drafts: dict[str, ModelOptions]) -> Examination:
        """Look at everything.

        Args:
            request: the target and the context; its draft is chosen here.
            drafts: candidates by name, the favourite first.

        Raises:
            SpectuiError: the target's file is unusable, or an option cannot be.
        """
        # Every question is asked by several who need not know of each other.
        plan: PlanCall = cache(self._planner.plan)
        free = self._around.free
        self._say("planning memory")
        planned_drafts = fitting_drafts(plan, request, tuple(drafts.values()), free)
        weighed = [self._weighed(fit) for fit in planned_drafts]
        traffic = self._traffic(request.target)
        bound = speed_bound(traffic, self._around.bandwidth)
        examined = [
            self._examined(name, fit, own, request.target, bound)
            for name, (fit, own) in zip(drafts, weighed, strict=True)
        ]
        self._say("finding out what fits")
        chosen = replace(request, draft=_chosen([fit for fit, _own in weighed]))
        planned = plan(chosen)
        has_gpus = bool(self._around.gpus)
        return Examination(
            request=chosen,
            plan=planned,
            demands=demands(planned, free),
            fits_alone=can_load(plan(replace(request, draft=None)), free),
            largest_context=largest_context(plan, chosen, free),
            from_disk=reads_from_disk(planned, free),
            smallest_n_cpu_moe=smallest_n_cpu_moe(plan, chosen, free) if has_gpus else None,
            drafts=tuple(examined),
            traffic=traffic,
            bound=bound,
        )

    def _weighed(self, fit: DraftFit) -> tuple[DraftFit, WeightTraffic | None]:
        """A draft with what it reads, or as unusable: a plan overlooks some missing parts."""
        # What ended the planner's child must not be read here.
        if fit.plan is None:
            return fit, None
        try:
            return fit, self._traffic(fit.draft)
        except BadInputError as error:
            return replace(fit, plan=None, fits=None, reason=str(error)), None

    def _examined(
        self,
        name: str,
        fit: DraftFit,
        traffic: WeightTraffic | None,
        target: ModelOptions,
        bound: SpeedBound | None,
    ) -> ExaminedDraft:
        if traffic is None:
            return ExaminedDraft(name=name, fit=fit, report=None, traffic=None, bound=None)
        self._say(f"comparing {name}")
        command = ComparePair(target=target.path, draft=fit.draft.path, in_detail=True)
        own = None
        if bound is not None and fit.is_compatible:
            own = draft_bound(bound, traffic, self._around.bandwidth)
        report = self._engine.compare(command).report
        return ExaminedDraft(name=name, fit=fit, report=report, traffic=traffic, bound=own)

    def _traffic(self, options: ModelOptions) -> WeightTraffic:
        gpu_devices = bool(self._around.gpus)
        return weight_traffic(read_gguf(options.path), options, gpu_devices=gpu_devices)


def _chosen(fits: Sequence[DraftFit]) -> ModelOptions | None:
    """The first that can serve and fits, or else that can serve."""
    can_serve = [fit for fit in fits if fit.is_compatible]
    fitting = [fit for fit in can_serve if fit.reason is None]
    return next((fit.draft for fit in (*fitting, *can_serve)), None)
