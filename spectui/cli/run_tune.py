"""Runs ``spectui tune`` with parsed options."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import click
from click.core import ParameterSource

from spectui.cli.defaults import given_extra
from spectui.cli.documents.common import model
from spectui.cli.documents.served import ENGINE, served_by, served_model
from spectui.cli.given import Models
from spectui.cli.interrupts import interrupts
from spectui.cli.output import check_writable
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.served_extra import served_extra
from spectui.cli.served_session import (
    check_schedule,
    keeps_off,
    open_fleet,
    served_workload,
    wanted_binary,
)
from spectui.cli.serving import Serving
from spectui.cli.session import (
    find_candidates,
    load_models,
    open_engine,
    read_prompts,
    tokenized,
    with_candidates,
)
from spectui.cli.taken import mind_unmeasured, taken
from spectui.cli.tune_present import arm_of, present_of
from spectui.cli.tune_report import Tuned, report
from spectui.cli.tune_request import TuneOptions, space_of, takes_mtp
from spectui.cli.tune_served import Served as ServedFinalists
from spectui.cli.tune_served import binary_of, failure_of, final, serve
from spectui.cli.tune_time import search_budget_s, with_time
from spectui.engine.commands import LoadTarget
from spectui.engine.fitting import with_n_cpu_moe
from spectui.errors import BadInputError, CancelledError, UsageError
from spectui.format import bytes_text, counted
from spectui.llama.planned import PlanRequest
from spectui.measure.arm import Arm
from spectui.measure.served_models import ServedModel, look_at
from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import measuring_arguments
from spectui.measure.statistics import MIN_PROMPTS
from spectui.monitor.host import hottest_c
from spectui.options.dialect import Dialect
from spectui.options.drafters import MODEL_KIND, MTP_KIND, NGRAM_KINDS, ONLY_BY_SERVER
from spectui.options.setup import ModelOptions, Setup
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary
from spectui.tune.backends import InProcess, Served
from spectui.tune.candidates import Candidate
from spectui.tune.conditions import conditions
from spectui.tune.events import SearchEnded, TuneEvent
from spectui.tune.placements import plan_experts
from spectui.tune.result import TuneResult
from spectui.tune.setup import Limits
from spectui.tune.space import Parameter, longest_draft
from spectui.tune.studies.samplers import Sampler
from spectui.tune.trials import n_measured
from spectui.tune.tuning import CommandOptions, StudyOptions, Tuning, TuningSetup


def tune(parsed: dict[str, Any]) -> None:
    """Load the models, search, confirm, and print.

    Raises:
        CancelledError: it was interrupted; what was measured has been printed and kept.
    """
    shared, options = _options(parsed)
    options.check()
    options.parameters()
    measuring = verifying = None
    if options.is_server:
        measuring, options = _measuring_binary(options)
    else:
        _check_engine(shared)
        verifying = binary_of(options)
    unmeasured = mind_unmeasured(parsed, through_server=options.is_server)
    takes_mtp(shared, options)
    check_writable(shared.json_path, shared.input_files())
    prompts = read_prompts(shared)
    progress = open_progress(quiet=shared.quiet, verbose=shared.verbose)
    _warn_of_few(prompts, progress)
    limits = Limits(
        n_trials=options.trials,
        time_budget_s=search_budget_s(options.time_budget, has_server=verifying is not None),
        n_confirmations=options.repeats,
    )
    try:
        if measuring is not None:
            found = _search_served(shared, options, limits, prompts, progress, binary=measuring)
        else:
            found = _search_here(shared, options, limits, prompts, progress)
        served = None
        if verifying is not None and found.result.error is None and not found.result.interrupted:
            # What was found is kept by now: this may be interrupted as well.
            interrupts.install()
            serving = Serving(
                binary=verifying,
                shared=shared,
                progress=progress,
                counts=False,
                timeout_s=options.timeout,
            )
            budget_s = options.time_budget
            served = serve(found.tuning, found.result, serving, prompts, budget_s=budget_s)
            interrupts.hold()
            served_s = 0.0 if served is None else served.took_s
            result = _ranked(found, served, progress)
            found = replace(found, result=with_time(result, budget_s, served_s))
    finally:
        progress.close()
    report(found, served, unmeasured, shared.json_path)
    _raise_ended(found.result, found.tuning, served)


def _options(parsed: dict[str, Any]) -> tuple[SharedOptions, TuneOptions]:
    own = {field.name for field in fields(TuneOptions)}
    options = TuneOptions(**{key: value for key, value in parsed.items() if key in own})
    shared = SharedOptions(**{key: value for key, value in parsed.items() if key not in own})
    return with_candidates(shared), options


def _measuring_binary(options: TuneOptions) -> tuple[ServerBinary, TuneOptions]:
    """The llama-server that measures, and the options in its dialect.

    Raises:
        ServerError: it is none, or cannot be asked.
        UsageError: none was given, or another dialect than its own.
    """
    binary = wanted_binary(options.server_bin)
    source = click.get_current_context().get_parameter_source("dialect")
    if source is ParameterSource.COMMANDLINE:
        binary.check_dialect(Dialect(options.dialect))
    return binary, replace(options, dialect=str(binary.dialect))


def _check_engine(shared: SharedOptions) -> None:
    for kind in shared.readers:
        raise UsageError(
            f"--spec-type {kind}: {ONLY_BY_SERVER}; add --backend server --server-bin PATH"
        )


def _warn_of_few(prompts: Sequence[Prompt], progress: Progress) -> None:
    if len(prompts) < MIN_PROMPTS:
        progress.say(
            f"{counted(len(prompts), 'prompt')} will not do for a verdict, which needs "
            f"{MIN_PROMPTS} at least"
        )


def _search_here(
    shared: SharedOptions,
    options: TuneOptions,
    limits: Limits,
    prompts: Sequence[Prompt],
    progress: Progress,
) -> Tuned:
    """Load the models and search with the engine in this process."""
    models = find_candidates(shared, progress)
    asked, longest = present_of(), longest_draft(shared.context_options())
    request = PlanRequest(
        target=shared.target_options(models.target),
        context=shared.context_options(),
        max_draft=longest,
    )
    experts = None
    if Parameter.N_CPU_MOE in options.parameters():
        drafts = {name: shared.draft_options(path) for name, path in models.drafts.items()}
        experts, refused = plan_experts(request, drafts, progress.say)
        models = models.without(refused)
    target_options = request.target
    if experts is not None:
        # Beside it, every draft can be examined.
        target_options = with_n_cpu_moe(target_options, experts.placements.most)
    command = LoadTarget(
        options=target_options,
        context=request.context,
        max_draft=max(longest, 0 if asked is None else asked.longest),
    )
    with_mtp = takes_mtp(shared, options) and experts is None
    with open_engine(shared, progress) as engine:
        target, candidates = load_models(
            engine, shared, models, progress, command, takes_mtp=with_mtp
        )
        space = space_of(
            options,
            target.mtp_layers,
            candidates,
            max_draft=longest,
            placements=None if experts is None else experts.placements,
        )
        present = None if asked is None else arm_of(asked, candidates, shared, space)
        tuning = Tuning(
            TuningSetup(
                off=_alone(shared, command.options, given_extra()),
                candidates=candidates,
                mtp_layers=target.mtp_layers,
                workload=tokenized(engine, prompts, shared, target),
                space=space if present is None else replace(space, present=present.arm),
                schedule=shared.schedule_kind(),
                limits=limits,
                min_gain=options.min_gain,
                study=_study(shared, options),
                command=_command(options),
                experts=experts,
                prompts=shared.prompts,
            ),
            InProcess(engine, target, command),
        )
        before = hottest_c()
        result = tuning.run(_listener(progress))
        return Tuned(
            tuning=tuning,
            result=_kept(result, progress),
            conditions=conditions(result.trials, before, hottest_c()),
            target=model(target),
            backend=ENGINE,
            alteration=target.info.alteration,
            memory_bytes=models.memory_bytes,
            present=present,
        )


def _search_served(
    shared: SharedOptions,
    options: TuneOptions,
    limits: Limits,
    prompts: Sequence[Prompt],
    progress: Progress,
    *,
    binary: ServerBinary,
) -> Tuned:
    """Search through llama-server.

    Raises:
        ServerError: the server without speculation does not start, or nothing was measured.
        UsageError: there is nothing to search.
    """
    check_schedule(shared)
    models = find_candidates(shared, progress)
    target = look_at(shared.target_options(models.target))
    drafts = _served_drafts(shared, models, progress)
    off = _alone(shared, target.options, served_extra())
    # What the binary has no words for is said before anything is started.
    measuring_arguments(off, binary)
    takes_layers = takes_mtp(shared, options) and shared.takes_mtp
    candidates = _served_candidates(target, drafts, takes_mtp=takes_layers)
    known = binary.accepted.drafters
    space = space_of(
        options,
        target.mtp_layers if takes_layers else 0,
        candidates,
        max_draft=longest_draft(off.context),
        with_ngrams=not known or known.issuperset(NGRAM_KINDS),
        readers=tuple((name, one.reader) for name, one in drafts.items() if one.reader is not None),
    )
    asked = present_of()
    present = None if asked is None else arm_of(asked, candidates, shared, space)
    stays = keeps_off(
        target.options, [one.options for one in drafts.values()], wanted=options.keeps_both
    )
    progress.say(_plan(options, target, keeps_off=stays))

    def name(setup: Setup) -> str:
        draft = next((name for name, one in drafts.items() if one.options == setup.draft), None)
        return Arm(draft=draft, speculation=setup.speculation).label

    with open_fleet(
        binary, progress, keeps_off=stays, timeout_s=options.timeout, name=name
    ) as fleet:
        n_ctx = off.context.ctx_size
        workload = served_workload(fleet.of(off), prompts, shared, progress, n_ctx=n_ctx)
        backend = ServerBackend(
            fleet,
            off,
            {name: one.options for name, one in drafts.items()},
            keeps_off=stays,
            redoes_rounds=target.redoes_rounds,
        )
        tuning = Tuning(
            TuningSetup(
                off=off,
                candidates=candidates,
                mtp_layers=target.mtp_layers,
                workload=workload,
                space=space if present is None else replace(space, present=present.arm),
                schedule=shared.schedule_kind(),
                limits=limits,
                min_gain=options.min_gain,
                study=_study(shared, options),
                command=_command(options),
                prompts=shared.prompts,
            ),
            Served(backend, binary, target, drafts),
        )
        before = hottest_c()
        result = tuning.run(_listener(progress))
    best = result.best
    setups = {"off": off}
    if best is not None:
        backend.load(best.draft if best.speculation and best.speculation.needs_draft else None)
        setups["on"] = backend.setup(best.speculation)
    return Tuned(
        tuning=tuning,
        result=_kept(result, progress),
        conditions=conditions(result.trials, before, hottest_c()),
        target=served_model(target, n_ctx),
        backend=served_by(
            binary,
            {name: measuring_arguments(setup, binary) for name, setup in setups.items()},
            keeps_both=stays,
            n_starts=fleet.n_starts,
        ),
        alteration=target.alteration,
        memory_bytes=models.memory_bytes,
        present=present,
    )


def _alone(shared: SharedOptions, target: ModelOptions, extra: tuple[str, ...]) -> Setup:
    """Setup of the target alone."""
    context = shared.context_options()
    return Setup(target=target, draft=None, context=context, speculation=None, extra=extra)


def _study(shared: SharedOptions, options: TuneOptions) -> StudyOptions:
    return StudyOptions(
        name=options.study,
        storage=options.storage,
        sampler=Sampler(options.sampler),
        seed=shared.seed,
        must_exist=options.resume,
    )


def _command(options: TuneOptions) -> CommandOptions:
    """Form of the command to print: that of ``--from``, if there is one."""
    found, dialect = taken(), Dialect(options.dialect)
    if found is None:
        return CommandOptions(dialect=dialect)
    return CommandOptions(
        dialect=dialect, extra=found.extra, given=found.given, start=found.takeover.start
    )


def _served_drafts(
    shared: SharedOptions, models: Models, progress: Progress
) -> dict[str, ServedModel]:
    """The drafts that ``--spec-type`` selects."""
    found = {name: look_at(shared.draft_options(path)) for name, path in models.drafts.items()}
    kinds = {name: one.reader or MODEL_KIND for name, one in found.items()}
    wanted = {
        name: one
        for name, one in found.items()
        if not shared.spec_type or kinds[name] in shared.spec_type
    }
    for name in found.keys() - wanted.keys():
        progress.say(
            f"left out {name}: it drafts as {kinds[name]}, which --spec-type does not name"
        )
    if found and not wanted:
        raise BadInputError(
            "no draft of -md is of a kind that --spec-type names; name its kind, or give another "
            "draft"
        )
    return wanted


def _served_candidates(
    target: ServedModel, drafts: dict[str, ServedModel], *, takes_mtp: bool
) -> tuple[Candidate, ...]:
    """Candidates: the drafts, and the target's own MTP layers."""
    found = [Candidate(name=name, options=one.options, loaded=None) for name, one in drafts.items()]
    if takes_mtp and target.mtp_layers:
        found.append(Candidate(name=MTP_KIND, options=target.options, loaded=None))
    return tuple(found)


