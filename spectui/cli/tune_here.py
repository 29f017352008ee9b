"""Searches of ``spectui tune`` with the engine in this process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from spectui.cli.defaults import given_extra
from spectui.cli.expert_placement import ExpertPlan, plan_experts
from spectui.cli.given import Models
from spectui.cli.interrupts import interrupts
from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.cli.session import find_candidates, load_models, open_engine, tokenized
from spectui.cli.taken import taken
from spectui.cli.tune_present import Present, PresentArm, arm_of, present_of
from spectui.cli.tune_request import TuneOptions, TuneRun
from spectui.cli.tune_study import keep_outcome, open_study, space_of, takes_mtp
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.engine.fitting import with_n_cpu_moe
from spectui.measure.measurer import Measurer
from spectui.measure.workload import Workload
from spectui.monitor.host import hottest_c
from spectui.monitor.machine import this_machine
from spectui.prompts import Prompt
from spectui.trace.record import Trace
from spectui.tune.candidates import Candidate
from spectui.tune.conditions import Conditions, conditions
from spectui.tune.forecast import Forecaster
from spectui.tune.kept import KeptTrace, identities, study_trace
from spectui.tune.loading import Loader
from spectui.tune.result import TuneResult
from spectui.tune.search import Search
from spectui.tune.setup import Limits
from spectui.tune.space import Parameter, SearchSpace, longest_draft
from spectui.tune.spec import study_name, study_spec
from spectui.tune.tracing import Tracing, identity, trace_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """Inputs of a search with the engine."""

    shared: SharedOptions
    options: TuneOptions
    models: Models
    experts: ExpertPlan | None
    """None if the placement of experts is not searched."""
    longest: int
    """Longest draft to try."""
    asked: Present | None
    """Drafting setting of the ``--from`` command."""
    command: LoadTarget
    """Command that loads the target."""


def run_here(
    shared: SharedOptions, options: TuneOptions, prompts: Sequence[Prompt], progress: Progress
) -> tuple[TuneRun, TuneResult, Conditions]:
    """Load the models and search; return the run, its result, and the machine's conditions."""
    ground = _ground(shared, options, progress)
    experts = ground.experts
    with_mtp = takes_mtp(shared, options) and experts is None
    with open_engine(shared, progress) as engine:
        target, candidates = load_models(
            engine, shared, ground.models, progress, ground.command, takes_mtp=with_mtp
        )
        workload = tokenized(engine, prompts, shared, target)
        run = _run(ground, target, candidates, workload)
        before = hottest_c()
        with run.study:
            if experts is not None and run.space.placements is not None:
                experts.check(run.space.placements, run.study.name)
            result = _search(engine, run, target, progress)
            interrupts.hold()
            keep_outcome(run, result, progress)
        return run, result, conditions(result.trials, before, hottest_c())


def _ground(shared: SharedOptions, options: TuneOptions, progress: Progress) -> _Ground:
    models = find_candidates(shared, progress)
    longest, asked = longest_draft(shared.context_options()), present_of()
    deepest = max(longest, 0 if asked is None else asked.longest)
    experts = None
    if Parameter.N_CPU_MOE in options.parameters():
        models, experts = plan_experts(shared, models, progress, max_draft=longest)
    return _Ground(
        shared=shared,
        options=options,
        models=models,
        experts=experts,
        longest=longest,
        asked=asked,
        command=_first_load(shared, models, experts, max_draft=deepest),
    )


def _first_load(
    shared: SharedOptions, models: Models, experts: ExpertPlan | None, *, max_draft: int
) -> LoadTarget:
    """Command that loads the target so that every draft can be examined beside it."""
    options = shared.target_options(models.target)
    if experts is not None:
        options = with_n_cpu_moe(options, experts.placements.most)
    return LoadTarget(options=options, context=shared.context_options(), max_draft=max_draft)


def _run(
    ground: _Ground,
    target: ModelLoaded,
    candidates: tuple[Candidate, ...],
    workload: Workload,
) -> TuneRun:
    """The run to search, with the study that stores it."""
    shared, options, command = ground.shared, ground.options, ground.command
    machine = this_machine()
    spec = study_spec(
        machine=machine,
        options=command.options,
        target=target,
        candidates=candidates,
        context=command.context,
        schedule=shared.schedule_kind(),
        workload=workload,
        searches_experts=ground.experts is not None,
    )
    space, present = _space(ground, target, candidates)
    name = options.study or study_name(target.info.path, spec)
    return TuneRun(
        shared=shared,
        options=options,
        models=ground.models,
        machine=machine,
        target=target,
        candidates=candidates,
        workload=workload,
        study=open_study(options, name, spec, space, seed=shared.seed),
        loaded=command,
        extra=given_extra(),
        taken=taken(),
        present=present,
    )


def _space(
    ground: _Ground, target: ModelLoaded, candidates: Sequence[Candidate]
) -> tuple[SearchSpace, PresentArm | None]:
    """The search space, and the present setting in it."""
    space = space_of(
        ground.options,
        target.mtp_layers,
        candidates,
        max_draft=ground.longest,
        placements=None if ground.experts is None else ground.experts.placements,
    )
    if ground.asked is None:
        return space, None
    present = arm_of(ground.asked, candidates, ground.shared, space)
    return replace(space, present=present.arm), present


def _search(engine: Engine, run: TuneRun, target: ModelLoaded, progress: Progress) -> TuneResult:
    schedule = run.shared.schedule_kind()
    limits = Limits(
        n_trials=run.options.trials,
        time_budget_s=run.options.time_budget,
        n_confirmations=run.options.repeats,
    )
    loader = Loader(engine, run.candidates, movable=run.movable)
    forecaster = Forecaster(
        engine,
        run.workload.first(limits.n_trial_prompts),
        loader,
        run.space,
        schedule=schedule,
        n_ctx=target.n_ctx,
        rollback=target.rollback,
        kept=KeptTrace(
            study_trace(run.study.name, run.study.spec),
            partial(_trace, run, target),
            identity(target),
            identities(run.candidates),
        ),
    )
    search = Search(
        engine,
        run.study,
        workload=run.workload,
        measurer=Measurer(engine, run.workload, schedule),
        loader=loader,
        limits=limits,
        min_gain=run.options.min_gain,
        on_event=progress.on_tune,
        forecaster=forecaster,
    )
    return search.run()


def _trace(run: TuneRun, target: ModelLoaded, tracing: Tracing) -> Trace:
    return trace_of(
        tracing,
        machine=run.machine,
        target=target,
        candidates=[candidate for candidate in run.candidates if candidate.error is None],
        workload=run.workload,
        schedule=run.shared.schedule_kind(),
    )
