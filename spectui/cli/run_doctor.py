"""Runs ``spectui doctor`` with parsed options, and examines the models of a command for lint."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spectui.cli.doctor import Doctor
from spectui.cli.from_command import warn_of_unmeasured, with_home_of_here
from spectui.cli.named_models import find_models, only_named_kinds, with_preset_models
from spectui.cli.output import check_writable
from spectui.cli.page import next_lines, write_result
from spectui.cli.progress import open_progress
from spectui.cli.request import RunOptions
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity
from spectui.commands.home import own_path
from spectui.commands.takeover import Takeover, take_over
from spectui.doctor.examination import Examination, Surroundings, examine, surroundings
from spectui.doctor.findings import finding, findings
from spectui.doctor.page import diagnosis, doctor_document
from spectui.engine.planning import Planner
from spectui.errors import (
    BadInputError,
    DoesNotFitError,
    MissingLibraryError,
    SpectuiError,
    UsageError,
)
from spectui.llama.library import unusable_places
from spectui.llama.planned import PlanRequest
from spectui.models.facts import kind_of_draft
from spectui.models.gguf import check_is_gguf, read_gguf
from spectui.models.header import GgufFile
from spectui.monitor.machine import this_machine
from spectui.options import catalogue, placement
from spectui.options.drafters import HIDDEN_STATE_KINDS, MTP_KIND
from spectui.options.reading import fit_of, read_options, read_speculation
from spectui.options.setup import Fit, Setup
from spectui.page import Page


def doctor(planner: Planner, request: Doctor) -> None:
    """Examine the machine and the models, and print the diagnosis.

    Args:
        planner: still starting, perhaps.
        request: what to examine.

    Raises:
        BadInputError: a file is unusable, or none of the drafts can serve; what was found has been
            printed.
        DoesNotFitError: there is no room; what was found has been printed.
        MissingLibraryError: models are given, and no library examines them; the machine has been
            printed.
        UsageError: options that contradict each other.
    """
    given = RunOptions.of(request.given)
    warn_of_unmeasured(request.given, done="examined")
    has_target = given.demo or given.model is not None or given.preset is not None
    if not has_target and given.model_draft:
        raise UsageError("-md needs a target: give it with -m, or --demo")
    given.check_drafts(are_asked=given.takes_files)
    check_writable(given.json_path, given.input_files())
    options = with_preset_models(given)
    examination: Examination | None = None
    found: tuple[Finding, ...] = ()
    error: SpectuiError | None = None
    with options.shown() as shown:
        around = surroundings(planner, this_machine())
        if options.demo or options.model is not None:
            try:
                examination, found = _examine(planner, shown, request.draft_max, around)
                error = _verdict(examination, found)
            except MissingLibraryError as missing:
                error = missing
        refused = {} if around.backend.library.value is None else unusable_places()
    document = doctor_document(around, examination, found)
    page = [*diagnosis(around, examination, found, refused)]
    if error is None:
        page += _next(options, examination)
    write_result(document, page, given.json_path, quiet=given.quiet)
    if error is not None:
        raise error


def _next(options: RunOptions, examination: Examination | None) -> Page:
    """The next command after a diagnosis that found no error."""
    if examination is None:
        return next_lines("find the models of this machine", ["spectui", "models", "scan"])
    if all(one.is_compatible is False for one in examination.drafts):
        given = ["-m", str(options.model)]
        here = next_lines("find drafts for it", ["spectui", "models", "scan", *given])
        return [*here, f"  {shlex.join(['spectui', 'models', 'find', *given])}"]
    return next_lines("measure whether a draft pays", options.given.words_for("tune"))


def _examine(
    planner: Planner,
    options: RunOptions,
    draft_max: int,
    around: Surroundings,
) -> tuple[Examination, tuple[Finding, ...]]:
    """Examine; return the findings as well, and what --fit has chosen."""
    # Their headers are read where they can do no harm.
    target, named = find_models(options, needs_draft=False, reads_headers=False)
    named = only_named_kinds(named, options)
    request = PlanRequest(
        target=options.target_options(target),
        context=options.context,
        max_draft=draft_max,
    )
    drafts = {name: options.draft_options(path) for name, path in named.items()}
    devices, gpus = request.target.devices, around.backend.gpus
    around = replace(around, free=around.free.with_margins(options.margins, devices, gpus))
    say, mtp = options.progress.say, _mtp(options)
    found = examine(planner, around, request, drafts, options.fit, say=say, mtp=mtp)
    placed = () if found.placed is None else (finding(Severity.NOTE, found.placed),)
    return found, (*findings(found), *placed)


def _mtp(options: RunOptions) -> bool | None:
    if options.names(MTP_KIND) and not options.model_draft:
        return True
    return None if options.takes(MTP_KIND) else False


def _verdict(examination: Examination, found: Sequence[Finding]) -> SpectuiError | None:
    """The error that determines the exit code; None for success."""
    errors = [one for one in found if one.severity is Severity.ERROR]
    if any(not demand.can_load for demand in examination.demands):
        return DoesNotFitError(errors[0].what)
    wanted = [one for one in examination.drafts if one.is_wanted]
    if wanted and not any(one.is_compatible for one in wanted):
        return BadInputError(errors[0].what)
    return None


_WHY = "found as spectui doctor does, by headers and a plan of memory; no weight was loaded"


def with_facts(command: ServerCommand) -> ServerCommand:
    """The command with facts about its draft, where that is on this machine."""
    draft = _draft_header(command.value("model-draft"))
    if draft is None:
        return command
    tensors = frozenset(tensor.name for tensor in draft.tensors)
    return replace(command, draft_tensors=tensors, draft_kind=kind_of_draft(draft))


def _draft_header(name: str | None) -> GgufFile | None:
    try:
        if name is None:
            return None
        path = Path(own_path(name))
        check_is_gguf(path)
        return read_gguf(path)
    except (SpectuiError, ValueError):
        # What is wrong with the file is said where it is looked at as a model.
        return None


def model_findings(
    command: ServerCommand, *, quiet: bool
) -> tuple[tuple[Finding, ...], str | None]:
    """Findings on the models, or the reason why there can be none.

    Args:
        command: as it should be.
        quiet: whether nothing is said meanwhile.
    """
    try:
        takeover = _taken(with_home_of_here(command))
        models = _models_of(takeover.options)
    except SpectuiError as error:
        return (), str(error)
    try:
        setup = takeover.to_setup()
        for path in models:
            check_is_gguf(path)
        fit = fit_of(read_options(takeover.options, catalogue.RUN))
        found = _plan_findings(setup, fit, quiet=quiet)
    except MissingLibraryError as error:
        return (), str(error)
    except SpectuiError as error:
        fault = Finding(flag="-m", severity=Severity.ERROR, what=str(error), why=_WHY)
        return (fault,), None
    return (*found, *_unplanned(command)), None


def _plan_findings(setup: Setup, fit: Fit | None, *, quiet: bool) -> tuple[Finding, ...]:
    draft, speculation = setup.draft, setup.speculation
    rpc = setup.target.devices.rpc
    with open_progress(quiet=quiet) as progress, Planner(rpc=rpc) as planner:
        around = surroundings(planner, this_machine())
        request = PlanRequest(
            target=setup.target,
            context=setup.context,
            max_draft=0 if speculation is None else speculation.longest,
        )
        drafts = {} if draft is None else {draft.path.name: draft}
        is_mtp = speculation is not None and speculation.is_mtp and draft is None
        # Parts that the command leaves to its server are where that puts them.
        examination = examine(planner, around, request, drafts, fit, say=progress.say, mtp=is_mtp)
        return tuple(replace(one, why=_WHY) for one in findings(examination))


def _is_unplanned(command: ServerCommand) -> bool:
    """Whether it drafts in a way whose memory demand only llama-server knows."""
    is_read_here = command.draft_kind in {None, MTP_KIND}
    return not is_read_here or not set(HIDDEN_STATE_KINDS).isdisjoint(command.kinds)


def _unplanned(command: ServerCommand) -> tuple[Finding, ...]:
    if not _is_unplanned(command):
        return ()
    return (
        Finding(
            flag="-md",
            severity=Severity.NOTE,
            what="whether there is memory for the draft as well was not looked at",
            why="it drafts from inside the target, which llama-server runs and spectui does not",
        ),
    )


def _taken(command: ServerCommand) -> Takeover:
    """The command as spectui takes it over, by the present names of its options.

    Raises:
        SpectuiError: it has options that spectui cannot read.
    """
    alone = _is_unplanned(command)
    kept = (item for item in command.items if not (alone and item.is_speculative))
    return take_over(ServerCommand.of(replace(item, variable=None) for item in kept))


def _models_of(given: Mapping[str, tuple[str, ...]]) -> list[Path]:
    """Files of the target and of the draft that llama-server takes, the last one.

    Raises:
        UsageError: an option has a value that it cannot have, or it would never draft.
    """
    values = read_options(given, catalogue.RUN)
    read_speculation(given)
    drafts = values[placement.MODEL_DRAFT.parameter]
    return [values[placement.MODEL.parameter], *drafts[-1:]]
