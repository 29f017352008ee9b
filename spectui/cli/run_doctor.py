"""Runs ``spectui doctor`` with parsed options."""

from dataclasses import dataclass
from typing import Any

from spectui.cli.doctor_view import told
from spectui.cli.documents.doctor import doctor_document
from spectui.cli.given import find_models
from spectui.cli.output import check_writable, write_result
from spectui.cli.preset_models import with_preset_models
from spectui.cli.progress import Progress, open_progress
from spectui.cli.request import SharedOptions
from spectui.cli.taken import mind_unmeasured
from spectui.doctor.examination import Examination, Examiner, Surroundings
from spectui.doctor.findings import Finding, findings
from spectui.doctor.speed import Bandwidth
from spectui.engine.fitting import free_memory
from spectui.engine.planning import Planner
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.llama.planned import PlanRequest
from spectui.monitor.bandwidth import gpu_bytes_per_s, ram_bytes_per_s
from spectui.monitor.machine import Machine, this_machine
from spectui.presets import Preset, find_preset
from spectui.severity import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Results of a diagnosis."""

    machine: Machine
    around: Surroundings
    examination: Examination | None
    """None if no target was given, or the preset's target is missing."""
    findings: tuple[Finding, ...]
    preset: Preset | None
    """The named preset; None without one."""


def doctor(planner: Planner, shared: dict[str, Any], *, draft_max: int) -> None:
    """Examine the machine and the models, and print the diagnosis.

    Args:
        planner: still starting, perhaps.
        shared: the options as they were given.
        draft_max: longest draft to make room for.

    Raises:
        BadInputError: a file is unusable, or none of the drafts can serve; what was found has been
            printed.
        DoesNotFitError: there is no room; what was found has been printed.
        UsageError: options that contradict each other.
    """
    given = SharedOptions(**shared)
    mind_unmeasured(shared, done="examined")
    has_target = given.demo or given.model is not None or given.preset is not None
    if not has_target and (given.model_draft or given.draft_dirs):
        raise UsageError("-md and --draft-dir need a target: give it with -m, or --demo")
    given.check_drafts()
    check_writable(given.json_path, given.input_files())
    options = _with_models(given)
    preset = None if given.preset is None else find_preset(given.preset)
    progress = open_progress(quiet=given.quiet, verbose=given.verbose)
    try:
        diagnosis = _diagnose(planner, options, preset, draft_max, progress)
    finally:
        progress.close()
    write_result(doctor_document(diagnosis), told(diagnosis), given.json_path)
    error = _verdict(diagnosis)
    if error is not None:
        raise error


def _with_models(given: SharedOptions) -> SharedOptions:
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


def _diagnose(
    planner: Planner,
    options: SharedOptions,
    preset: Preset | None,
    draft_max: int,
    progress: Progress,
) -> Diagnosis:
    machine = this_machine()
    around = surroundings(planner, machine)
    examination = None
    if options.demo or options.model is not None:
        examination = _examine(planner, options, draft_max, around, progress)
    return Diagnosis(
        machine=machine,
        around=around,
        examination=examination,
        findings=() if examination is None else findings(examination),
        preset=preset,
    )


def surroundings(planner: Planner, machine: Machine) -> Surroundings:
    """Backend, free memory and bandwidth of this machine, once the planner has started."""
    planner.wait()
    backend = planner.backend()
    # After the planner has started: beside it neither would be measured alone.
    bandwidth = Bandwidth(
        ram_bytes_per_s=ram_bytes_per_s(machine.n_cores),
        gpu_bytes_per_s=gpu_bytes_per_s({gpu.description for gpu in backend.gpus}),
    )
    free = free_memory(backend.gpus)
    return Surroundings(backend=backend, free=free, bandwidth=bandwidth)


def _examine(
    planner: Planner,
    options: SharedOptions,
    draft_max: int,
    around: Surroundings,
    progress: Progress,
) -> Examination:
    # Their headers are read where they can do no harm.
    models = find_models(options, progress, needs_draft=False, reads_headers=False)
    request = PlanRequest(
        target=options.target_options(models.target),
        context=options.context_options(),
        max_draft=draft_max,
    )
    drafts = {name: options.draft_options(path) for name, path in models.drafts.items()}
    # What a folder's first look leaves out is judged here as anything else, by the whole plan.
    drafts |= {one.name: one.options for one in models.refused}
    return Examiner(planner, around, progress.say).examine(
        request, drafts if options.takes_models else {}, mtp=_mtp(options)
    )


def _mtp(options: SharedOptions) -> bool | None:
    if options.names_mtp:
        return True
    return None if options.takes_mtp else False


def _verdict(diagnosis: Diagnosis) -> SpectuiError | None:
    """The error that determines the exit code; None for success."""
    examination = diagnosis.examination
    if examination is None:
        return None
    errors = [one for one in diagnosis.findings if one.severity is Severity.ERROR]
    if any(not demand.can_load for demand in examination.demands):
        return DoesNotFitError(errors[0].text)
    wanted = [one for one in examination.drafts if one.is_wanted]
    if wanted and not any(one.fit.is_compatible for one in wanted):
        return BadInputError(errors[0].text)
    return None
