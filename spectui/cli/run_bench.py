"""What ``spectui bench`` does once its options are parsed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from spectui.cli.bench_report import Benched, summary, table
from spectui.cli.documents.bench import bench_document, benches_document
from spectui.cli.drafting import take_drafting
from spectui.cli.drafting_checks import check_drafting, check_typed
from spectui.cli.given import Models, find_models
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable, write_result
from spectui.cli.preset_models import with_preset_models
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.session import open_engine, read_prompts
from spectui.config import MODEL_KIND, Schedule, SpeculationConfig
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import CancelledError, SpectuiError, UsageError
from spectui.monitor.machine import this_machine
from spectui.prompts import Prompt
from spectui.speculative.mtp import ONLY_SERVER, effective_schedule
from spectui.speculative.rollback import unserved
from spectui.tune.bench import run_bench
from spectui.tune.measurement import Measurer
from spectui.tune.workload import Workload, tokenize, with_length

_SUITE_PROMPTS = 8
"""Of the built-in suite: one per category. The user's own prompts are all taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What was measured, and of what."""

    target: ModelLoaded
    draft: ModelLoaded | None
    speculation: SpeculationConfig
    schedule: Schedule
    found: Sequence[Benched]
    is_sweep: bool
    """Whether several temperatures or lengths were asked for."""


def bench(
    parsed: dict[str, Any], *, temps: Sequence[float], lengths: Sequence[int], repeats: int
) -> None:
    """Load, measure every temperature and length, print.

    Raises:
        BadInputError: a file is missing or malformed, or there is nothing to measure; what was
            measured before that has been printed.
        CancelledError: it was interrupted; what was measured has been printed.
        UsageError: options that contradict each other.
    """
    check_typed(parsed)
    speculation, shared = take_drafting(parsed)
    given = SharedOptions(**shared, temp=temps[0])
    check_drafting(given, speculation)
    options = with_preset_models(given, most_drafts=int(speculation.has_model))
    check_writable(options.json_path, options.input_files())
    prompts = read_prompts(options)
    if options.prompts is None:
        prompts = prompts[:_SUITE_PROMPTS]
    kinds = tuple(product(temps, lengths or (None,)))
    progress = open_progress(quiet=options.quiet, verbose=options.verbose)
    try:
        models = find_models(options, progress, needs_draft=speculation.has_model)
        _check_drafts(options, models, speculation)
        with open_engine(options, progress) as engine:
            target, draft = _load(engine, options, models, speculation)
            if draft is not None and (why := unserved(target.rollback, draft.rollback)):
                progress.say(
                    f"mind that llama-server cannot run {draft.info.path.name} here: {why}"
                )
            schedule = _schedule(options, target, progress)
            workload = _tokenize(engine, options, prompts, target)
            workloads = [
                _varied(workload, temp, length, n_ctx=target.n_ctx) for temp, length in kinds
            ]
            found, ended = _measure(
                engine, workloads, speculation, schedule, progress, repeats=repeats
            )
            interrupts.hold()
    finally:
        progress.close()
    run = _Run(
        target=target,
        draft=draft,
        speculation=speculation,
        schedule=schedule,
        found=found,
        is_sweep=len(kinds) > 1,
    )
    _report(run, options.json_path)
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        n_pairs = sum(len(one.result.pairs) for one in found)
        raise CancelledError(
            f"interrupted after {n_pairs} measurements, which are shown above; "
            "run the command again for all"
        )
    if ended is not None:
        raise ended


def _report(run: _Run, json_path: str | None) -> None:
    machine = this_machine()
    documents = [
        bench_document(
            one.result,
            machine=machine,
            target=run.target,
            draft=run.draft,
            workload=one.workload,
            speculation=run.speculation,
            schedule=run.schedule,
        )
        for one in run.found
    ]
    if run.is_sweep:
        write_result(benches_document(documents, machine), table(run.found), json_path)
    else:
        write_result(documents[0], summary(run.found[0].result, run.target.info), json_path)


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


def _tokenize(
    engine: Engine, options: SharedOptions, prompts: Sequence[Prompt], target: ModelLoaded
) -> Workload:
    return tokenize(
        engine,
        prompts,
        n_predict=options.n_predict,
        sampling=options.sampling_config(),
        n_ctx=target.n_ctx,
    )


def _varied(workload: Workload, temp: float, length: int | None, *, n_ctx: int) -> Workload:
    workload = replace(workload, sampling=replace(workload.sampling, temp=temp))
    if length is None:
        return workload
    if length + workload.n_predict + 1 > n_ctx:
        raise UsageError(
            f"--prompt-length {length} and {workload.n_predict} tokens to predict do not fit in a "
            f"context of {n_ctx}; raise -c"
        )
    return with_length(workload, length)


def _measure(
    engine: Engine,
    workloads: Sequence[Workload],
    speculation: SpeculationConfig,
    schedule: Schedule,
    progress: Progress,
    *,
    repeats: int,
) -> tuple[list[Benched], BaseException | None]:
    """What was measured, and what ended it early, which must not cost what there is by then."""
    found: list[Benched] = []
    for workload in workloads:
        try:
            result = run_bench(
                engine,
                workload,
                Measurer(engine, workload, schedule),
                speculation,
                repeats=repeats,
                on_pair=progress.on_pair,
            )
        except (KeyboardInterrupt, SpectuiError) as error:
            if not found:
                raise
            return found, error
        found.append(Benched(workload=workload, result=result))
        if result.interrupted:
            return found, CancelledError("the measurement was cancelled")
    return found, None
