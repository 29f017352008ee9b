"""The studies of a storage, with their results."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec
import optuna
from optuna.study._frozen import FrozenStudy

from spectui.documents import Json
from spectui.errors import BadInputError, UsageError
from spectui.measure.promise import Promise
from spectui.paths import STORAGE_VARIABLE, own_storage_file
from spectui.tune.outcome import Outcome, Predictions
from spectui.tune.studies import records
from spectui.tune.studies.storage import (
    address_of,
    check_writable,
    close_storage,
    file_of,
    is_file,
    is_locked,
    lock_study,
    open_storage,
    storage_errors,
)
from spectui.tune.trials import TrialRecord

REPORT = "report"
"""Under which a study keeps what ``tune`` printed in the end."""
_SHOWN = 12
"""Names that one message lists."""


class StudyState(StrEnum):
    """State of a study."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    """The search was stopped, or its process ended: the same command goes on."""
    WORKED_ON = "being worked on"
    UNREADABLE = "not readable"
    """Made by a newer spectui, or not imported whole."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report that ``tune`` printed at the end, or the screen's without a text."""

    schema: Literal["spectui.report/1"] = "spectui.report/1"
    text: str
    document: Json


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
    problem: str | None = None
    """Why it cannot be read; None where it can."""
    target: str | None = None
    """File name of the target; None where it is not kept."""
    drafts: frozenset[str] = frozenset()
    """File names of the drafts that it searched."""
    group: str | None = None
    """Name under which all machines have theirs; None where that is its own."""
    machine: str | None = None
    """Hardware; None in a file, and where an older spectui made it."""

    def state(self, storage: str | None) -> StudyState:
        """State of the study now, in the storage that it was found in."""
        if self.problem is not None:
            return StudyState.UNREADABLE
        if is_locked(address_of(storage), self.name):
            return StudyState.WORKED_ON
        is_done = self.outcome is not None and not self.outcome.interrupted
        return StudyState.FINISHED if is_done else StudyState.INTERRUPTED


def list_studies(storage: str | None) -> tuple[StudyEntry, ...]:
    """All studies, the latest first.

    Args:
        storage: URL as Optuna takes it; None for the file in the user's data folder.

    Raises:
        BadInputError: the storage cannot be used.
    """
    if is_empty(storage):
        return ()
    with opened(storage) as (_url, studies):
        return entries_of(studies)


def entries_of(studies: optuna.storages.BaseStorage) -> tuple[StudyEntry, ...]:
    """All studies of an open storage, the latest first."""
    # A summary of Optuna's would read all trials.
    own = (one for one in studies.get_all_studies() if records.PART_OF not in one.user_attrs)
    found = [_entry(studies, study) for study in own]
    # What a wrong clock dates in the future is not the latest for ever.
    now = datetime.now(UTC)
    return tuple(sorted(found, key=lambda one: (one.changed <= now, one.changed), reverse=True))


def machines_of(study: str, studies: Sequence[StudyEntry]) -> Sequence[StudyEntry]:
    """The studies of all machines that have one under the name that ``study`` belongs to."""
    groups = {one.name: one.group or one.name for one in studies}
    return [one for one in studies if groups[one.name] == groups.get(study)]


def decided(studies: Sequence[StudyEntry]) -> Sequence[StudyEntry]:
    """Studies with a confirmed verdict; all of them where none has one.

    A search that was stopped must not hide the verdict of the one before.
    """
    return [one for one in studies if one.outcome and one.outcome.is_confirmed] or studies


def find_study(studies: Sequence[StudyEntry], wanted: str | None) -> StudyEntry:
    """The study of that name, the only one whose name contains it, or the latest.

    Raises:
        BadInputError: this spectui does not read it.
        UsageError: there is none, or more than one.
    """
    if not studies:
        raise UsageError("nothing has been tuned yet; run spectui tune first")
    found = [entry for entry in studies if wanted is None or entry.name == wanted]
    found = found or [entry for entry in studies if wanted is not None and wanted in entry.name]
    if not found:
        raise UsageError(f"there is no study {wanted}; there are {_names(studies)}")
    if wanted is not None and len(found) > 1:
        raise UsageError(f"{wanted} may mean {_names(found)}; give one of these names")
    if found[0].problem is not None:
        raise BadInputError(found[0].problem)
    return found[0]


def _names(studies: Sequence[StudyEntry]) -> str:
    names = [entry.name for entry in studies]
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def is_empty(storage: str | None) -> bool:
    """Whether it is spectui's own file, which is not there yet.

    Raises:
        BadInputError: nor can it ever be, as a file stands where its folder belongs; or a file that
            somebody names is not there.
    """
    file = file_of(storage)
    if file is None or file.exists():
        return False
    if file != own_storage_file():
        raise BadInputError(
            f"{file}: no such file; correct --storage or {STORAGE_VARIABLE}, or leave both out for "
            "spectui's own file"
        )
    found = next(folder for folder in file.parents if folder.exists())
    if not found.is_dir():
        raise BadInputError(f"{file.parent}: {found} is no folder; set SPECTUI_HOME to one")
    return True


@contextmanager
def opened(storage: str | None) -> Iterator[tuple[str, optuna.storages.BaseStorage]]:
    """Open a storage for a while, by its URL or None for spectui's own; yields both.

    Raises:
        BadInputError: the storage cannot be used, or fails inside the block.
    """
    url = address_of(storage)
    studies = open_storage(url)
    try:
        with storage_errors(url):
            yield url, studies
    finally:
        close_storage(studies)


