"""What ``spectui tune`` does once its options are parsed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from spectui.cli import documents
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable, write_result
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.session import load_candidates, model_paths, open_engine, read_prompts
from spectui.config import Schedule
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import CancelledError, UsageError
from spectui.export import Dialect, server_arguments, server_command
from spectui.monitor.machine import Machine, this_machine
from spectui.tune.candidates import Candidate
from spectui.tune.forecast import Forecaster
from spectui.tune.measurement import Measurer
from spectui.tune.search import Limits, Search, TuneResult
from spectui.tune.space import Parameter, SearchSpace, longest_draft
from spectui.tune.spec import study_name, study_spec
from spectui.tune.statistics import MIN_PROMPTS
from spectui.tune.study import Sampler, TuningStudy, own_storage
from spectui.tune.trials import TrialRecord
from spectui.tune.workload import Workload, tokenize


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The options that only ``tune`` has, by click's parameter names."""

    trials: int
    time_budget: float | None
    study: str | None
    storage: str | None
    resume: bool
    sampler: str
    tuned: str
    min_gain: float
    dialect: str
    repeats: int

    def parameters(self) -> frozenset[Parameter]:
        """Parse ``--tune``.

        Raises:
            UsageError: it names an unknown parameter, or none.
        """
        wanted = [name.strip() for name in self.tuned.split(",") if name.strip()]
        known = [str(parameter) for parameter in Parameter]
        for name in wanted:
            if name not in known:
                raise UsageError(f"--tune {name}: unknown; choose among {', '.join(known)}")
        if not wanted:
            raise UsageError(f"--tune names nothing; choose among {', '.join(known)}")
        return frozenset(Parameter(name) for name in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRun:
    """A run that is ready to search."""

    shared: SharedOptions
    options: TuneOptions
    machine: Machine
    target: ModelLoaded
    candidates: tuple[Candidate, ...]
    workload: Workload
    space: SearchSpace
    study: TuningStudy


def tune(parsed: dict[str, Any]) -> None:
    """Load, search, confirm, print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed and kept.
    """
    own = {field.name for field in fields(TuneOptions)}
    options = TuneOptions(**{key: value for key, value in parsed.items() if key in own})
    shared = SharedOptions(**{key: value for key, value in parsed.items() if key not in own})
    options.parameters()
    check_writable(shared.json_path, shared.input_files())
    prompts = read_prompts(shared)
    progress = open_progress(quiet=shared.quiet, verbose=shared.verbose)
    if len(prompts) < MIN_PROMPTS:
        progress.say(
            f"{len(prompts)} prompts are too few for a verdict, which needs {MIN_PROMPTS} at least"
        )
    try:
        target_path, drafts = model_paths(shared, progress)
        with open_engine(shared, progress) as engine:
            target = engine.load_target(
                shared.target_options(target_path),
                shared.context_options(),
                max_draft=longest_draft(shared.context_options()),
            )
            candidates = load_candidates(engine, shared, drafts)
            workload = tokenize(
                engine,
                prompts,
                n_predict=shared.n_predict,
                sampling=shared.sampling_config(),
                n_ctx=target.n_ctx,
            )
            run = _prepare(shared, options, target, candidates, workload)
            with run.study:
                result = _search(engine, run, progress)
                interrupts.hold()
    finally:
        progress.close()
    _report(result, run)
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; {_n_measured(result.trials)} trials are kept in the study "
            f"{run.study.name}, and the same command goes on from there"
        )


def _prepare(
    shared: SharedOptions,
    options: TuneOptions,
    target: ModelLoaded,
    candidates: tuple[Candidate, ...],
    workload: Workload,
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
    space = SearchSpace(
        drafts=usable,
        tuned=options.parameters(),
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
    )
    search = Search(
        engine,
        run.study,
        workload=run.workload,
        measurer=Measurer(engine, run.workload, schedule),
        candidates=run.candidates,
        limits=limits,
        on_event=progress.on_tune,
        forecaster=forecaster,
    )
    return search.run(min_gain=run.options.min_gain)


def _report(result: TuneResult, run: TuneRun) -> None:
    dialect = Dialect(run.options.dialect)
    target = run.shared.target_options(run.target.info.path)
    context = run.shared.context_options()
    draft, speculation = None, None
    if result.verdict.use_speculation and result.best is not None:
        by_name = {candidate.name: candidate.options for candidate in run.candidates}
        draft = by_name[str(result.best.arm.draft)]
        speculation = result.best.arm.speculation
    flags = server_arguments(target, draft, context, speculation, dialect=dialect)
    command = server_command(target, draft, context, speculation, dialect=dialect)
    document = documents.tune(
        result,
        machine=run.machine,
        study=run.study.name,
        target=run.target,
        candidates=run.candidates,
        workload=run.workload,
        schedule=run.shared.schedule_kind(),
        flags=flags,
        command=command,
    )
    write_result(
        document, _summary(result, command, run.shared.schedule_kind()), run.shared.json_path
    )


def _summary(result: TuneResult, command: str, schedule: Schedule) -> str:
    lines = [result.verdict.reason]
    if schedule is Schedule.FAST:
        lines.append(
            "NOTE: measured on the fast schedule, which llama-server does not have: this is what "
            "would be possible, not what the command gives."
        )
    if result.lossless is not None and not result.lossless.lossless:
        lines.append("WARNING: speculation changed the output; spectui bench shows where.")
    if result.best is not None and result.speedup is None:
        lines.append(f"Best so far: {result.best.arm.label} (not confirmed).")
    if not result.verdict.use_speculation:
        lines.append("# speculation off: no speculative flag is written")
    lines.append(command)
    return "\n".join(lines)


def _n_measured(trials: Sequence[TrialRecord]) -> int:
    return sum(trial.tokens_per_s is not None for trial in trials)
