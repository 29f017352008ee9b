"""What ``spectui tune`` does once its options are parsed."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from spectui.cli.expert_placement import ExpertPlan, plan_experts
from spectui.cli.given import Models
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.serving import Serving
from spectui.cli.session import (
    find_candidates,
    load_models,
    open_engine,
    read_prompts,
    with_candidates,
)
from spectui.cli.tune_promise import keep_promise
from spectui.cli.tune_report import report
from spectui.cli.tune_request import TuneOptions, TuneRun
from spectui.cli.tune_served import Served, binary_of, failure_of, final, serve
from spectui.config import MTP_KIND
from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.engine.fitting import with_n_cpu_moe
from spectui.errors import BadInputError, CancelledError, UsageError
from spectui.export import NGRAM_DIALECTS, Dialect
from spectui.models.sizes import counted
from spectui.monitor.machine import this_machine
from spectui.monitor.thermal import hottest_c
from spectui.prompts import Prompt
from spectui.replay.trace import Trace
from spectui.tune.candidates import Candidate
from spectui.tune.conditions import Conditions, conditions
from spectui.tune.forecast import Forecaster
from spectui.tune.kept import KeptTrace, identities, study_trace
from spectui.tune.loading import Loader
from spectui.tune.measurement import Measurer
from spectui.tune.outcome import advised, outcome_of
from spectui.tune.search import Limits, Search, TuneResult
from spectui.tune.space import Parameter, SearchSpace, longest_draft
from spectui.tune.spec import study_name, study_spec
from spectui.tune.statistics import MIN_PROMPTS
from spectui.tune.stored import to_plain
from spectui.tune.study import Sampler, TuningStudy, own_storage
from spectui.tune.tracing import Tracing, identity, trace_of
from spectui.tune.trials import n_measured
from spectui.tune.workload import tokenize


def tune(parsed: dict[str, Any]) -> None:
    """Load, search, confirm, print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed and kept.
    """
    own = {field.name for field in fields(TuneOptions)}
    options = TuneOptions(**{key: value for key, value in parsed.items() if key in own})
    shared = with_candidates(
        SharedOptions(**{key: value for key, value in parsed.items() if key not in own})
    )
    options.parameters()
    _takes_mtp(shared, options)
    check_writable(shared.json_path, shared.input_files())
    binary = binary_of(options)
    prompts = read_prompts(shared)
    progress = open_progress(quiet=shared.quiet, verbose=shared.verbose)
    if len(prompts) < MIN_PROMPTS:
        progress.say(
            f"{counted(len(prompts), 'prompt')} will not do for a verdict, which needs "
            f"{MIN_PROMPTS} at least"
        )
    try:
        run, result, met = _run(shared, options, prompts, progress)
        served = None
        if binary is not None and result.error is None and not result.interrupted:
            # What was found is kept by now: this may be interrupted as well.
            interrupts.install()
            serving = Serving(binary=binary, shared=shared, progress=progress, counts=False)
            served = serve(run, result, serving, prompts)
            interrupts.hold()
            result = _preferred(run, result, served, progress)
    finally:
        progress.close()
    report(result, run, met, served)
    if served is not None and served.ended is not None:
        raise failure_of(served.ended)
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; the study {run.study.name} keeps "
            f"{counted(n_measured(result.trials), 'trial')}, and the same command goes on from "
            "there"
        )


def _preferred(
    run: TuneRun, result: TuneResult, served: Served | None, progress: Progress
) -> TuneResult:
    """The result as llama-server ranks it, kept with the study."""
    found, study = final(result, served), run.study
    if found is result:
        return result
    try:
        with _open_study(
            run.options, study.name, study.spec, study.space, seed=run.shared.seed
        ) as opened:
            _keep_outcome(replace(run, study=opened), found, progress)
    except BadInputError as error:
        progress.say(f"spectui export will not know of llama-server's ranking: {error}")
    return found


def _run(
    shared: SharedOptions, options: TuneOptions, prompts: Sequence[Prompt], progress: Progress
) -> tuple[TuneRun, TuneResult, Conditions]:
    """Load and search; what was searched, what was found, and how warm the machine was."""
    models = find_candidates(shared, progress)
    longest = longest_draft(shared.context_options())
    experts = None
    if Parameter.N_CPU_MOE in options.parameters():
        models, experts = plan_experts(shared, models, progress, max_draft=longest)
    command = _first_load(shared, models, experts, max_draft=longest)
    takes_mtp = _takes_mtp(shared, options) and experts is None
    with open_engine(shared, progress) as engine:
        target, candidates = load_models(
            engine, shared, models, progress, command, takes_mtp=takes_mtp
        )
        workload = tokenize(
            engine,
            prompts,
            n_predict=shared.n_predict,
            sampling=shared.sampling_config(),
            n_ctx=target.n_ctx,
        )
        machine = this_machine()
        spec = study_spec(
            machine=machine,
            options=command.options,
            target=target,
            candidates=candidates,
            context=command.context,
            schedule=shared.schedule_kind(),
            workload=workload,
            searches_experts=experts is not None,
        )
        space = _space(options, target, candidates, experts, max_draft=longest)
        run = TuneRun(
            shared=shared,
            options=options,
            models=models,
            machine=machine,
            target=target,
            candidates=candidates,
            workload=workload,
            study=_open_study(
                options, options.study or study_name(target, spec), spec, space, seed=shared.seed
            ),
            loaded=command,
        )
        before = hottest_c()
        with run.study:
            if experts is not None and run.space.placements is not None:
                experts.check(run.space.placements, run.study.name)
            result = _search(engine, run, progress)
            interrupts.hold()
            _keep_outcome(run, result, progress)
        return run, result, conditions(result.trials, before, hottest_c())


def _first_load(
    shared: SharedOptions, models: Models, experts: ExpertPlan | None, *, max_draft: int
) -> LoadTarget:
    """The target so that every draft can be looked at beside it."""
    options = shared.target_options(models.target)
    if experts is not None:
        options = with_n_cpu_moe(options, experts.placements.most)
    return LoadTarget(options=options, context=shared.context_options(), max_draft=max_draft)


def _takes_mtp(shared: SharedOptions, options: TuneOptions) -> bool:
    """Whether the target's MTP layers may draft.

    Raises:
        UsageError: they were asked for together with what does not go with them.
    """
    is_named = shared.names_mtp
    has_flags = Dialect(options.dialect) in NGRAM_DIALECTS
    if is_named and not has_flags:
        raise UsageError(
            f"--dialect {options.dialect} has no flags for {MTP_KIND} that spectui knows; leave "
            "one of them out"
        )
    if is_named and Parameter.N_CPU_MOE in options.parameters():
        raise UsageError(
            f"--tune {Parameter.N_CPU_MOE} plans for draft models alone; leave it out, or "
            f"{MTP_KIND} of --spec-type"
        )
    return has_flags


def _space(
    options: TuneOptions,
    target: ModelLoaded,
    candidates: Sequence[Candidate],
    experts: ExpertPlan | None,
    *,
    max_draft: int,
) -> SearchSpace:
    """What is searched.

    Raises:
        UsageError: there is nothing.
    """
    usable = tuple(c.name for c in candidates if c.reason is None)
    with_ngrams = Dialect(options.dialect) in NGRAM_DIALECTS
    if not usable and not with_ngrams:
        raise UsageError(
            f"there is nothing to try: no draft can be used, and --dialect {options.dialect} has "
            "no n-gram drafters; give -md, or leave out --dialect"
        )
    return SearchSpace(
        drafts=usable,
        tuned=options.parameters(),
        mtp_layers=target.mtp_layers,
        with_ngrams=with_ngrams,
        max_draft=max_draft,
        placements=None if experts is None else experts.placements,
    )


def _open_study(
    options: TuneOptions, name: str, spec: dict[str, Any], space: SearchSpace, *, seed: int
) -> TuningStudy:
    return TuningStudy(
        name=name,
        storage=options.storage or own_storage(),
        spec=spec,
        space=space,
        sampler=Sampler(options.sampler),
        seed=seed,
        must_exist=options.resume,
    )


def _search(engine: Engine, run: TuneRun, progress: Progress) -> TuneResult:
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
        n_ctx=run.target.n_ctx,
        rollback=run.target.rollback,
        kept=KeptTrace(
            study_trace(run.study.name, run.study.spec),
            partial(_trace, run),
            identity(run.target),
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


def _keep_outcome(run: TuneRun, result: TuneResult, progress: Progress) -> None:
    """Store with the study what is about to be printed, for ``export`` and ``verify``."""
    outcome = outcome_of(
        result,
        target=run.target_beside(advised(result).draft),
        candidates=run.candidates,
        context=run.shared.context_options(),
        schedule=run.shared.schedule_kind(),
        mtp_layers=run.target.mtp_layers,
        dialect=Dialect(run.options.dialect),
    )
    try:
        run.study.keep(to_plain(outcome))
        keep_promise(run, result)
    except BadInputError as error:
        # That must not cost what is about to be printed.
        progress.say(f"spectui export will not know of this verdict: {error}")


def _trace(run: TuneRun, tracing: Tracing) -> Trace:
    return trace_of(
        tracing,
        machine=run.machine,
        target=run.target,
        candidates=[candidate for candidate in run.candidates if candidate.error is None],
        workload=run.workload,
        schedule=run.shared.schedule_kind(),
    )
