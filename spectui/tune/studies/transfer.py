"""A study as one file: written whole, and validated whole before anything of it is stored.

Such a file may come from somebody else, so that everything in it is data (SECURITY.md): only what
spectui itself keeps is taken, each part in its own form.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import optuna
from optuna.trial import TrialState as States
from sqlalchemy.exc import SQLAlchemyError

from spectui.errors import BadInputError, UsageError
from spectui.files import read_file, write_new_file
from spectui.format import printable
from spectui.options.stored import check_schema, schema_of
from spectui.tune.studies import records
from spectui.tune.studies.listing import PORTABLE, Kept, StoredStudy, opened

_SCHEMA: Literal["spectui.study-file/1"] = "spectui.study-file/1"
_IMPORTING = "spectui.study-import/1"
"""Schema of a study until all of it is there."""
_MOST_BYTES = 64_000_000
_LONGEST_NAME = 500
_HINT = "give a file that spectui studies export wrote"


class _Attributes(Kept, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The records of a study, and nothing else."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    record: dict[str, Any] | None = None
    """None of a trial that had not begun, in files of earlier versions."""


class _Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial. What earlier versions wrote for Optuna is passed over: records say the same."""

    attributes: _Record


class _StudyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A study, as a file holds it."""

    schema: Literal["spectui.study-file/1"] = _SCHEMA
    name: str
    attributes: _Attributes
    trials: tuple[_Trial, ...]


def export_study(study: StoredStudy, path: Path) -> None:
    """Write a study to a file, where none may be.

    Raises:
        BadInputError: the file cannot be used.
    """
    # Whoever measures a trial here does not do so where it is read.
    kept = (records.to_plain(records.as_left(one)) for one in study.trials)
    trials = [_Trial(attributes=_Record(record=one)) for one in kept]
    found = _StudyFile(
        name=study.name,
        attributes=_Attributes(**{part: getattr(study, part) for part in PORTABLE}),
        trials=tuple(trials),
    )
    try:
        content = msgspec.json.encode(found, enc_hook=str)
        write_new_file(path, content + b"\n", is_private=True)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); give a new file in a writable folder"
        ) from error


def read_exported(path: Path) -> StoredStudy:
    """Read and validate the file that ``studies export`` wrote.

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
        found = records.decoded(kept, _StudyFile)
        records.check_study(found.name, kept["attributes"])
        _check(found)
        plain = [one.attributes.record for one in found.trials]
        trials = [records.decoded(one, records.StoredTrial) for one in plain if one is not None]
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        reason = printable(str(error))[:_LONGEST_NAME]
        raise BadInputError(f"{path} is no study of spectui's ({reason}); {_HINT}") from error
    return StoredStudy(
        **{part: getattr(found.attributes, part) for part in PORTABLE},
        name=found.name,
        trials=tuple(records.today(trials)),
    )


def _check(found: _StudyFile) -> None:
    """Raise ``ValueError`` with what is wrong."""
    check_name(found.name)
    if found.attributes.spec is None:
        raise ValueError("it does not say what was measured")


def check_name(name: str) -> None:
    """Raise ``ValueError`` where a study cannot have this name."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ValueError(f"a study's name is text of 1 to {_LONGEST_NAME} characters")


def import_study(storage: str | None, found: StoredStudy, name: str) -> None:
    """Store a study that was read, under a name that is free.

    Raises:
        BadInputError: the storage cannot be used; none of its studies has changed.
        UsageError: there is a study of that name.
    """
    with opened(storage) as studies:
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


def _fill(study: optuna.Study, found: StoredStudy) -> None:
    # Until the last line nobody takes it for a study, whatever ends this process.
    study.set_user_attr(records.SCHEMA, _IMPORTING)
    for part in PORTABLE:
        kept = getattr(found, part)
        if kept is not None:
            study.set_user_attr(part, records.to_plain(kept))
    # Numbered without gaps, as the storage goes on to number them.
    for n, trial in enumerate(sorted(found.trials, key=lambda one: one.number)):
        record = records.to_plain(replace(trial, number=n))
        # Nobody measures it here.
        study.add_trial(
            optuna.trial.create_trial(state=States.FAIL, user_attrs={records.RECORD: record})
        )
    study.set_user_attr(records.SCHEMA, records.STUDY_SCHEMA)
