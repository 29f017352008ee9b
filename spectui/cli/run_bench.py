"""Runs ``spectui bench`` with parsed options."""

from dataclasses import fields, replace
from typing import Any

import click
from click.core import ParameterSource

from spectui.cli.bench_request import BenchOptions, Wanted
from spectui.cli.bench_run import BenchRun, Kinds, measure, raise_ended, report
from spectui.cli.documents.bench import draft_document
from spectui.cli.documents.common import model
from spectui.cli.documents.served import ENGINE
from spectui.cli.drafting import take_drafting
from spectui.cli.drafting_checks import check_drafting, check_typed
from spectui.cli.given import Models, find_models
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable
from spectui.cli.presets import with_preset_models
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.served_extra import served_extra
from spectui.cli.session import SUITE_PROMPTS, open_engine, read_prompts, tokenized
from spectui.cli.taken import mind_unmeasured
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import UsageError
from spectui.options.drafters import MODEL_KIND, ONLY_BY_SERVER, HiddenStateDrafter
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.speculative.models import unserved
from spectui.speculative.mtp import ONLY_SERVER, effective_schedule


def bench(ctx: click.Context, parsed: dict[str, Any], kinds: Kinds) -> None:
    """Load the models, measure every temperature and length, and print.

    Raises:
        BadInputError: a file is missing or malformed, or there is nothing to measure; what was
            measured before that has been printed.
        CancelledError: it was interrupted; what was measured has been printed.
        ServerError: a llama-server that measures failed; what was measured has been printed.
        UsageError: options that contradict each other.
    """
    backend, rest = _backend(parsed)
    if backend.server_url is not None:
        from spectui.cli.bench_running import bench_running

        bench_running(ctx, backend, rest, kinds)
        return
    check_typed(rest)
    speculation, shared = take_drafting(rest)
    given = SharedOptions(**shared, temp=kinds.temps[0])
    check_drafting(given, speculation)
    if not backend.is_server:
        _check_engine(speculation)
    minded = mind_unmeasured(rest, through_server=backend.is_server)
    options = with_preset_models(given, most_drafts=int(speculation.needs_draft))
    check_writable(options.json_path, options.input_files())
    prompts = read_prompts(options, of_suite=SUITE_PROMPTS)
    progress = open_progress(quiet=options.quiet, verbose=options.verbose)
    try:
        wanted = Wanted(
            shared=options,
            models=_models(options, speculation, progress),
            speculation=speculation,
            names_kind=ctx.get_parameter_source("spec_type") is ParameterSource.COMMANDLINE,
            prompts=prompts,
            kinds=kinds,
            extra=served_extra(),
        )
        run, ended = _measured(wanted, backend, progress)
        interrupts.hold()
    finally:
        progress.close()
    report(replace(run, notes=(*minded, *run.notes)), options.json_path)
    raise_ended(run.found, ended)


def _backend(parsed: dict[str, Any]) -> tuple[BenchOptions, dict[str, Any]]:
    """Split the options into those of the backend and all others."""
    own = {field.name for field in fields(BenchOptions)}
    backend = BenchOptions(**{name: value for name, value in parsed.items() if name in own})
    backend.check()
    return backend, {name: value for name, value in parsed.items() if name not in own}


def _measured(
    wanted: Wanted, backend: BenchOptions, progress: Progress
) -> tuple[BenchRun, BaseException | None]:
    if not backend.is_server:
        return _bench_here(wanted, progress)
    from spectui.cli.bench_served import bench_served

    return bench_served(wanted, backend, progress)


def _bench_here(wanted: Wanted, progress: Progress) -> tuple[BenchRun, BaseException | None]:
    options, speculation, kinds = wanted.shared, wanted.speculation, wanted.kinds
    with open_engine(options, progress) as engine:
        target, draft = _load(engine, options, wanted.models, speculation)
        if draft is not None and (why := unserved(target.rollback, draft.rollback)):
            progress.say(f"mind that llama-server cannot run {draft.info.path.name} here: {why}")
        schedule = _schedule(options, target, progress)
        workload = tokenized(engine, wanted.prompts, options, target)
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


def _check_engine(speculation: Speculation) -> None:
    if isinstance(speculation.own, HiddenStateDrafter):
        raise UsageError(
            f"--spec-type {speculation.own.kind}: {ONLY_BY_SERVER}; add --backend server "
            "--server-bin PATH"
        )


def _models(options: SharedOptions, speculation: Speculation, progress: Progress) -> Models:
    """The target, and the one draft.

    Raises:
        UsageError: there are several drafts, or one that nobody asks.
    """
    models = find_models(options, progress, needs_draft=speculation.needs_draft)
    if not speculation.needs_draft and options.model_draft:
        raise UsageError(
            f"-md names a draft, and --spec-type does not: add {MODEL_KIND} to it, or leave out -md"
        )
    if len(models.drafts) > 1 and not options.demo:
        raise UsageError("bench measures one draft; give one -md, or use spectui tune")
    return models


def _load(
    engine: Engine, options: SharedOptions, models: Models, speculation: Speculation
) -> tuple[ModelLoaded, ModelLoaded | None]:
    target = engine.load_target(
        options.target_options(models.target),
        options.context_options(),
        max_draft=speculation.longest,
        mtp=speculation.is_mtp,
    )
    if not speculation.needs_draft:
        return target, None
    path = next(iter(models.drafts.values()))
    return target, engine.load_draft(options.draft_options(path))


def _schedule(options: SharedOptions, target: ModelLoaded, progress: Progress) -> Schedule:
    """Return the schedule to measure; report where it is not the requested one."""
    wanted = options.schedule_kind()
    found = effective_schedule(wanted, target.mtp_layers)
    if found is not wanted:
        progress.say(f"mind that this measures --schedule {found}: {ONLY_SERVER}")
    return found
