"""The studies of a storage, with their results."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import optuna

from spectui.errors import UsageError
from spectui.measure.promise import Promise
from spectui.paths import STORAGE_VARIABLE
from spectui.tune.outcome import Outcome
from spectui.tune.studies.records import from_plain
from spectui.tune.studies.storage import (
    close_storage,
    open_storage,
    own_storage,
    own_storage_file,
    storage_errors,
)
from spectui.tune.studies.study import OUTCOME, PROMISE

_SHOWN = 12
"""Names that one message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEntry:
    """One study."""

    name: str
    changed: datetime
    """When it ended, or began its last trial."""
    outcome: Outcome | None
    """None where it was interrupted, or made by a spectui that did not keep it."""
    promise: Promise | None = None
    """None where no setting was confirmed."""


def list_studies(storage: str | None) -> tuple[StudyEntry, ...]:
    """All studies, the latest first.

    Args:
        storage: URL as Optuna takes it; None for the file in the user's data folder.

    Raises:
        BadInputError: the storage cannot be used.
    """
    url = storage or os.environ.get(STORAGE_VARIABLE)
    if not url:
        if not own_storage_file().exists():
            return ()
        url = own_storage()
    opened = open_storage(url)
    try:
        with storage_errors(url):
            summaries = optuna.get_all_study_summaries(opened, include_best_trial=False)
            found = [_entry(opened, summary) for summary in summaries]
    finally:
        close_storage(opened)
    return tuple(sorted(found, key=lambda entry: entry.changed, reverse=True))


def find_study(studies: Sequence[StudyEntry], wanted: str | None) -> StudyEntry:
    """The study of that name, the only one whose name contains it, or the latest.

    Raises:
        UsageError: there is none, or more than one.
    """
    if not studies:
        raise UsageError("nothing has been tuned yet; run spectui tune first")
    if wanted is None:
        return studies[0]
    found = [entry for entry in studies if entry.name == wanted]
    found = found or [entry for entry in studies if wanted in entry.name]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"there is no study {wanted}; there are {_names(studies)}")
    raise UsageError(f"{wanted} may mean {_names(found)}; give one of these names")


def _names(studies: Sequence[StudyEntry]) -> str:
    names = [entry.name for entry in studies]
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _entry(storage: optuna.storages.BaseStorage, study: optuna.study.StudySummary) -> StudyEntry:
    outcome = from_plain(study.user_attrs.get(OUTCOME), Outcome)
    changed = _last_change(storage, study.study_name) if outcome is None else outcome.ended
    return StudyEntry(
        name=study.study_name,
        changed=changed,
        outcome=outcome,
        promise=from_plain(study.user_attrs.get(PROMISE), Promise),
    )


def _last_change(storage: optuna.storages.BaseStorage, name: str) -> datetime:
    trials = optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
    times = [trial.datetime_start for trial in trials if trial.datetime_start is not None]
    # Optuna's times are the machine's own.
    return max(times).astimezone() if times else datetime.fromtimestamp(0, UTC)
