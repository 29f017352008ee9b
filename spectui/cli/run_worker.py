"""Runs ``spectui worker`` with parsed options."""

import time
from typing import Any

from spectui.cli.click_options import given_words
from spectui.cli.drawing import sentence
from spectui.cli.machines_report import machines_table
from spectui.cli.output import complain, write_result
from spectui.cli.repeated_options import repeated_options
from spectui.cli.run_tune import tune
from spectui.cli.tune import command as tune_command
from spectui.errors import CancelledError, UsageError
from spectui.format import counted
from spectui.tune.result import TuneResult
from spectui.tune.studies.conducting import study_arguments
from spectui.tune.studies.machines import compare_machines, machines_document
from spectui.tune.studies.storage import usual_storage
from spectui.tune.studies.study import StudyOptions

_OWN = ("study", "storage", "group")
_ENDED = (
    ": the study has ended. Begin its spectui tune command again with more --trials, and then "
    "this worker."
)
_LOOKS_S = 1.0
"""Pause between looks for a study that has not begun."""
_LEAST_S = 1.0
_UNLIMITED = 1_000_000_000
"""Trials of a worker that nobody limits: the study has its own limit."""


def work(parsed: dict[str, Any]) -> None:
    """Join a study, measure until it ends, and print what each machine has measured.

    Raises:
        CancelledError: it was interrupted; its trial has been given back.
        UsageError: it did not begin within the time budget, or was made with what this command has
            to be given.
    """
    url = parsed["storage"] or usual_storage()
    waiting = _Waiting(parsed["time_budget"])
    name, kept = study_arguments(url, parsed["study"], waiting)
    own = {key: value for key, value in given_words().items() if key not in _OWN}
    repeated = repeated_options(name, kept, own)
    if (left_s := waiting.left_s) is not None:
        own["time_budget"] = f"{left_s:.1f}s"
    words = tune_command.words({"trials": str(_UNLIMITED), **repeated, **own})
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
        **machines_document(rows),
    }
    ended = _ENDED if _found_nothing(found.result) else "."
    told = f"Measured {counted(found.result.spent.n_tried, 'trial')} of {found.tuning.name}{ended}"
    text = "\n".join((sentence(told), *([machines_table(rows)] if rows else [])))
    write_result(document, text, parsed["json_path"])
    if found.result.error is not None:
        raise found.result.error
    if found.result.interrupted:
        raise CancelledError("interrupted; the trial that was being measured is given back")


class _Waiting:
    """Waits for a study to begin, as long as the time budget allows; says so once."""

    def __init__(self, budget_s: float | None) -> None:
        self._budget_s = budget_s
        self._begun_s: float | None = None

    @property
    def left_s(self) -> float | None:
        """Seconds that are left of the budget; None where nothing was waited for, or for ever."""
        if self._begun_s is None or self._budget_s is None:
            return None
        return max(self._begun_s + self._budget_s - time.monotonic(), _LEAST_S)

    def __call__(self, reason: str) -> None:
        """Wait a moment.

        Raises:
            UsageError: the budget is spent.
        """
        if self._begun_s is None:
            complain(f"waiting {reason}")
            self._begun_s = time.monotonic()
        if self.left_s == _LEAST_S:
            raise UsageError(f"the time budget was spent waiting {reason}")
        time.sleep(_LOOKS_S)


def _found_nothing(result: TuneResult) -> bool:
    """Whether the study had ended before this worker could begin."""
    return not (result.spent.n_tried or result.interrupted or result.error)
