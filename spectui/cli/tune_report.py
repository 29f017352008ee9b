"""Final report of ``spectui tune``, as text and JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from spectui.cli.documents.tune import Findings, tune_document
from spectui.cli.drawing import drawn, wrapped
from spectui.cli.output import write_result
from spectui.cli.tune_present import PresentArm, present_document, present_lines
from spectui.cli.tune_served import Served
from spectui.documents import Json
from spectui.format import duration_text, times_text
from spectui.measure.arm import Arm
from spectui.measure.backend import ENGINE
from spectui.measure.lossless import UNTOLD, LosslessCheck
from spectui.measure.measurer import measurements
from spectui.measure.server_backend import REMEMBERS, remembers
from spectui.monitor.machine import this_machine
from spectui.options.setup import Schedule
from spectui.tune.categories import judge_profiles, per_category
from spectui.tune.conditions import Conditions
from spectui.tune.explain import explain_result
from spectui.tune.outcome import advised
from spectui.tune.pace import Spent
from spectui.tune.race import LOOK_EVERY
from spectui.tune.result import TuneResult
from spectui.tune.trials import speedup_estimate
from spectui.tune.tuning import Tuning

_OVER = 1.1
"""Factor of the time budget above which the excess is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """A search that has ended, and what its report says beside its result."""

    tuning: Tuning
    result: TuneResult
    conditions: Conditions
    target: Json
    """Document of the target."""
    backend: Json
    """Document of what measured."""
    alteration: str | None
    """How the target was altered, in a sentence; None if it was not."""
    memory_bytes: Mapping[str, int]
    """Estimates of drafts that were not loaded, by name."""
    present: PresentArm | None
    """The present setting of the command of ``--from``; None without one."""


def report(
    found: Tuned, served: Served | None, unmeasured: tuple[str, ...], json_path: str | None
) -> None:
    """Print the result and how to use it.

    Args:
        found: what was searched and found.
        served: results on llama-server.
        unmeasured: parts of the ``--from`` command that are not measured, as reported before.
        json_path: value of ``--json``.
    """
    result, setup = found.result, found.tuning.setup
    flags, command = _command(found.tuning, advised(result))
    best_command = None if result.best is None else _command(found.tuning, result.best)[1]
    findings = _findings(found)
    document = tune_document(
        result,
        findings,
        machine=this_machine(),
        study=found.tuning.name,
        target=found.target,
        candidates=setup.candidates,
        memory_bytes=found.memory_bytes,
        placements=found.tuning.space.placements,
        workload=setup.workload,
        schedule=setup.schedule,
        min_gain=setup.min_gain,
        flags=flags,
        command=command,
        best_command=best_command,
    )
    document |= {"notes": list(unmeasured), **found.backend}
    lines = _summary(found, findings)
    if served is not None:
        lines += [*map(wrapped, served.lines()), ""]
        document |= served.document()
    document |= present_document(found.present, result)
    lines += _commands(result, command, best_command)
    write_result(document, "\n".join(lines), json_path)


def _command(tuning: Tuning, arm: Arm) -> tuple[list[str], str]:
    """Flags and command line of an arm."""
    launch = tuning.setup_of(arm).launch(tuning.setup.command.dialect)
    return list(launch.arguments), launch.text


def _findings(found: Tuned) -> Findings:
    # A study may hold what this dialect has no words for.
    result, space = found.result, found.tuning.space
    trials = [record for record in result.trials if space.allows(record.arm)]
    return Findings(
        explanation=explain_result(result),
        categories=per_category(trials, result.best),
        profiles=judge_profiles(trials, min_gain=found.tuning.setup.min_gain),
        conditions=found.conditions,
    )


