"""Runs ``spectui doctor`` with parsed options."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from spectui.cli.doctor import Doctor
from spectui.cli.named_models import find_models, of_named_kinds, with_preset_models
from spectui.cli.output import check_writable, write_result
from spectui.cli.page import next_lines, page_text, tune_words
from spectui.cli.request import RunOptions
from spectui.cli.taken import warn_of_unmeasured
from spectui.commands.finding import Finding, Severity
from spectui.doctor.document import doctor_document
from spectui.doctor.examination import Examination, Surroundings, examine, surroundings
from spectui.doctor.findings import finding, findings
from spectui.doctor.page import diagnosis
from spectui.engine.planning import Planner
from spectui.errors import (
    BadInputError,
    DoesNotFitError,
    MissingLibraryError,
    SpectuiError,
    UsageError,
)
from spectui.llama.library import passed_over
from spectui.llama.planned import PlanRequest
from spectui.monitor.machine import this_machine
from spectui.options.drafters import MTP_KIND
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
    given.check_drafts()
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
        refused = () if around.backend.library is None else passed_over()
    document = doctor_document(around, examination, found)
    text = page_text(diagnosis(around, examination, found, refused)).rstrip("\n")
    if error is None:
        text = "\n".join((text, "", page_text(_next(options, examination))))
    write_result(document, text, given.json_path)
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
    largest = examination.largest_context
    is_less = largest is not None and largest < options.context.ctx_size
    fitting = {"ctx_size": largest} if is_less else {}
    return next_lines("measure whether a draft pays", tune_words(options.given.words, **fitting))


def _examine(
    planner: Planner,
    options: RunOptions,
    draft_max: int,
    around: Surroundings,
) -> tuple[Examination, tuple[Finding, ...]]:
    """Examine; return the findings as well, and what --fit has chosen."""
    # Their headers are read where they can do no harm.
    models = find_models(options, needs_draft=False, reads_headers=False)
    models = of_named_kinds(models, options)
    request = PlanRequest(
        target=options.target_options(models.target),
        context=options.context,
        max_draft=draft_max,
    )
    drafts = {name: options.draft_options(path) for name, path in models.drafts.items()}
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
