"""Examination of a target and its drafts by their headers, against the machine's memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from spectui.doctor.speed import Bandwidth, DraftBound, SpeedBound, draft_bound, speed_bound
from spectui.engine.fitting import (
    Demand,
    DraftFit,
    FreeMemory,
    PlanCall,
    alone,
    can_load,
    demands,
    draft_fit,
    largest_context,
    reads_from_disk,
    smallest_n_cpu_moe,
    with_smallest_context,
)
from spectui.engine.planning import Planner
from spectui.llama.planned import Backend, Plan, PlanRequest
from spectui.models.pairs import PairReport
from spectui.models.weights import WeightTraffic
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import ModelOptions

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedDraft:
    """One draft beside the target, or the target's own MTP layers."""

    name: str
    fit: DraftFit
    bound: DraftBound | None
    """None where it cannot serve, or speeds of memories are not known."""
    is_wanted: bool
    """Whether somebody asked for it: a target may bring MTP layers that nobody means to use."""

    @property
    def is_mtp(self) -> bool:
        """Whether it is the target's own MTP layers."""
        return self.fit.request.mtp

    @property
    def report(self) -> PairReport | None:
        """The draft beside the target; None where its file is unusable, and for MTP layers."""
        return None if self.fit.plan is None else self.fit.plan.report


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """A target, and its drafts if there are any."""

    request: PlanRequest
    """Plan request for the target with the first draft that can serve it, or alone."""
    plan: Plan
    demands: tuple[Demand, ...]
    fits_alone: bool
    """Whether the target can be loaded without a draft."""
    largest_context: int | None
    """In tokens; None if not even the smallest fits."""
    from_disk: bool
    """Whether RAM cannot hold all mapped weights, though the plan can be loaded."""
    always_from_disk: bool
    """Whether that is so with the smallest context, too, so that the largest one is not bound by
    it."""
    smallest_n_cpu_moe: int | None
    """0 if all experts fit on the GPUs; None where that is no question, or no answer."""
    drafts: tuple[ExaminedDraft, ...]
    bound: SpeedBound | None

    @property
    def traffic(self) -> WeightTraffic:
        """Weights that the target reads."""
        return self.plan.target.traffic

    @property
    def fits(self) -> bool:
        """Whether the plan can be loaded, as far as is known."""
        return all(demand.can_load for demand in self.demands)

    @property
    def chosen(self) -> ExaminedDraft | None:
        """The draft that the plan uses; None if the target runs alone."""
        return next((one for one in self.drafts if one.fit.request == self.request), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The machine that the models run on."""

    backend: Backend
    """This llama.cpp, and the GPUs that it can use."""
    free: FreeMemory
    bandwidth: Bandwidth


class Examiner:
    """Looks at a target, alone and with each draft; loads no weights."""

    def __init__(self, planner: Planner, around: Surroundings, say: Say) -> None:
        """Prepare.

        Args:
            planner: asked some ten times.
            around: memories and their speeds.
            say: told what is looked at.
        """
        self._planner = planner
        self._around = around
        self._say = say

    def examine(
        self, request: PlanRequest, drafts: dict[str, ModelOptions], *, mtp: bool | None = None
    ) -> Examination:
        """Look at everything.

        Args:
            request: the target and the context; who drafts is chosen here.
            drafts: candidates by name, the favourite first.
            mtp: whether the target's own MTP layers are a candidate, the last one; None where it
                has any.

        Raises:
            SpectuiError: the target's file is unusable, or an option cannot be.
        """
        # Every question is asked by several who need not know of each other.
        plan: PlanCall = cache(self._planner.plan)
        free = self._around.free
        beside = {name: replace(request, draft=draft) for name, draft in drafts.items()}
        fits = {name: self._fit(plan, name, one) for name, one in beside.items()}
        target = plan(alone(request))
        if mtp or (mtp is None and target.target.info.mtp_layers):
            fits[MTP_KIND] = self._fit(plan, MTP_KIND, replace(request, mtp=True))
        self._say("finding out what fits")
        bound = speed_bound(target.target.traffic, self._around.bandwidth)
        chosen = _chosen(tuple(fits.values())) or alone(request)
        planned = plan(chosen)
        has_gpus = bool(self._around.backend.gpus)
        return Examination(
            request=chosen,
            plan=planned,
            demands=demands(planned, free),
            fits_alone=can_load(target, free),
            largest_context=largest_context(plan, chosen, free),
            from_disk=reads_from_disk(planned, free),
            always_from_disk=reads_from_disk(plan(with_smallest_context(chosen)), free),
            smallest_n_cpu_moe=smallest_n_cpu_moe(plan, chosen, free) if has_gpus else None,
            drafts=tuple(
                self._examined(name, fit, bound, is_wanted=mtp is True or not fit.request.mtp)
                for name, fit in fits.items()
            ),
            bound=bound,
        )

    def _fit(self, plan: PlanCall, name: str, request: PlanRequest) -> DraftFit:
        self._say(f"planning memory with {name}")
        return draft_fit(plan, request, self._around.free)

    def _examined(
        self, name: str, fit: DraftFit, target: SpeedBound | None, *, is_wanted: bool
    ) -> ExaminedDraft:
        own = None if fit.plan is None else fit.plan.draft
        bound = None
        if own is not None and target is not None and fit.is_compatible:
            bound = draft_bound(target, own.traffic, self._around.bandwidth)
        return ExaminedDraft(name=name, fit=fit, bound=bound, is_wanted=is_wanted)


def _chosen(fits: Sequence[DraftFit]) -> PlanRequest | None:
    """Choose the plan request with the first draft that can serve and fits, else that can serve."""
    can_serve = [fit for fit in fits if fit.is_compatible]
    fitting = [fit for fit in can_serve if fit.reason is None]
    return next((fit.request for fit in (*fitting, *can_serve)), None)
