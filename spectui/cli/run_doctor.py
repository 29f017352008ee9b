"""Runs ``spectui doctor`` with parsed options."""

from collections.abc import Sequence
from dataclasses import replace

from spectui.cli.doctor import Doctor
from spectui.cli.named_models import find_models, of_named_kinds, with_preset_models
from spectui.cli.output import check_writable, write_result
from spectui.cli.page import next_lines, page_text, shell_line, tune_words
from spectui.cli.request import RunOptions
from spectui.cli.taken import warn_of_unmeasured
from spectui.commands.finding import Finding, Severity
from spectui.doctor.document import LookedAt, doctor_document
from spectui.doctor.examination import (
    Examination,
    HeaderLook,
    Surroundings,
    examine_fitted,
    look_at_headers,
    surroundings,
)
from spectui.doctor.findings import finding, findings
from spectui.doctor.libraries import look_at_libraries
from spectui.doctor.page import diagnosis
from spectui.engine.planning import Planner
from spectui.errors import (
    BadInputError,
    DoesNotFitError,
    MissingLibraryError,
    SpectuiError,
    UsageError,
)
from spectui.format import percent_text
from spectui.llama.planned import PlanRequest
from spectui.models.ranking import read_share
from spectui.monitor.machine import this_machine
from spectui.options.drafters import MTP_KIND
from spectui.page import Page
from spectui.presets import find_preset


def doctor(planner: Planner, request: Doctor) -> None:
    """Examine the machine and the models, and print the diagnosis.

    Args:
        planner: still starting, perhaps.
        request: what to examine.

    Raises:
        BadInputError: a file is unusable, or none of the drafts can serve; what was found has been
            printed.
        DoesNotFitError: there is no room; what was found has been printed.
        UsageError: options that contradict each other.
    """
    given = RunOptions.of(request.given)
    warn_of_unmeasured(request.given, done="examined")
    has_target = given.demo or given.model is not None or given.preset is not None
    if not has_target and (given.model_draft or given.draft_dirs):
        raise UsageError("-md and --draft-dir need a target: give it with -m, or --demo")
    given.check_drafts()
    check_writable(given.json_path, given.input_files())
    options = _with_models(given)
    preset = None if given.preset is None else find_preset(given.preset)
    with options.shown() as shown:
        around = surroundings(planner, this_machine())
        looked_at, notes = _look(planner, shown, request.draft_max, around)
        libraries = look_at_libraries() if request.libraries else None
    found = (*(findings(looked_at) if isinstance(looked_at, Examination) else ()), *notes)
    document = doctor_document(around, looked_at, found, preset, libraries)
    text = page_text(diagnosis(around, looked_at, found, preset, libraries or ())).rstrip("\n")
    error = _verdict(looked_at, found)
    if error is None:
        text = "\n".join((text, "", page_text(_next(options, looked_at))))
    write_result(document, text, given.json_path)
    if error is not None:
        raise error


def _look(
    planner: Planner,
    options: RunOptions,
    draft_max: int,
    around: Surroundings,
) -> tuple[LookedAt, tuple[Finding, ...]]:
    """Examine the models, by their headers where there is no library; nothing without a target."""
    if not options.demo and options.model is None:
        return None, ()
    try:
        return _examine(planner, options, draft_max, around)
    except MissingLibraryError as missing:
        return _by_headers(options, missing)


def _next(options: RunOptions, looked_at: LookedAt) -> Page:
    """The next command after a diagnosis that found no error."""
    if looked_at is None and options.preset is not None:
        return next_lines("fetch its models", ["spectui", "models", "fetch", options.preset])
    if looked_at is None:
        return next_lines("find the models of this machine", ["spectui", "models", "scan"])
    if not _has_draft(looked_at):
        given = ["-m", str(options.model)]
        here = next_lines("find drafts for it", ["spectui", "models", "scan", *given])
        return [*here, f"  {shell_line(['spectui', 'models', 'find', *given])}"]
    largest = looked_at.largest_context if isinstance(looked_at, Examination) else None
    is_less = largest is not None and largest < options.context.ctx_size
    fitting = {"ctx_size": largest} if is_less else {}
    return next_lines("measure whether a draft pays", tune_words(options.given.words, **fitting))


