"""What ``spectui bench`` does once its options are parsed."""

from dataclasses import fields, replace
from typing import Any

import click
from click.core import ParameterSource

from spectui.cli.bench_request import BenchOptions, Wanted
from spectui.cli.bench_run import SUITE_PROMPTS, BenchRun, Kinds, measure, raise_ended, report
from spectui.cli.documents.bench import draft_document
from spectui.cli.documents.common import model
from spectui.cli.documents.served import ENGINE
from spectui.cli.drafting import take_drafting
from spectui.cli.drafting_checks import check_drafting, check_typed
from spectui.cli.given import Models, find_models
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable
from spectui.cli.preset_models import with_preset_models
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.served_extra import served_extra
from spectui.cli.session import open_engine, read_prompts
from spectui.cli.taken import mind_unmeasured
from spectui.config import MODEL_KIND, ONLY_BY_SERVER, Schedule, SpeculationConfig
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import UsageError
from spectui.speculative.mtp import ONLY_SERVER, effective_schedule
from spectui.speculative.rollback import unserved
from spectui.tune.workload import tokenize


def bench(ctx: click.Context, parsed: dict[str, Any], kinds: Kinds) -> None:
    """Load, measure every temperature and length, print.

    Raises:
        BadInputError: a file is missing or malformed, or there is nothing to measure; what was
            measured before that has been printed.
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: a llama-server that measures failed; what was measured has been printed.
        UsageError: options that contradict each other.
    """
    own = {field.name for field in fields(BenchOptions)}
    backend = BenchOptions(**{name: value for name, value in parsed.items() if name in own})
    backend.check()
    rest = {name: value for name, value in parsed.items() if name not in own}
    if backend.server_url is not None:
        from spectui.cli.bench_running import bench_running

        bench_running(ctx, backend, rest, kinds)
        return
    check_typed(rest)
    speculation, shared = take_drafting(rest)
    given = SharedOptions(**shared, temp=kinds.temps[0])
    check_drafting(given, speculation)
    minded: tuple[str, ...] = ()
    if not backend.is_server:
        _check_engine(speculation)
        minded = mind_unmeasured(rest)
    options = with_preset_models(given, most_drafts=int(speculation.has_model))
    check_writable(options.json_path, options.input_files())
    prompts = read_prompts(options)
    if options.prompts is None:
        prompts = prompts[:SUITE_PROMPTS]
    progress = open_progress(quiet=options.quiet, verbose=options.verbose)
    try:
        models = find_models(options, progress, needs_draft=speculation.has_model)
        _check_drafts(options, models, speculation)
        wanted = Wanted(
            shared=options,
            models=models,
            speculation=speculation,
            names_kind=ctx.get_parameter_source("spec_type") is ParameterSource.COMMANDLINE,
            prompts=prompts,
            kinds=kinds,
            extra=served_extra(),
        )
        if backend.is_server:
            from spectui.cli.bench_served import bench_served

            run, ended = bench_served(wanted, backend, progress)
        else:
            run, ended = _bench_here(wanted, progress)
        interrupts.hold()
    finally:
        progress.close()
    report(replace(run, notes=(*minded, *run.notes)), options.json_path)
    raise_ended(run.found, ended)


def _bench_here(wanted: Wanted, progress: Progress) -> tuple[BenchRun, BaseException | None]:
    options, speculation, kinds = wanted.shared, wanted.speculation, wanted.kinds
    with open_engine(options, progress) as engine:
        target, draft = _load(engine, options, wanted.models, speculation)
        if draft is not None and (why := unserved(target.rollback, draft.rollback)):
            progress.say(f"mind that llama-server cannot run {draft.info.path.name} here: {why}")
        schedule = _schedule(options, target, progress)
        workload = tokenize(
            engine,
            wanted.prompts,
            n_predict=options.n_predict,
            sampling=options.sampling_config(),
            n_ctx=target.n_ctx,
        )
        workloads = kinds.of(workload, target.n_ctx)
        found, ended = measure(
            engine, workloads, speculation, schedule, progress, repeats=kinds.repeats
        )
    run = BenchRun(
        speculation=speculation,
        schedule=schedule,
        target=model(target),
        draft=draft_document(None if draft is None else model(draft), speculation),
        backend=ENGINE,
        alteration=target.info.alteration,
        found=found,
        is_sweep=kinds.n > 1,
    )
    return run, ended


def _check_engine(speculation: SpeculationConfig) -> None:
    if speculation.reader is not None:
        raise UsageError(
            f"--spec-type {speculation.reader}: {ONLY_BY_SERVER}; add --backend server "
            "--server-bin PATH"
        )


def _check_drafts(options: SharedOptions, models: Models, speculation: SpeculationConfig) -> None:
    if not speculation.has_model and options.model_draft:
        raise UsageError(
            f"-md names a draft, and --spec-type does not: add {MODEL_KIND} to it, or leave out -md"
        )
    if len(models.drafts) > 1 and not options.demo:
        raise UsageError("bench measures one draft; give one -md, or use spectui tune")


def _load(
    engine: Engine, options: SharedOptions, models: Models, speculation: SpeculationConfig
) -> tuple[ModelLoaded, ModelLoaded | None]:
    target = engine.load_target(
        options.target_options(models.target),
        options.context_options(),
        max_draft=speculation.longest,
        mtp=speculation.mtp,
    )
    if not speculation.has_model:
        return target, None
    path = next(iter(models.drafts.values()))
    return target, engine.load_draft(options.draft_options(path))


def _schedule(options: SharedOptions, target: ModelLoaded, progress: Progress) -> Schedule:
    """What can be measured; where that is not what was asked for, it is said."""
    wanted = options.schedule_kind()
    found = effective_schedule(wanted, target.mtp_layers)
    if found is not wanted:
        progress.say(f"mind that this measures --schedule {found}: {ONLY_SERVER}")
    return found