def _plan(options: TuneOptions, target: ServedModel, *, keeps_off: bool) -> str:
    """Description of the search's cost."""
    size = bytes_text(target.file_bytes)
    begun = (
        f"up to {options.trials} trials through llama-server; nothing is replayed, and each new "
        "setting starts a server"
    )
    if keeps_off:
        return f"{begun} ({size} of target to load), beside the one without speculation"
    return f"{begun} and then the one without speculation again ({size} of target to load each)"


def _listener(progress: Progress) -> Callable[[TuneEvent], None]:
    def on_event(event: TuneEvent) -> None:
        if isinstance(event, SearchEnded):
            interrupts.hold()
        progress.on_tune(event)

    return on_event


def _kept(result: TuneResult, progress: Progress) -> TuneResult:
    if result.not_kept is not None:
        progress.say(result.not_kept)
    return result


def _ranked(found: Tuned, served: ServedFinalists | None, progress: Progress) -> TuneResult:
    """The result in llama-server's ranking, stored with the study."""
    ranked = final(found.result, served)
    return ranked if ranked is found.result else _kept(found.tuning.keep(ranked), progress)


def _raise_ended(result: TuneResult, tuning: Tuning, served: ServedFinalists | None) -> None:
    """Raise the error that ended the search, once the findings are printed.

    Raises:
        CancelledError: it was interrupted.
    """
    if served is not None and served.ended is not None:
        raise failure_of(served.ended)
    if result.error is not None:
        raise result.error
    if result.interrupted:
        raise CancelledError(
            f"interrupted; the study {tuning.name} keeps "
            f"{counted(n_measured(result.trials), 'trial')}, and the same command goes on from "
            "there"
        )
