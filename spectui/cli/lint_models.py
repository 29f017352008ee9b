"""Findings of ``spectui lint`` on the models of a command, which load what plans memory."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli.progress import open_progress
from spectui.cli.taken import with_home_of_here
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity
from spectui.commands.home import own_path
from spectui.commands.takeover import Takeover, counts_from_last, from_first, take_over
from spectui.doctor.examination import examine_fitted, surroundings
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
from spectui.options.setup import Fit, ModelOptions, Setup

if TYPE_CHECKING:
    from spectui.tune.outcome import Outcome
    from spectui.tune.studies.listing import StoredStudy

_WHY = "found as spectui doctor does, by headers and a plan of memory; no weight was loaded"


def with_facts(command: ServerCommand) -> ServerCommand:
    """The command with facts about those of its models that are on this machine.

    They are from the models' headers, and from studies.
    """
    target = _header(command.value("model"))
    draft = _header(command.value("model-draft"))
    return replace(
        command,
        target_tensors=None if target is None else frozenset(t.name for t in target.tensors),
        draft_tensors=None if draft is None else frozenset(t.name for t in draft.tensors),
        draft_kind=None if draft is None else kind_of_draft(draft),
        paying_length=_paying_length(command),
    )


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
    measured = tuple(_measured(setup))
    try:
        found = _of_models(setup, fit, is_drafting=_is_drafting(command), quiet=quiet)
    except MissingLibraryError as error:
        return measured, str(error)
    except SpectuiError as error:
        return (*measured, _fault(error)), None
    return (*measured, *found, *_unplanned(command)), None


def _fault(error: SpectuiError) -> Finding:
    return Finding(flag="-m", severity=Severity.ERROR, what=str(error), why=_WHY)


def _measured(setup: Setup) -> Iterator[Finding]:
    """Yield what a study has found for this pair, the latest of them.

    A search that tried the draft and found another way to draft best is about the pair as well.
    """
    draft = None if setup.draft is None else setup.draft.absolute().path
    for study, outcome in _confirmed_studies(setup.target.absolute().path):
        if draft in _drafts(study) or (draft is not None and draft.name in study.drafts):
            gain = 0.0 if outcome.gain is None else outcome.gain.speedup - 1
            told = outcome.verdict.reason.rstrip(".")
            what_next = "its flags: spectui export"
            if not outcome.verdict.use_speculation:
                what_next = "all that was tried: spectui report"
            yield Finding(
                flag="-m" if setup.draft is None else "-md",
                severity=Severity.NOTE,
                what=(
                    f"the best setting of a search on {outcome.ended.astimezone():%Y-%m-%d}: "
                    f"{100 * gain:+.0f} %"
                ),
                why=f"{told}; {what_next} {study.name}",
            )
            return


def _paying_length(command: ServerCommand) -> int | None:
    """Longest draft that a study of the command's pair found to pay, or one of its target."""
    model, draft = command.value("model"), command.value("model-draft")
    if model is None or not command.drafts_with_model:
        return None
    own = None if draft is None else _absolute(draft)
    lengths = [
        (own in _drafts(study), outcome.speculation.model.draft_max)
        for study, outcome in _confirmed_studies(_absolute(model))
        if outcome.speculation is not None and outcome.speculation.model is not None
    ]
    # The latest of the pair, and else of the target, whose batches cost most.
    return next((length for _is_own, length in sorted(lengths, key=lambda one: not one[0])), None)


def _absolute(path: str) -> Path:
    return ModelOptions(path=Path(path)).absolute().path


def _confirmed_studies(target: Path) -> Iterator[tuple["StoredStudy", "Outcome"]]:
    """Yield studies of a target that ended with measurements of their own, the latest first."""
    from spectui.tune.studies.listing import list_studies

    try:
        studies = list_studies(None)
    except SpectuiError:
        # A storage that is away is no fault of the command.
        return
    for study in studies:
        outcome = study.outcome
        if outcome is None or not outcome.is_confirmed or outcome.interrupted:
            continue
        if outcome.target.path == target:
            yield study, outcome


def _drafts(study: "StoredStudy") -> set[Path | None]:
    """Drafts of a study's verdict: what it advises, and what it measured if it advises none."""
    setups = (study.outcome, None if study.promise is None else study.promise.case)
    drafts = (one.draft for one in setups if one is not None)
    return {None if draft is None else draft.path for draft in drafts}


def _of_models(
    setup: Setup, fit: Fit | None, *, is_drafting: bool, quiet: bool
) -> tuple[Finding, ...]:
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
        examination, _placed = examine_fitted(
            planner, around, request, drafts, fit, say=progress.say, mtp=is_mtp
        )
        found = findings(examination, is_drafting=is_drafting)
        return tuple(replace(one, why=_WHY) for one in found)


def _is_drafting(command: ServerCommand) -> bool:
    return bool(command.kinds) or command.drafts_with_model


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
    if command.target_tensors is not None and counts_from_last(command):
        command = from_first(command, command.target_tensors)
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
