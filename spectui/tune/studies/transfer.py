"""A study as one file: written whole, and validated whole before anything of it is stored.

Such a file may come from somebody else, so that everything in it is data (SECURITY.md): only what
spectui itself keeps is taken, each part in its own form.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as States
from sqlalchemy.exc import SQLAlchemyError

from spectui.errors import BadInputError, UsageError
from spectui.files import read_file, write_new_file
from spectui.format import printable
from spectui.measure.promise import Promise
from spectui.options.stored import check_schema, schema_of
from spectui.tune.layouts import Layouts
from spectui.tune.outcome import Outcome, Predictions
from spectui.tune.places import Placing
from spectui.tune.studies.listing import (
    REPORT,
    Report,
    decided,
    entries_of,
    find_study,
    is_empty,
    opened,
    trials_of,
)
from spectui.tune.studies.records import (
    ARGUMENTS,
    LAYOUTS,
    OUTCOME,
    PLACING,
    PREDICTIONS,
    PROMISE,
    RECORD,
    SCHEMA,
    SPEC,
    STUDY_SCHEMA,
    check_study,
    decode_trial,
    decoded,
    from_plain,
)
from spectui.tune.studies.storage import check_writable
from spectui.tune.trials import TrialRecord

_SCHEMA: Literal["spectui.study-file/1"] = "spectui.study-file/1"
_IMPORTING = "spectui.study-import/1"
"""Schema of a study until all of it is there."""
_MOST_BYTES = 64_000_000
_MOST_TRIALS = 20_000
_LONGEST_NAME = 500
_LARGEST = 2.0**53
_HINT = "give a file that spectui studies export wrote"
_KINDS: dict[str, Any] = {
    SPEC: dict[str, Any],
    LAYOUTS: Layouts,
    PLACING: Placing,
    OUTCOME: Outcome,
    PROMISE: Promise,
    PREDICTIONS: Predictions,
    REPORT: Report,
}
"""Attributes of a study, with their types."""


class _Owner(msgspec.Struct, frozen=True, kw_only=True):
    host: str = ""
    pid: int = 0
    isolated: bool = True


class _Attributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Attributes of a trial."""

    record: dict[str, Any] | None = None
    """None of one that had not begun, in files of earlier versions."""
    owner: _Owner | None = None


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial. What earlier versions wrote for the sampler is passed over."""

    value: float | None = None
    """Its speedup, as Optuna has it."""
    started: datetime | None = None
    ended: datetime | None = None
    attributes: _Attributes


class StudyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A study, as a file holds it."""

    schema: Literal["spectui.study-file/1"] = _SCHEMA
    name: str
    attributes: dict[str, Any]
    trials: tuple[_Trial, ...]


def export_study(storage: str | None, name: str, path: Path) -> StudyFile:
    """Write a study to a file, where none may be.

    Raises:
        BadInputError: the storage or the file cannot be used, or a newer spectui made the study.
    """
    with opened(storage) as (_url, studies):
        study = optuna.load_study(study_name=name, storage=studies)
        check_study(name, study.user_attrs)
        found = StudyFile(
            name=name,
            attributes={key: study.user_attrs[key] for key in _KINDS if key in study.user_attrs},
            trials=tuple(
                _plain(one) for one in study.get_trials(deepcopy=False) if RECORD in one.user_attrs
            ),
        )
    try:
        write_new_file(path, msgspec.json.encode(found) + b"\n", is_private=True)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); give a new file in a writable folder"
        ) from error
    return found


def _plain(trial: FrozenTrial) -> _Trial:
    # Whoever measures it here does not do so where it is read.
    ended = trial.datetime_complete or trial.datetime_start
    return _Trial(
        value=trial.value if trial.state is States.COMPLETE else None,
        started=_aware(trial.datetime_start),
        ended=_aware(ended),
        attributes=msgspec.convert(trial.user_attrs, _Attributes),
    )


def _aware(local: datetime | None) -> datetime | None:
    """Optuna's times are the machine's own."""
    return None if local is None else local.astimezone(UTC)


def read_study(path: Path) -> StudyFile:
    """Read and validate a file of a study.

    Raises:
        BadInputError: it cannot be read, is of a newer spectui, or says what no study says.
    """
    try:
        content = read_file(path, _MOST_BYTES)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}); {_HINT}") from error
    try:
        kept = msgspec.json.decode(content)
        check_schema(schema_of(kept), _SCHEMA, str(path), what="exported study", advice=_HINT)
        found = msgspec.convert(kept, StudyFile)
        begun = tuple(one for one in found.trials if one.attributes.record is not None)
        found = msgspec.structs.replace(found, trials=begun)
        check_study(found.name, found.attributes)
        _check(found)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError) as error:
        reason = printable(str(error))[:_LONGEST_NAME]
        raise BadInputError(f"{path} is no study of spectui's ({reason}); {_HINT}") from error
    return found


