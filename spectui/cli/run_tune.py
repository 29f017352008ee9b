"""What ``spectui tune`` does once its options are parsed."""

from dataclasses import fields
from functools import partial
from typing import Any

from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.session import (
    Models,
    find_candidates,
    load_models,
    open_engine,
    read_prompts,
    with_candidates,
)
from spectui.cli.tune_report import report
from spectui.cli.tune_request import TuneOptions, TuneRun
from spectui.config import MTP_KIND
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import CancelledError, UsageError
from spectui.export import NGRAM_DIALECTS, Dialect
from spectui.models.sizes import counted
from spectui.monitor.machine import this_machine
from spectui.monitor.thermal import hottest_c
from spectui.replay.trace import Trace
from spectui.tune.candidates import Candidate
from spectui.tune.conditions import conditions
from spectui.tune.forecast import Forecaster
from spectui.tune.kept import KeptTrace, identities, study_trace
from spectui.tune.measurement import Measurer
from spectui.tune.search import Limits, Search, TuneResult
from spectui.tune.space import SearchSpace, longest_draft
from spectui.tune.spec import study_name, study_spec
from spectui.tune.statistics import MIN_PROMPTS
from spectui.tune.study import Sampler, TuningStudy, own_storage
from spectui.tune.tracing import Tracing, identity, trace_of
from spectui.tune.trials import n_measured
from spectui.tune.workload import Workload, tokenize


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
    prompts = read_prompts(shared)
    progress = open_progress(quiet=shared.quiet, verbose=shared.verbose)
    if len(prompts) < MIN_PROMPTS:
        progress.say(
            f"{counted(len(prompts), 'prompt')} will not do for a verdict, which needs "
            f"{MIN_PROMPTS} at least"
        )
    try:
        models = find_candidates(shared, progress)
        with open_engine(shared, progress) as engine:
            target, candidates = load_models(
                engine,
                shared,
                models,
                progress,
                max_draft=longest_draft(shared.context_options()),
                takes_mtp=_takes_mtp(shared, options),
            )
            workload = tokenize(
                engine,
                prompts,
                n_predict=shared.n_predict,
                sampling=shared.sampling_config(),
                n_ctx=target.n_ctx,
            )
            run = _prepare(shared, options, target, candidates, workload, models=models)
            before = hottest_c()
            with run.study:
                result = _search(engine, run, progress)
                interrupts.hold()
            met = conditions(result.trials, before, hottest_c())
    finally:
        progress.close()
    report(result, run, met)
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; the study {run.study.name} keeps "
            f"{counted(n_measured(result.trials), 'trial')}, and the same command goes on from "
            "there"
        )


def _takes_mtp(shared: SharedOptions, options: TuneOptions) -> bool:
    """Whether the dialect has flags for MTP."""
    has_flags = Dialect(options.dialect) in NGRAM_DIALECTS
    if MTP_KIND in shared.spec_type and not has_flags:
        raise UsageError(
            f"--dialect {options.dialect} has no flags for {MTP_KIND} that spectui knows; leave "
            "one of them out"
        )
    return has_flags


def _prepare(
    shared: SharedOptions,
    options: TuneOptions,
    target: ModelLoaded,
    candidates: tuple[Candidate, ...],
    workload: Workload,
    *,
    models: Models,
) -> TuneRun:
    machine = this_machine()
    spec = study_spec(
        machine=machine,
        options=shared.target_options(target.info.path),
        target=target,
        candidates=candidates,
        context=shared.context_options(),
        schedule=shared.schedule_kind(),
        workload=workload,
    )
    usable = tuple(c.name for c in candidates if c.reason is None)
    with_ngrams = Dialect(options.dialect) in NGRAM_DIALECTS
    if not usable and not with_ngrams:
        raise UsageError(
            f"there is nothing to try: no draft can be used, and --dialect {options.dialect} has "
            "no n-gram drafters; give -md, or leave out --dialect"
        )
    space = SearchSpace(
        drafts=usable,
        tuned=options.parameters(),
        mtp_layers=target.mtp_layers,
        with_ngrams=with_ngrams,
        max_draft=longest_draft(shared.context_options()),
    )
    study = TuningStudy(
        name=options.study or study_name(target, spec),
        storage=options.storage or own_storage(),
        spec=spec,
        space=space,
        sampler=Sampler(options.sampler),
        seed=shared.seed,
        must_exist=options.resume,
    )
    return TuneRun(
        shared=shared,
        options=options,
        models=models,
        machine=machine,
        target=target,
        candidates=candidates,
        workload=workload,
        space=space,
        study=study,
    )


def _search(engine: Engine, run: TuneRun, progress: Progress) -> TuneResult:
    schedule = run.shared.schedule_kind()
    limits = Limits(
        n_trials=run.options.trials,
        time_budget_s=run.options.time_budget,
        n_confirmations=run.options.repeats,
    )
    forecaster = Forecaster(
        engine,
        run.workload.first(limits.n_trial_prompts),
        run.candidates,
        run.space,
        schedule=schedule,
        n_ctx=run.target.n_ctx,
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
        candidates=run.candidates,
        limits=limits,
        min_gain=run.options.min_gain,
        on_event=progress.on_tune,
        forecaster=forecaster,
    )
    return search.run()


def _trace(run: TuneRun, tracing: Tracing) -> Trace:
    return trace_of(
        tracing,
        machine=run.machine,
        target=run.target,
        candidates=[candidate for candidate in run.candidates if candidate.error is None],
        workload=run.workload,
        schedule=run.shared.schedule_kind(),
    )
