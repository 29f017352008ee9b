"""Findings of ``spectui lint`` on the models of a command, which load what plans memory."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from spectui.cli.progress import open_progress
from spectui.cli.taken import with_home_of_here
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity
from spectui.commands.home import own_path
from spectui.commands.takeover import Takeover, take_over
from spectui.doctor.examination import examine, surroundings
from spectui.doctor.findings import findings
from spectui.engine.planning import Planner
from spectui.errors import MissingLibraryError, SpectuiError
from spectui.llama.planned import PlanRequest
from spectui.models.facts import kind_of_draft
from spectui.models.gguf import check_is_gguf, read_gguf
from spectui.models.header import GgufFile
from spectui.monitor.machine import this_machine
from spectui.options import catalogue, placement
from spectui.options.drafters import HIDDEN_STATE_KINDS, MTP_KIND
from spectui.options.reading import fit_of, read_options, read_speculation
from spectui.options.setup import Fit, Setup

_WHY = "found as spectui doctor does, by headers and a plan of memory; no weight was loaded"


def with_facts(command: ServerCommand) -> ServerCommand:
    """The command with facts about its draft, where that is on this machine."""
    draft = _header(command.value("model-draft"))
    if draft is None:
        return command
    tensors = frozenset(tensor.name for tensor in draft.tensors)
    return replace(command, draft_tensors=tensors, draft_kind=kind_of_draft(draft))


def _header(name: str | None) -> GgufFile | None:
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
        models = _models(takeover.options)
    except SpectuiError as error:
        return (), str(error)
    missing = next((path for path in models if not path.exists()), None)
    if missing is not None:
        return (), f"{missing} is not here"
    try:
        setup = takeover.to_setup()
        for path in models:
            check_is_gguf(path)
        fit = fit_of(read_options(takeover.options, catalogue.RUN))
    except SpectuiError as error:
        return (_fault(error),), None
    try:
        found = _of_models(setup, fit, quiet=quiet)
    except MissingLibraryError as error:
        return (), str(error)
    except SpectuiError as error:
        return (_fault(error),), None
    return (*found, *_unplanned(command)), None


def _fault(error: SpectuiError) -> Finding:
    return Finding(flag="-m", severity=Severity.ERROR, what=str(error), why=_WHY)


def _of_models(setup: Setup, fit: Fit | None, *, quiet: bool) -> tuple[Finding, ...]:
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


def _models(given: Mapping[str, tuple[str, ...]]) -> list[Path]:
    """Files of the target and of the draft that llama-server takes, the last one.

    Raises:
        UsageError: an option has a value that it cannot have, or it would never draft.
    """
    values = read_options(given, catalogue.RUN)
    read_speculation(given)
    drafts = values[placement.MODEL_DRAFT.parameter]
    return [values[placement.MODEL.parameter], *drafts[-1:]]
