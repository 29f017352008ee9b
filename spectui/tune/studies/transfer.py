"""A study as one file: written whole, and validated whole before anything of it is stored.

Such a file may come from somebody else, so that everything in it is data (SECURITY.md): only what
spectui itself keeps is taken, each part in its own form.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as States
from sqlalchemy.exc import SQLAlchemyError

from spectui.errors import BadInputError, UsageError
from spectui.files import read_file, write_new_file
from spectui.format import printable
from spectui.measure.promise import Promise
from spectui.options.stored import check_schema, current, schema_of
from spectui.tune.layouts import Layouts
from spectui.tune.outcome import Outcome, Predictions
from spectui.tune.places import Placing
from spectui.tune.studies import records
from spectui.tune.studies.listing import REPORT, Report, StoredStudy, opened, study_of
from spectui.tune.studies.storage import check_writable
from spectui.tune.trials import TrialRecord

_SCHEMA: Literal["spectui.study-file/1"] = "spectui.study-file/1"
_IMPORTING = "spectui.study-import/1"
"""Schema of a study until all of it is there."""
_MOST_BYTES = 64_000_000
_MOST_TRIALS = 20_000
_YEARS = range(1970, 9001)
_LONGEST_NAME = 500
_HINT = "give a file that spectui studies export wrote"
_KINDS: dict[str, Any] = {
    records.SPEC: dict[str, Any],
    records.LAYOUTS: Layouts,
    records.PLACING: Placing,
    records.OUTCOME: Outcome,
    records.PROMISE: Promise,
    records.PREDICTIONS: Predictions,
    REPORT: Report,
}
"""Attributes of a study, with their types."""


class _Attributes(msgspec.Struct, frozen=True, kw_only=True):
    record: TrialRecord | None = None
    """None of a trial that had not begun, in files of earlier versions."""


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial. What earlier versions wrote for Optuna is passed over: records say the same."""

    started: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
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
        records.check_study(name, study.user_attrs)
        found = StudyFile(
            name=name,
            attributes={key: study.user_attrs[key] for key in _KINDS if key in study.user_attrs},
            trials=_exported(study),
        )
    try:
        write_new_file(path, msgspec.json.encode(found) + b"\n", is_private=True)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); give a new file in a writable folder"
        ) from error
    return found


def _exported(study: optuna.Study) -> tuple[_Trial, ...]:
    try:
        return tuple(map(_plain, records.begun(study)))
    except msgspec.ValidationError as error:
        raise BadInputError(
            f"a trial of the study {study.study_name} cannot be read ({error}); a newer spectui "
            "may have measured it"
        ) from error


def _plain(trial: FrozenTrial) -> _Trial:
    # Whoever measures it here does not do so where it is read.
    record = records.decode_trial(trial, is_left=True)
    # Optuna's times are the machine's own.
    started = trial.datetime_start and trial.datetime_start.astimezone(UTC)
    return _Trial(started=started, attributes=_Attributes(record=record))


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
        found = msgspec.convert({**kept, "trials": current(kept.get("trials"))}, StudyFile)
        begun = tuple(one for one in found.trials if one.attributes.record is not None)
        found = msgspec.structs.replace(found, trials=begun)
        records.check_study(found.name, found.attributes)
        _check(found)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        reason = printable(str(error))[:_LONGEST_NAME]
        raise BadInputError(f"{path} is no study of spectui's ({reason}); {_HINT}") from error
    return found


def _numbered(trials: Sequence[_Trial]) -> tuple[_Trial, ...]:
    """Trials numbered without gaps, as the storage goes on to number them."""
    known = [(one, one.attributes.record) for one in trials]
    begun = sorted(
        ((one, record) for one, record in known if record is not None),
        key=lambda pair: pair[1].number,
    )
    return tuple(
        msgspec.structs.replace(one, attributes=_Attributes(record=replace(record, number=n)))
        for n, (one, record) in enumerate(begun)
    )


def _check(found: StudyFile) -> None:
    """Raise ``ValueError`` with what is wrong."""
    check_name(found.name)
    if len(found.trials) > _MOST_TRIALS:
        raise ValueError(f"it has more than {_MOST_TRIALS} trials")
    if records.SPEC not in found.attributes:
        raise ValueError("it does not say what was measured")
    for key, value in found.attributes.items():
        if key not in _KINDS:
            raise ValueError(f"{key[:40]!r} is nothing that a study keeps")
        try:
            records.decoded(value, _KINDS[key])
        except msgspec.ValidationError as error:
            raise ValueError(f"{key}: {error}") from error
    for trial in found.trials:
        if trial.started is not None and trial.started.year not in _YEARS:
            raise ValueError("it has a time that is none")


def check_name(name: str) -> None:
    """Raise ``ValueError`` where a study cannot have this name."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ValueError(f"a study's name is text of 1 to {_LONGEST_NAME} characters")


def _frozen(trial: _Trial) -> FrozenTrial:
    """The trial in Optuna's form, which nobody measures here."""
    found = optuna.trial.create_trial(
        state=States.FAIL,
        user_attrs={records.RECORD: msgspec.to_builtins(trial.attributes.record)},
    )
    if trial.started is not None:
        local = trial.started.astimezone().replace(tzinfo=None)
        found.datetime_start = found.datetime_complete = local
    return found


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
    study.set_user_attr(records.SCHEMA, _IMPORTING)
    for key, value in found.attributes.items():
        study.set_user_attr(key, value)
    study.add_trials(list(map(_frozen, _numbered(found.trials))))
    study.set_user_attr(records.SCHEMA, records.STUDY_SCHEMA)


def paths_in(found: StudyFile) -> tuple[str, ...]:
    """Paths of its user that a study names."""
    outcome = found.attributes.get(records.OUTCOME)
    if outcome is None:
        return ()
    kept = records.decoded(outcome, Outcome)
    return tuple(str(one.path) for one in (kept.target, kept.draft) if one is not None)


def exported_study(path: Path) -> StoredStudy:
    """Read a study from the file that ``studies export`` wrote.

    Raises:
        BadInputError: it cannot be read, is of a newer spectui, or says what no study says.
    """
    found = read_study(path)
    return study_of(found.name, found.attributes, records.in_order(map(_frozen, found.trials)))