def _check(found: StudyFile) -> None:
    """Raise ``ValueError`` with what is wrong."""
    check_name(found.name)
    if len(found.trials) > _MOST_TRIALS:
        raise ValueError(f"it has more than {_MOST_TRIALS} trials")
    if SPEC not in found.attributes:
        raise ValueError("it does not say what was measured")
    for key, value in found.attributes.items():
        if key not in _KINDS:
            raise ValueError(f"{key[:40]!r} is nothing that a study keeps")
        try:
            decoded(value, _KINDS[key])
        except msgspec.ValidationError as error:
            raise ValueError(f"{key}: {error}") from error
    for number, trial in enumerate(found.trials):
        try:
            decode_trial(_frozen(trial))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"trial {number}: {error}") from error


def check_name(name: str) -> None:
    """Raise ``ValueError`` where a study cannot have this name."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ValueError(f"a study's name is text of 1 to {_LONGEST_NAME} characters")


def _frozen(trial: _Trial) -> FrozenTrial:
    """The trial in Optuna's form.

    Raises:
        ValueError: it contradicts itself.
    """
    if trial.value is not None and not abs(trial.value) <= _LARGEST:
        raise ValueError("it has a number that is too large")
    found = optuna.trial.create_trial(
        state=States.FAIL if trial.value is None else States.COMPLETE,
        value=trial.value,
        user_attrs=msgspec.to_builtins(trial.attributes),
    )
    found.datetime_start, found.datetime_complete = _local(trial.started), _local(trial.ended)
    return found


def _local(time: datetime | None) -> datetime | None:
    if time is None:
        return None
    if time.tzinfo is None or not 1970 <= time.year <= 9000:  # noqa: PLR2004 - years
        raise ValueError("it has a time that is none")
    return time.astimezone().replace(tzinfo=None)


def import_study(storage: str | None, found: StudyFile, name: str) -> None:
    """Store a study that was read, under a name that is free.

    Raises:
        BadInputError: the storage cannot be used; none of its studies has changed.
        UsageError: there is a study of that name.
    """
    check_writable(storage)
    with opened(storage) as (_url, studies):
        try:
            study = optuna.create_study(study_name=name, storage=studies, direction="maximize")
        except optuna.exceptions.DuplicatedStudyError as error:
            raise UsageError(
                f"there is a study {name} already; give another name with --as, or delete it"
            ) from error
        try:
            _fill(study, found)
        except BaseException:
            # A disk that is full may not even take this; what is left is no study.
            with suppress(optuna.exceptions.StorageInternalError, SQLAlchemyError):
                optuna.delete_study(study_name=name, storage=studies)
            raise


def _fill(study: optuna.Study, found: StudyFile) -> None:
    # Until the last line nobody takes it for a study, whatever ends this process.
    study.set_user_attr(SCHEMA, _IMPORTING)
    for key, value in found.attributes.items():
        study.set_user_attr(key, value)
    study.add_trials(list(map(_frozen, found.trials)))
    study.set_user_attr(SCHEMA, STUDY_SCHEMA)


def paths_in(found: StudyFile) -> tuple[str, ...]:
    """Paths of its user that a study names."""
    outcome = found.attributes.get(OUTCOME)
    if outcome is None:
        return ()
    kept = decoded(outcome, Outcome)
    return tuple(str(one.path) for one in (kept.target, kept.draft) if one is not None)


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
        return _stored(name, study.user_attrs, trials_of(study))


def exported_study(path: Path) -> StoredStudy:
    """Read a study from the file that ``studies export`` wrote.

    Raises:
        BadInputError: it cannot be read, is of a newer spectui, or says what no study says.
    """
    found = read_study(path)
    trials = sorted(map(decode_trial, map(_frozen, found.trials)), key=lambda one: one.number)
    return _stored(found.name, found.attributes, tuple(trials))


def _stored(name: str, kept: Mapping[str, Any], trials: tuple[TrialRecord, ...]) -> StoredStudy:
    return StoredStudy(
        name=name,
        outcome=from_plain(kept.get(OUTCOME), Outcome),
        promise=from_plain(kept.get(PROMISE), Promise),
        report=from_plain(kept.get(REPORT), Report),
        predictions=from_plain(kept.get(PREDICTIONS), Predictions),
        arguments=from_plain(kept.get(ARGUMENTS), dict[str, Any]) or {},
        trials=trials,
    )
