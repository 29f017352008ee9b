"""Examines a target and its drafts by their headers, against the machine's memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from spectui.doctor.speed import DraftBound, SpeedBound, fastest_gpu_bytes_per_s, speed_bound
from spectui.engine.demand import Demand, FreeMemory, can_load, demands, free_memory
from spectui.engine.fitting import PlanCall, alone, largest_context, smallest_n_cpu_moe
from spectui.engine.planning import Planner, fitted
from spectui.errors import BadInputError, DoesNotFitError, UsageError
from spectui.llama.planned import Backend, Plan, PlanRequest, beside
from spectui.monitor.dram import ram_limit
from spectui.monitor.machine import Machine
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import Fit, ModelOptions

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedDraft:
    """One draft beside the target, or the target's own MTP layers."""

    name: str
    is_wanted: bool = True
    """Whether the user asked for it: a target may have MTP layers that are not meant to be used."""
    request: PlanRequest
    """The target with it."""
    plan: Plan | None
    """None where it could not be made: its file or an option of it is unusable."""
    fits: bool | None
    """Whether the pair can be loaded; None where its file is unusable."""
    reason: str | None
    """Why it cannot be used; None if it can serve, and be loaded."""

    @property
    def options(self) -> ModelOptions:
        """The draft's file and placement; the target's, of which MTP layers are a part."""
        return self.request.draft or self.request.target

    @property
    def is_compatible(self) -> bool | None:
        """Whether it can serve the target; None where that is unknown."""
        return None if self.plan is None else self.plan.incompatibility is None

    @property
    def is_mtp(self) -> bool:
        """Whether it is the target's own MTP layers."""
        return self.request.mtp and self.request.draft is None

    def bound(self, target: SpeedBound | None) -> DraftBound | None:
        """Bound of its speed; None where it cannot serve, or speeds of memories are not known."""
        own = None if self.plan is None else self.plan.draft
        if own is None or target is None or not self.is_compatible:
            return None
        return target.draft_bound(own.traffic)


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
    smallest_n_cpu_moe: int | None
    """0 if all experts fit on the GPUs; None where that is no question, or no answer."""
    drafts: tuple[ExaminedDraft, ...]
    bound: SpeedBound | None
    placed: str | None = None
    """Sentence on where ``--fit`` places the target; None where that was given."""

    @property
    def fits(self) -> bool:
        """Whether the plan can be loaded, as far as is known."""
        return all(demand.can_load for demand in self.demands)

    @property
    def chosen(self) -> ExaminedDraft | None:
        """The draft that the plan uses; None if the target runs alone."""
        return next((one for one in self.drafts if one.request == self.request), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The machine that the models run on."""

    machine: Machine
    backend: Backend
    """This llama.cpp, and the GPUs that it can use."""
    free: FreeMemory
    ram_bytes_per_s: float | None
    """Bandwidth of the memory, as ``gpu_bytes_per_s``; None where it is not known."""
    gpu_bytes_per_s: float | None = None


def surroundings(planner: Planner, machine: Machine) -> Surroundings:
    """Backend, free memory and bandwidth of this machine, once the planner has started.

    Raises:
        UsageError: an RPC server cannot be used.
    """
    backend = planner.backend()
    # After the planner has started, since its start would disturb the measurement.
    ram_bytes_per_s = ram_limit(machine.fingerprint, machine.n_cores)
    return Surroundings(
        machine=machine,
        backend=backend,
        free=free_memory(backend.gpus),
        ram_bytes_per_s=ram_bytes_per_s,
        gpu_bytes_per_s=fastest_gpu_bytes_per_s(backend.gpus),
    )


def examine(
    planner: Planner,
    around: Surroundings,
    request: PlanRequest,
    drafts: Mapping[str, ModelOptions],
    fit: Fit | None = None,
    *,
    say: Say,
    mtp: bool | None = None,
) -> Examination:
    """Examine a target, alone and with each draft; no weights are loaded.

    Args:
        planner: asked some ten times.
        around: memories and their speeds.
        request: the target and the context; the draft is chosen here.
        drafts: candidates by name, the favourite first; ``--fit`` places the target beside that.
        fit: parts of the placement that are free to choose; None where it is given.
        say: called with a line on each step.
        mtp: whether the target's own MTP layers are a candidate, the last one; None where it has
            any.

    Raises:
        SpectuiError: the target's file is unusable, or an option cannot be.
    """
    placed = fitted(planner, replace(request, draft=next(iter(drafts.values()), None)), fit)
    if placed is not None:
        request = replace(request, target=placed.target)
        drafts = {name: beside(placed.target, draft) for name, draft in drafts.items()}
    # Cached, since several steps need the same plans.
    plan: PlanCall = cache(planner.plan)
    target = plan(alone(request)).target
    candidates = {name: request.beside(draft) for name, draft in drafts.items()}
    if mtp or (mtp is None and target.info.mtp_layers):
        candidates[MTP_KIND] = replace(request, mtp=True)
    tried = []
    for name, one in candidates.items():
        say(f"planning memory with {name}")
        draft = try_draft(plan, name, one, around.free)
        tried.append(replace(draft, is_wanted=name in drafts or mtp is True))
    say("finding out what fits")
    found = _examined(plan, around, _chosen(tried) or alone(request), tuple(tried))
    return replace(found, placed=None if placed is None else placed.sentence)


def _examined(
    plan: PlanCall, around: Surroundings, chosen: PlanRequest, drafts: tuple[ExaminedDraft, ...]
) -> Examination:
    """Find out what fits beside the ``chosen`` draft."""
    planned, free, traffic = plan(chosen), around.free, plan(alone(chosen)).target.traffic
    # Where --fit has placed experts, they are where they fit.
    has_gpus = bool(around.backend.gpus) and chosen.target.fit is None
    return Examination(
        request=chosen,
        plan=planned,
        demands=demands(planned, free),
        fits_alone=can_load(plan(alone(chosen)), free),
        largest_context=largest_context(plan, chosen, free),
        smallest_n_cpu_moe=smallest_n_cpu_moe(plan, chosen, free) if has_gpus else None,
        drafts=drafts,
        bound=speed_bound(traffic, around.ram_bytes_per_s, around.gpu_bytes_per_s),
    )


def try_draft(plan: PlanCall, name: str, request: PlanRequest, free: FreeMemory) -> ExaminedDraft:
    """Try the draft of a request beside its target.

    Raises:
        SpectuiError: as ``plan`` does, for the target.
    """
    try:
        planned = plan(request)
    except (BadInputError, DoesNotFitError, UsageError) as error:
        # Errors of the target are raised here; any other is the draft's.
        plan(alone(request))
        fits = False if isinstance(error, DoesNotFitError) else None
        return ExaminedDraft(name=name, request=request, plan=None, fits=fits, reason=str(error))
    shortages = [text for one in demands(planned, free) if (text := one.shortage) is not None]
    beside = f"beside the target, {'; '.join(shortages)}" if shortages else None
    return ExaminedDraft(
        name=name,
        request=request,
        plan=planned,
        fits=beside is None,
        reason=planned.incompatibility or beside,
    )


def _chosen(drafts: Sequence[ExaminedDraft]) -> PlanRequest | None:
    """Choose the plan request with the first draft that can serve and fits, else that can serve."""
    can_serve = [draft for draft in drafts if draft.is_compatible]
    fitting = [draft for draft in can_serve if draft.reason is None]
    return next((draft.request for draft in (*fitting, *can_serve)), None)