def _with_models(given: RunOptions) -> RunOptions:
    """Return the options with those of the preset's models that are present."""
    try:
        return with_preset_models(given)
    except BadInputError:
        if given.preset is None or given.model is not None:
            raise
    try:
        return with_preset_models(given, most_drafts=0)
    except BadInputError:
        # The target is missing, too, which is no error of who asks what to fetch.
        return given


def _examine(
    planner: Planner,
    options: RunOptions,
    draft_max: int,
    around: Surroundings,
) -> tuple[Examination, tuple[Finding, ...]]:
    """Examine; return what --fit has chosen as well."""
    # Their headers are read where they can do no harm.
    models = find_models(options, needs_draft=False, reads_headers=False)
    models = of_named_kinds(models, options)
    request = PlanRequest(
        target=options.target_options(models.target),
        context=options.context,
        max_draft=draft_max,
    )
    drafts = {name: options.draft_options(path) for name, path in models.drafts.items()}
    # What a folder's first look leaves out is judged here as anything else, by the whole plan.
    drafts |= {one.name: one.options for one in models.refused}
    devices, gpus = request.target.devices, around.backend.gpus
    around = replace(around, free=around.free.with_margins(options.margins, devices, gpus))
    say, mtp = options.progress.say, _mtp(options)
    found, text = examine_fitted(planner, around, request, drafts, options.fit, say=say, mtp=mtp)
    return found, () if text is None else (finding(Severity.NOTE, text),)


def _by_headers(
    options: RunOptions, missing: MissingLibraryError
) -> tuple[HeaderLook, tuple[Finding, ...]]:
    """Look at the headers alone; return why no more was done as well."""
    models = find_models(options, needs_draft=False)
    look = look_at_headers(models.target, models.drafts)
    findings_ = [
        finding(Severity.ERROR, f"{name} cannot be the draft: {one.reason}", "-md")
        for name, one in look.drafts.items()
        if one.reason is not None
    ]
    shares = {
        name: read_share(look.target, one.facts)
        for name, one in look.drafts.items()
        if one.reason is None
    }
    findings_ += [
        finding(
            Severity.WARNING,
            f"a token of {name} reads {percent_text(share)} of the weights that one of the "
            "target reads, and a draft has to be far smaller; if -m and -md changed places, give "
            "them the other way round",
            "-md",
        )
        for name, share in shares.items()
        if share is not None and share > 1
    ]
    text = f"memory, speed and the rules of BOS and EOS were not examined: {missing}"
    return look, (*findings_, finding(Severity.WARNING, text))


def _mtp(options: RunOptions) -> bool | None:
    if options.names(MTP_KIND) and not options.model_draft:
        return True
    return None if options.takes(MTP_KIND) else False


def _verdict(examination: LookedAt, found: Sequence[Finding]) -> SpectuiError | None:
    """The error that determines the exit code; None for success."""
    if examination is None:
        return None
    if isinstance(examination, HeaderLook):
        is_unusable = bool(examination.drafts) and not _has_draft(examination)
        return BadInputError(found[0].what) if is_unusable else None
    errors = [one for one in found if one.severity is Severity.ERROR]
    if any(not demand.can_load for demand in examination.demands):
        return DoesNotFitError(errors[0].what)
    wanted = [one for one in examination.drafts if one.is_wanted]
    if wanted and not any(one.is_compatible for one in wanted):
        return BadInputError(errors[0].what)
    return None


def _has_draft(looked_at: Examination | HeaderLook) -> bool:
    """Whether one of the drafts can serve, as far as is known."""
    if isinstance(looked_at, Examination):
        return any(one.is_compatible is not False for one in looked_at.drafts)
    return any(one.reason is None for one in looked_at.drafts.values())
