"""Runs ``spectui worker`` with parsed options."""

from collections.abc import Sequence
from typing import Any

from spectui.cli.click_options import given_words
from spectui.cli.output import write_result
from spectui.cli.run_tune import tune
from spectui.cli.tune import command as tune_command
from spectui.errors import CancelledError, UsageError
from spectui.format import counted, rate_text, times_text
from spectui.measure.statistics import Speedup
from spectui.tune.result import TuneResult
from spectui.tune.studies.machines import MachineResult, compare_machines
from spectui.tune.studies.storage import usual_storage
from spectui.tune.studies.study import study_arguments
from spectui.tune.tuning import StudyOptions

_OWN = ("study", "storage", "group")
_ENDED = ": it has ended; spectui tune with more --trials goes on with it."
_UNLIMITED = 1_000_000_000
"""Trials of a worker that nobody limits: the study has its own limit."""


def work(parsed: dict[str, Any]) -> None:
    """Join a study, measure until it ends, and print what each machine has measured.

    Raises:
        CancelledError: it was interrupted; its trial has been given back.
        UsageError: there is no such study, or it was made with what this command has to be given.
    """
    url = parsed["storage"] or usual_storage()
    name, kept = study_arguments(url, parsed["study"])
    own = {key: value for key, value in given_words().items() if key not in _OWN}
    if kept.get("from") and "command_line" not in own:
        raise UsageError(
            f"the study {name} was begun with --from, whose command is not kept; give the same "
            "--from here"
        )
    words = tune_command.words({"trials": str(_UNLIMITED), **kept, **own})
    with tune_command.make_context("worker", words) as context:
        found = tune(
            context.params,
            StudyOptions(name=name, storage=url, joins=True, group=parsed["group"]),
        )
    rows = compare_machines(url, name)
    document = {
        "command": "worker",
        "study": name,
        "group": parsed["group"],
        "n_measured_here": found.result.spent.n_tried,
        "machines": [row.document() for row in rows],
    }
    text = "\n".join(
        (
            f"Measured {counted(found.result.spent.n_tried, 'trial')} of {found.tuning.name}"
            + (_ENDED if _found_nothing(found.result) else "."),
            *machine_lines(rows),
        )
    )
    write_result(document, text, parsed["json_path"])
    if found.result.error is not None:
        raise found.result.error
    if found.result.interrupted:
        raise CancelledError("interrupted; the trial that was being measured is given back")


def machine_lines(rows: Sequence[MachineResult]) -> list[str]:
    """A line for each machine of a study and its groups."""
    return [
        f"{row.study} on {row.host}: {counted(row.n_trials, 'trial')}, "
        f"off {'?' if row.off_tokens_per_s is None else rate_text(row.off_tokens_per_s)} tokens/s"
        + (
            ""
            if row.best is None or row.speedup is None
            else f", best {row.best.label}: {_speedup_text(row.speedup)}"
        )
        for row in rows
    ]


def _speedup_text(speedup: Speedup) -> str:
    """The speedup with its interval; a trial's, which no race has confirmed."""
    if speedup.low is None or speedup.high is None:
        return times_text(speedup.estimate)
    half = (speedup.high - speedup.low) / 2
    return f"{times_text(speedup.estimate)} ±{half:.2f}"


def _found_nothing(result: TuneResult) -> bool:
    """Whether the study had ended before this worker could begin."""
    return not (result.spent.n_tried or result.interrupted or result.error)
