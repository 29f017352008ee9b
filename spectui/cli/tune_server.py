"""Searches of ``spectui tune --backend server`` through llama-server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click
from click.core import ParameterSource

from spectui.cli.given import Models
from spectui.cli.interrupts import interrupts
from spectui.cli.progress import Progress
from spectui.cli.request import SharedOptions
from spectui.cli.served_session import check_schedule, served_extra, wanted_binary
from spectui.cli.session import find_candidates
from spectui.cli.taken import taken
from spectui.cli.tune_present import arm_of, present_of
from spectui.cli.tune_request import ServedBackend, TuneOptions, TuneRun
from spectui.cli.tune_study import keep_outcome, open_study, space_of, takes_mtp
from spectui.engine.commands import LoadTarget
from spectui.errors import BadInputError, HopelessError
from spectui.format import bytes_text
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer
from spectui.measure.served_models import ServedModel, keeps_off, look_at
from spectui.measure.server_backend import ServerBackend
from spectui.measure.servers import Fleet, measuring_arguments, open_fleet
from spectui.measure.workload import Workload, served_workload
from spectui.monitor.host import hottest_c
from spectui.monitor.machine import this_machine
from spectui.options.dialect import Dialect
from spectui.options.drafters import MODEL_KIND, MTP_KIND, NGRAM_KINDS
from spectui.options.setup import Schedule, Setup
from spectui.prompts import Prompt
from spectui.server.binary import ServerBinary
from spectui.tune.candidates import Candidate
from spectui.tune.conditions import Conditions, conditions
from spectui.tune.result import TuneResult
from spectui.tune.search import Search
from spectui.tune.setup import Limits
from spectui.tune.space import SearchSpace, longest_draft
from spectui.tune.spec import served_spec, study_name
from spectui.tune.trials import n_measured


def measuring_binary(options: TuneOptions) -> tuple[ServerBinary, TuneOptions]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """Inputs of a search through servers."""

    shared: SharedOptions
    options: TuneOptions
    models: Models
    target: ServedModel
    drafts: Mapping[str, ServedModel]
    base: Setup
    """Setup of the target alone."""
    backend: ServedBackend

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Candidates: the drafts, and the target's own MTP layers."""
        found = [
            Candidate(name=name, options=one.options, loaded=None)
            for name, one in self.drafts.items()
        ]
        if self.mtp_layers:
            found.append(Candidate(name=MTP_KIND, options=self.target.options, loaded=None))
        return tuple(found)

    @property
    def mtp_layers(self) -> int:
        """Number of the target's MTP layers; 0 where they may not draft."""
        takes = takes_mtp(self.shared, self.options) and self.shared.takes_mtp
        return self.target.mtp_layers if takes else 0


def run_served(
    shared: SharedOptions,
    options: TuneOptions,
    prompts: Sequence[Prompt],
    binary: ServerBinary,
    progress: Progress,
) -> tuple[TuneRun, TuneResult, Conditions]:
    """Search; return the run, its result, and the machine's conditions.

    Raises:
        ServerError: the server without speculation does not start.
        UsageError: there is nothing to search.
    """
    check_schedule(shared)
    ground = _ground(shared, options, binary, progress)
    setup, backend = ground.base, ground.backend
    # What the binary has no words for is said before anything is started.
    measuring_arguments(setup, binary)
    space, asked = _space(ground), present_of()
    present = None if asked is None else arm_of(asked, ground.candidates, shared, space)
    if present is not None:
        space = replace(space, present=present.arm)
    progress.say(_plan(ground))
    with open_fleet(
        binary,
        keeps_off=backend.keeps_off,
        timeout_s=options.timeout,
        say=progress.say,
        name=lambda one: _name(one, ground),
    ) as fleet:
        workload = served_workload(
            fleet.of(setup),
            prompts,
            n_predict=shared.n_predict,
            sampling=shared.sampling_config(),
            n_ctx=setup.context.ctx_size,
            say=progress.say,
        )
        run = replace(_run(ground, space, workload), present=present)
        before = hottest_c()
        with run.study:
            result = _search(run, _decoding(ground, fleet), progress)
            error = result.error
            if error and (isinstance(error, HopelessError) or not n_measured(result.trials)):
                # Nothing is known, so that nothing can be advised.
                raise error
            interrupts.hold()
            keep_outcome(run, result, progress)
    run = replace(run, served=replace(backend, n_starts=fleet.n_starts))
    return run, result, conditions(result.trials, before, hottest_c())