def _summary(found: Tuned, findings: Findings) -> list[str]:
    result, setup = found.result, found.tuning.setup
    lines = [result.verdict.reason, *present_lines(found.present, result)]
    if found.alteration is not None:
        lines.append(f"NOTE: {found.alteration}.")
    if result.off.n_cpu_moe is not None and result.speedup is not None:
        lines.append(
            f"NOTE: compared with the target alone and --n-cpu-moe {result.off.n_cpu_moe}, which "
            "fits without a draft."
        )
    if setup.schedule_of(result.best) is Schedule.FAST:
        lines.append(
            "NOTE: measured on the fast schedule, which llama-server does not have: this is what "
            "would be possible, not what the command gives."
        )
    is_served = found.backend != ENGINE
    if is_served and result.best is not None and remembers(result.best.speculation):
        lines.append(f"NOTE: {REMEMBERS}.")
    notes = (*findings.conditions.notes, *_time_notes(result.spent, interrupted=result.interrupted))
    lines += [f"NOTE: {note}" for note in notes]
    if result.lossless is not None:
        lines += _lossless_line(result.lossless)
    if result.best is not None and result.speedup is None:
        lines.append(f"Best so far: {result.best.label}{_in_trial(result)} (not confirmed).")
    if result.speedup is not None:
        lines += ["", wrapped(findings.explanation.text)]
    if findings.categories:
        table = _categories(findings, _confirmed(result))
        lines += ["", drawn(table), wrapped(findings.profiles.reason), ""]
    return lines


def _lossless_line(check: LosslessCheck) -> Iterator[str]:
    divergence = check.divergence
    if check.lossless or divergence is None:
        return
    if check.lossless is None:
        yield (
            f"NOTE: with speculation the output of prompt {divergence.prompt_id} parts from the "
            f"target's own at token {divergence.position}; {UNTOLD}."
        )
    else:
        yield "WARNING: speculation changed the output; spectui bench shows where."


def _time_notes(spent: Spent, *, interrupted: bool) -> Iterator[str]:
    """Notes on the effects of the time budget."""
    if spent.budget_s is None or interrupted:
        return
    if spent.left_out_recording:
        yield (
            "the time budget had no room for a recording, so that no setting was replayed; what "
            "was tried are mostly defaults."
        )
    if spent.ended_trials:
        yield f"the time budget ended the trials after {spent.n_tried} of {spent.n_trials}."
    if spent.took_s > _OVER * spent.budget_s:
        yield (
            f"it took {duration_text(spent.took_s)} in place of "
            f"{duration_text(spent.budget_s)}: what has begun is ended, and a verdict takes "
            f"{LOOK_EVERY} prompts at least."
        )


def _in_trial(result: TuneResult) -> str:
    """Result of the best setting's trial, for a search without a confirmation."""
    measured = [one for one in result.trials if one.arm == result.best and one.tokens_per_s]
    gain = speedup_estimate(measured[-1], result.trials) if measured else None
    if gain is None:
        return ""
    return f", {times_text(gain)} in its trial{', slower than off' if gain < 1 else ''}"


def _commands(result: TuneResult, command: str, best_command: str | None) -> Iterator[str]:
    """Yield the commands to run; the last line is the verdict's, for ``tail -n 1``."""
    if result.speedup is None and best_command is not None:
        yield "# the best so far, not confirmed:"
        yield f"# {best_command}"
    if not result.verdict.use_speculation:
        yield "# speculation off: no speculative flag is written"
    yield command


def _confirmed(result: TuneResult) -> dict[str, float]:
    """Speedup of the winner in the race, by category."""
    seconds: dict[str, list[float]] = {}
    for one in measurements(result.pairs):
        off, on = seconds.setdefault(one.category, [0.0, 0.0])
        per_token = one.baseline_tokens / one.speculative_tokens
        seconds[one.category] = [off + one.baseline_s, on + one.speculative_s * per_token]
    return {category: off / on for category, (off, on) in seconds.items()}


def _categories(findings: Findings, confirmed: dict[str, float]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("category", no_wrap=True)
    for heading in ("prompts", "tokens", "confirmed", "in trials", "best"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("best in the trials", no_wrap=True, overflow="ellipsis")
    for one in findings.categories:
        table.add_row(
            Text(one.category),
            str(one.n_prompts),
            str(one.n_tokens),
            times_text(confirmed.get(one.category)),
            times_text(one.winner_speedup),
            times_text(one.best_speedup),
            Text(one.best.label),
        )
    return table
