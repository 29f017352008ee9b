"""The studies of a storage: what each of them keeps, and how they are found, read and deleted."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec
import optuna
from optuna.storages import RDBStorage
from optuna.study._frozen import FrozenStudy

from spectui.documents import Json, encoded
from spectui.errors import BadInputError
from spectui.measure.promise import Promise
from spectui.page import Excerpt, Page, Paragraph, Table
from spectui.paths import STORAGE_VARIABLE, own_storage_file
from spectui.tune.layouts import Layouts
from spectui.tune.places import Placing
from spectui.tune.result import Outcome
from spectui.tune.studies import records
from spectui.tune.studies.storage import Storage, file_of
from spectui.tune.trials import TrialRecord

_SHOWN = 12
"""Names that one message lists."""
_NEVER = datetime.fromtimestamp(0, UTC)


class StudyState(StrEnum):
    """State of a study."""

    FINISHED = "finished"
    UNFINISHED = "unfinished"
    """The search goes on, or was stopped: then the same command goes on."""
    UNREADABLE = "not readable"
    """Made by a newer spectui."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report that ``tune`` printed at the end, or the screen's without a page."""

    schema: Literal["spectui.report/1"] = "spectui.report/1"
    document: Json
    page: Sequence[str | Paragraph | tuple[Table]] = ()
    text: str = ""
    """The page as an earlier spectui printed it."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Records that a study keeps beside its trials, under the fields' names.

    A part is None where nothing is kept that this spectui reads.
    """

    spec: dict[str, Any] | None = None
    """Facts that its trials have in common."""
    layouts: Layouts | None = None
    placing: Placing | None = None
    outcome: Outcome | None = None
    """None where the search was interrupted, or a spectui that did not keep it made the study."""
    promise: Promise | None = None
    """None where no setting was confirmed."""
    report: Report | None = None
    group: str | None = None
    """Name under which all machines have theirs; None where that is its own."""
    machine: str | None = None
    """Hardware; None in a file, and where an older spectui made it."""


class StoredStudy(Kept, frozen=True, kw_only=True):
    """One study."""

    name: str
    trials: tuple[TrialRecord, ...] = ()
    """Trials that have begun."""
    changed: datetime = _NEVER
    """When it ended, or began its last trial."""
    problem: str | None = None
    """Why it cannot be read; None where it can."""

    @property
    def target(self) -> str | None:
        """File name of the target; None where it is not kept."""
        found = (self.spec or {}).get("target", {}).get("file")
        return found if isinstance(found, str) else None

    @property
    def state(self) -> StudyState:
        """How far the search has come."""
        if self.problem is not None:
            return StudyState.UNREADABLE
        is_done = self.outcome is not None and not self.outcome.interrupted
        return StudyState.FINISHED if is_done else StudyState.UNFINISHED

    def ended(self) -> Outcome:
        """The outcome.

        Raises:
            BadInputError: the study keeps none.
        """
        if self.outcome is None:
            raise BadInputError(
                f"the study {self.name} has no verdict: it was interrupted, or an older spectui "
                "made it; give its spectui tune command again, which goes on from there"
            )
        return self.outcome


_PARTS: dict[str, Any] = {one.name: one.type for one in msgspec.structs.fields(Kept)}


def list_studies(storage: str | None) -> tuple[StoredStudy, ...]:
    """All studies, the latest first.

    Args:
        storage: URL as Optuna takes it; None for the file in the user's data folder.

    Raises:
        BadInputError: the storage cannot be used.
    """
    if is_empty(storage):
        return ()
    with Storage(storage) as opened, opened.errors():
        studies = opened.database
        own = (one for one in studies.get_all_studies() if records.PART_OF not in one.user_attrs)
        found = [_read(studies, one) for one in own]
    return tuple(sorted(found, key=lambda one: one.changed, reverse=True))