def _ground(
    shared: SharedOptions, options: TuneOptions, binary: ServerBinary, progress: Progress
) -> _Ground:
    models = find_candidates(shared, progress)
    target = look_at(shared.target_options(models.target))
    drafts = _drafts(shared, models, progress)
    base = Setup(
        target=target.options,
        draft=None,
        context=shared.context_options(),
        speculation=None,
        extra=served_extra(),
    )
    stays = keeps_off(
        target.options, [one.options for one in drafts.values()], wanted=options.keeps_both
    )
    return _Ground(
        shared=shared,
        options=options,
        models=models,
        target=target,
        drafts=drafts,
        base=base,
        backend=ServedBackend(binary=binary, keeps_off=stays),
    )


def _drafts(shared: SharedOptions, models: Models, progress: Progress) -> dict[str, ServedModel]:
    """The drafts that ``--spec-type`` selects."""
    found = {name: look_at(shared.draft_options(path)) for name, path in models.drafts.items()}
    wanted = {name: one for name, one in found.items() if _is_wanted(one, shared.spec_type)}
    for name in found.keys() - wanted.keys():
        kind = found[name].reader or MODEL_KIND
        progress.say(f"left out {name}: it drafts as {kind}, which --spec-type does not name")
    if found and not wanted:
        raise BadInputError(
            "no draft of -md is of a kind that --spec-type names; name its kind, or give another "
            "draft"
        )
    return wanted


def _is_wanted(draft: ServedModel, kinds: Sequence[str]) -> bool:
    return not kinds or (draft.reader or MODEL_KIND) in kinds


def _space(ground: _Ground) -> SearchSpace:
    known = ground.backend.binary.accepted.drafters
    return space_of(
        ground.options,
        ground.mtp_layers,
        ground.candidates,
        max_draft=longest_draft(ground.base.context),
        with_ngrams=not known or known.issuperset(NGRAM_KINDS),
        readers=tuple(
            (name, one.reader) for name, one in ground.drafts.items() if one.reader is not None
        ),
    )


def _plan(ground: _Ground) -> str:
    """Description of the search's cost."""
    size = bytes_text(ground.target.file_bytes)
    begun = (
        f"up to {ground.options.trials} trials through llama-server; nothing is replayed, and "
        "each new setting starts a server"
    )
    if ground.backend.keeps_off:
        return f"{begun} ({size} of target to load), beside the one without speculation"
    return f"{begun} and then the one without speculation again ({size} of target to load each)"


def _name(setup: Setup, ground: _Ground) -> str:
    draft = next((name for name, one in ground.drafts.items() if one.options == setup.draft), None)
    return Arm(draft=draft, speculation=setup.speculation).label


def _run(ground: _Ground, space: SearchSpace, workload: Workload) -> TuneRun:
    shared, options = ground.shared, ground.options
    binary, machine = ground.backend.binary, this_machine()
    drafts = {name: one.options for name, one in ground.drafts.items()}
    version = binary.version
    spec = served_spec(
        machine=machine,
        server={
            "path": binary.path,
            "version": None if version is None else version.text,
            "build": None if version is None else version.build,
            "commit": None if version is None else version.commit,
        },
        target=ground.target.options,
        drafts=drafts,
        sizes_bytes={one.path: one.file_bytes for one in (ground.target, *ground.drafts.values())},
        context=ground.base.context,
        workload=workload,
        extra=ground.base.extra,
    )
    name = options.study or study_name(ground.target.path, spec)
    return TuneRun(
        shared=shared,
        options=options,
        models=ground.models,
        machine=machine,
        target=ground.target,
        candidates=ground.candidates,
        workload=workload,
        study=open_study(options, name, spec, space, seed=shared.seed),
        loaded=LoadTarget(
            options=ground.target.options, context=ground.base.context, max_draft=space.max_draft
        ),
        served=ground.backend,
        extra=ground.base.extra,
        taken=taken(),
    )


def _decoding(ground: _Ground, fleet: Fleet) -> ServerBackend:
    return ServerBackend(
        fleet,
        ground.base,
        {name: one.options for name, one in ground.drafts.items()},
        keeps_off=ground.backend.keeps_off,
        redoes_rounds=ground.target.redoes_rounds,
    )


def _search(run: TuneRun, decoding: ServerBackend, progress: Progress) -> TuneResult:
    options = run.options
    search = Search(
        decoding,
        run.study,
        workload=run.workload,
        measurer=Measurer(decoding, run.workload, Schedule.SERVER),
        loader=decoding,
        limits=Limits(
            n_trials=options.trials,
            time_budget_s=options.time_budget,
            n_confirmations=options.repeats,
        ),
        min_gain=options.min_gain,
        on_event=progress.on_tune,
    )
    return search.run()
