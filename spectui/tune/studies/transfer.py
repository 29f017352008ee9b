"""A study as one file: written whole, and validated whole before anything of it is stored.

Such a file may come from somebody else, so that everything in it is data (SECURITY.md): only what
spectui itself keeps is taken, each part in its own form.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import optuna
from sqlalchemy.exc import SQLAlchemyError

from spectui.errors import BadInputError, UsageError
from spectui.files import read_file, write_new_file
from spectui.format import printable
from spectui.measure.arm import Arm
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
    ARM,
    LAYOUTS,
    OFF,
    OUTCOME,
    OWNER,
    PLACING,
    PREDICTIONS,
    PROMISE,
    QUEUED,
    RECORD,
    SCHEMA,
    SPEC,
    STUDY_SCHEMA,
    check_study,
    decoded,
    from_plain,
    record_of,
)
from spectui.tune.studies.storage import check_writable
from spectui.tune.trials import TrialRecord

_SCHEMA: Literal["spectui.study-file/1"] = "spectui.study-file/1"
_IMPORTING = "spectui.study-import/1"
"""Schema of a study until all of it is there."""
_MOST_BYTES = 64_000_000
_MOST_TRIALS = 20_000
_MOST_CHOICES = 1000
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


_MARKS: dict[str, Any] = {RECORD: TrialRecord, OWNER: _Owner, OFF: bool, ARM: Arm}
"""Attributes of a trial, with their types."""


class _Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Literal["complete", "pruned", "fail", "waiting"]
    value: float | None = None
    params: dict[str, str | int | float | bool | None] = {}
    distributions: dict[str, dict[str, Any]] = {}
    queued: dict[str, str | int | float | bool | None] | None = None
    """Parameters that it was queued with."""
    started: datetime | None = None
    ended: datetime | None = None
    attributes: dict[str, Any] = {}


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
            trials=tuple(map(_plain, study.get_trials(deepcopy=False))),
        )
    try:
        write_new_file(path, msgspec.json.encode(found) + b"\n", is_private=True)
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be written ({error.strerror}); give a new file in a writable folder"
        ) from error
    return found


def _plain(trial: optuna.trial.FrozenTrial) -> _Trial:
    # Whoever measures it here does not do so where it is read.
    is_running = trial.state is optuna.trial.TrialState.RUNNING
    is_complete = trial.state is optuna.trial.TrialState.COMPLETE
    return _Trial(
        state="fail" if is_running else trial.state.name.lower(),  # type: ignore[arg-type] # of Optuna's the others
        value=trial.value if is_complete else None,
        params=trial.params,
        distributions={
            name: json.loads(optuna.distributions.distribution_to_json(one))
            for name, one in trial.distributions.items()
        },
        queued=trial.system_attrs.get(QUEUED),
        started=_aware(trial.datetime_start),
        ended=_aware(trial.datetime_start if is_running else trial.datetime_complete),
        attributes={key: trial.user_attrs[key] for key in _MARKS if key in trial.user_attrs},
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
    _check_parts(found.attributes, _KINDS)
    known: dict[str, optuna.distributions.BaseDistribution] = {}
    for number, trial in enumerate(found.trials):
        try:
            _check_parts(trial.attributes, _MARKS)
            for name, one in _frozen(trial).distributions.items():
                optuna.distributions.check_distribution_compatibility(
                    known.setdefault(name, one), one
                )
        except (ValueError, msgspec.MsgspecError, OverflowError) as error:
            raise ValueError(f"trial {number}: {error}") from error


def check_name(name: str) -> None:
    """Raise ``ValueError`` where a study cannot have this name."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ValueError(f"a study's name is text of 1 to {_LONGEST_NAME} characters")


def _check_parts(parts: dict[str, Any], kinds: dict[str, Any]) -> None:
    for key, value in parts.items():
        if key not in kinds:
            raise ValueError(f"{key[:40]!r} is nothing that a study keeps")
        try:
            decoded(value, kinds[key])
        except msgspec.ValidationError as error:
            raise ValueError(f"{key}: {error}") from error


def _frozen(trial: _Trial) -> optuna.trial.FrozenTrial:
    """The trial in Optuna's form.

    Raises:
        ValueError: it contradicts itself.
    """
    for number in (trial.value, *trial.params.values(), *(trial.queued or {}).values()):
        if isinstance(number, int | float) and not abs(number) <= _LARGEST:
            raise ValueError("it has a number that is too large")
    distributions = {name: _distribution(one) for name, one in trial.distributions.items()}
    frozen = optuna.trial.FrozenTrial(
        number=-1,
        trial_id=-1,
        state=optuna.trial.TrialState[trial.state.upper()],
        value=trial.value,
        datetime_start=_local(trial.started),
        datetime_complete=_local(trial.ended),
        params=trial.params,
        distributions=distributions,
        user_attrs=trial.attributes,
        system_attrs={} if trial.queued is None else {QUEUED: trial.queued},
        intermediate_values={},
    )
    frozen._validate()  # noqa: SLF001 - ``add_trial`` does so as well, when others are stored
    return frozen


def _local(time: datetime | None) -> datetime | None:
    if time is None:
        return None
    if time.tzinfo is None or not 1970 <= time.year <= 9000:  # noqa: PLR2004 - years
        raise ValueError("it has a time that is none")
    return time.astimezone().replace(tzinfo=None)


def _distribution(kept: dict[str, Any]) -> optuna.distributions.BaseDistribution:
    try:
        found = optuna.distributions.json_to_distribution(json.dumps(kept))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it has a range that is none ({error})") from error
    match found:
        case optuna.distributions.CategoricalDistribution():
            is_usable = len(found.choices) <= _MOST_CHOICES
        case optuna.distributions.IntDistribution() | optuna.distributions.FloatDistribution():
            bounds = (found.low, found.high, found.step or 0)
            is_usable = all(math.isfinite(one) and abs(one) <= _LARGEST for one in bounds)
        case _:
            is_usable = False
    if not is_usable:
        raise ValueError("it has a range that is none")
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
    study.set_user_attr(SCHEMA, _IMPORTING)
    for key, value in found.attributes.items():
        study.set_user_attr(key, value)
    study.add_trials(list(map(_frozen, found.trials)))
    study.set_user_attr(SCHEMA, STUDY_SCHEMA)


def records_in(found: StudyFile) -> tuple[TrialRecord, ...]:
    """Records of the trials that have begun, by number."""
    records = filter(None, (record_of(_frozen(trial)) for trial in found.trials))
    return tuple(sorted(records, key=lambda one: one.number))


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
    return _stored(found.name, found.attributes, records_in(found))


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