def _read(storage: RDBStorage, found: FrozenStudy) -> StoredStudy:
    kept, name = found.user_attrs, found.study_name
    study = optuna.load_study(study_name=name, storage=storage)
    try:
        records.check_study(name, kept)
        trials = records.trials_of(study)
    except BadInputError as error:
        return StoredStudy(name=name, changed=_last_trial(study), problem=str(error))
    parts = {key: records.from_plain(kept[key], _PARTS[key]) for key in _PARTS.keys() & kept.keys()}
    outcome = parts.get(records.OUTCOME)
    changed = _last_trial(study) if outcome is None else outcome.ended
    return StoredStudy(**parts, name=name, trials=trials, changed=changed)


def _last_trial(study: optuna.Study) -> datetime:
    """When the last trial of a study began."""
    starts = (one.datetime_start for one in study.get_trials(deepcopy=False))
    times = [one for one in starts if one is not None]
    # Optuna's times are the machine's own.
    return max(times).astimezone() if times else _NEVER


def machines_of(study: str, studies: Sequence[StoredStudy]) -> Sequence[StoredStudy]:
    """The studies of all machines that have one under the name that ``study`` belongs to."""
    groups = {one.name: one.group or one.name for one in studies}
    return [one for one in studies if groups[one.name] == groups.get(study)]


def find_study(studies: Sequence[StoredStudy], wanted: str | None) -> StoredStudy:
    """The study of that name, or the only one whose name contains it.

    None stands for the latest with a confirmed verdict, or the latest where none has one.

    Raises:
        BadInputError: there is none, or more than one, or this spectui does not read it.
    """
    if not studies:
        raise BadInputError("nothing has been tuned yet; run spectui tune first")
    if wanted is None:
        # A search that was stopped must not hide the verdict of the one before.
        found = [one for one in studies if one.outcome and one.outcome.is_confirmed] or [*studies]
    else:
        exact = [entry for entry in studies if entry.name == wanted]
        found = exact or [entry for entry in studies if wanted in entry.name]
    if not found:
        raise BadInputError(f"there is no study {wanted}; there are {_names(studies)}")
    if wanted is not None and len(found) > 1:
        raise BadInputError(f"{wanted} may mean {_names(found)}; give one of these names")
    if found[0].problem is not None:
        raise BadInputError(found[0].problem)
    return found[0]


def _names(studies: Sequence[StoredStudy]) -> str:
    names = [entry.name for entry in studies]
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def is_empty(storage: str | None) -> bool:
    """Whether it is spectui's own file, which is not there yet.

    Raises:
        BadInputError: a file that somebody names is not there.
    """
    file = file_of(storage)
    if file is None or file.exists():
        return False
    if file != own_storage_file():
        raise BadInputError(
            f"{file}: no such file; correct --storage or {STORAGE_VARIABLE}, or leave both out for "
            "spectui's own file"
        )
    return True


def keep_report(storage: str | None, name: str, document: Json, page: Page) -> None:
    """Keep what ``tune`` prints, for ``show``.

    Raises:
        BadInputError: the storage cannot be used.
    """
    parts = (part for part in page if not isinstance(part, Excerpt))
    kept = [(part,) if isinstance(part, Table) else part for part in parts]
    report = encoded(Report(document=document, page=kept))
    with Storage(storage) as opened, opened.errors():
        study = optuna.load_study(study_name=name, storage=opened.database)
        study.set_user_attr("report", report)


def delete_studies(storage: str | None, names: Sequence[str]) -> None:
    """Delete studies; in a file, those that no process works on.

    Raises:
        BadInputError: the storage cannot be used.
        UsageError: a process is working on one; then none is deleted.
    """
    with Storage(storage) as opened, opened.errors():
        for name in names:
            opened.lock(name)
        for one in opened.database.get_all_studies():
            if one.user_attrs.get(records.PART_OF, one.study_name) in names:
                optuna.delete_study(study_name=one.study_name, storage=opened.database)
