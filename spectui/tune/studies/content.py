"""All that is kept of one study, in a storage or in a file that was exported."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from spectui.measure.promise import Promise
from spectui.tune.outcome import Outcome
from spectui.tune.predictions import Predictions
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
from spectui.tune.studies.records import ARGUMENTS, OUTCOME, PREDICTIONS, PROMISE, from_plain
from spectui.tune.studies.transfer import read_study, records_in
from spectui.tune.trials import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStudy:
    """A study as it is kept. A part is None where nothing is kept that this spectui reads."""

    name: str
    outcome: Outcome | None
    promise: Promise | None
    report: Report | None
    """What ``tune`` printed in the end; of the screen, the document alone."""
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