def has_study(storage: str | None, name: str) -> bool:
    """Whether there is a study of exactly that name.

    Raises:
        BadInputError: the storage cannot be used.
    """
    with opened(storage) as (_url, studies):
        return name in optuna.get_all_study_names(studies)


def kept_trials(storage: str | None, names: Sequence[str]) -> dict[str, tuple[TrialRecord, ...]]:
    """All trials of studies that have begun, by the study's name.

    Raises:
        BadInputError: the storage cannot be used, or a trial is damaged.
    """
    if not names:
        return {}
    with opened(storage) as (_url, studies):
        return {
            name: trials_of(optuna.load_study(study_name=name, storage=studies)) for name in names
        }


def trials_of(study: optuna.Study) -> tuple[TrialRecord, ...]:
    """All trials of a study that have begun.

    Raises:
        BadInputError: one is damaged.
    """
    try:
        return records.stored(study)
    except msgspec.ValidationError as error:
        raise BadInputError(
            f"a trial of the study {study.study_name} cannot be read ({error}); update spectui, or "
            "delete the study"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStudy:
    """A study as it is kept. A part is None where nothing is kept that this spectui reads."""

    name: str
    outcome: Outcome | None
    promise: Promise | None
    report: Report | None
    """Output of ``tune``; of the screen, the document alone."""
    predictions: Predictions | None
    arguments: Mapping[str, Any]
    """Options of its search as they were typed; empty where they are not kept."""
    trials: tuple[TrialRecord, ...]


def stored_study(storage: str | None, wanted: str | None) -> StoredStudy:
    """Read a study of a storage.

    Args:
        storage: URL as Optuna takes it; None for the file in the user's data folder.
        wanted: its name, or a part of one; None for the latest with a verdict.

    Raises:
        BadInputError: the storage cannot be used, or this spectui does not read the study.
        UsageError: there is no such study, or more than one.
    """
    if is_empty(storage):
        find_study((), wanted)
    with opened(storage) as (_url, studies):
        entries = entries_of(studies)
        name = find_study(decided(entries) if wanted is None else entries, wanted).name
        study = optuna.load_study(study_name=name, storage=studies)
        return study_of(name, study.user_attrs, trials_of(study))


def study_of(name: str, kept: Mapping[str, Any], trials: tuple[TrialRecord, ...]) -> StoredStudy:
    """The study with these attributes."""
    return StoredStudy(
        name=name,
        outcome=records.from_plain(kept.get(records.OUTCOME), Outcome),
        promise=records.from_plain(kept.get(records.PROMISE), Promise),
        report=records.from_plain(kept.get(REPORT), Report),
        predictions=records.from_plain(kept.get(records.PREDICTIONS), Predictions),
        arguments=records.from_plain(kept.get(records.ARGUMENTS), dict[str, Any]) or {},
        trials=trials,
    )


def keep_report(storage: str | None, name: str, text: str, document: Json) -> None:
    """Keep what ``tune`` prints, for ``show``.

    Raises:
        BadInputError: the storage cannot be used.
    """
    report = msgspec.to_builtins(Report(text=text, document=document))
    with opened(storage) as (_url, studies):
        optuna.load_study(study_name=name, storage=studies).set_user_attr(REPORT, report)


def delete_studies(storage: str | None, names: Sequence[str]) -> None:
    """Delete studies that nobody works on.

    Raises:
        BadInputError: the storage cannot be used.
        UsageError: a process is working on one; then none is deleted.
    """
    check_writable(storage)
    with opened(storage) as (url, studies):
        locks = []
        try:
            for name in names:
                locks.append(lock_study(url, name))
                if is_file(url):
                    continue
                busy = records.at_work(optuna.load_study(study_name=name, storage=studies))
                if busy is not None:
                    raise UsageError(
                        f"{busy} is working on the study {name}, or has ended within the last "
                        "minute; nothing is deleted, so end it, and delete then"
                    )
            belonging = {
                one.study_name
                for one in studies.get_all_studies()
                if one.user_attrs.get(records.PART_OF, one.study_name) in names
            }
            for name in belonging:
                optuna.delete_study(study_name=name, storage=studies)
        finally:
            for lock in filter(None, locks):
                lock.release()


def _entry(storage: optuna.storages.BaseStorage, study: FrozenStudy) -> StudyEntry:
    kept, name = study.user_attrs, study.study_name
    outcome, problem = records.from_plain(kept.get(records.OUTCOME), Outcome), None
    try:
        records.check_study(name, kept)
    except BadInputError as error:
        problem, outcome = str(error), None
    spec = kept.get(records.SPEC, {})
    target = spec.get("target", {}).get("file")
    drafts = (draft.get("file") for draft in spec.get("drafts", {}).values())
    return StudyEntry(
        name=name,
        changed=_last_change(storage, name) if outcome is None else outcome.ended,
        outcome=outcome,
        promise=None if problem else records.from_plain(kept.get(records.PROMISE), Promise),
        problem=problem,
        target=target if isinstance(target, str) else None,
        drafts=frozenset(draft for draft in drafts if isinstance(draft, str)),
        group=records.from_plain(kept.get(records.GROUP), str),
        machine=records.from_plain(kept.get(records.MACHINE), str),
    )


def _last_change(storage: optuna.storages.BaseStorage, name: str) -> datetime:
    trials = optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
    times = [trial.datetime_start for trial in trials if trial.datetime_start is not None]
    # Optuna's times are the machine's own.
    return max(times).astimezone() if times else datetime.fromtimestamp(0, UTC)
