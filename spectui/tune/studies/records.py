"""Forms in which a study of Optuna's keeps trials and all else, and which studies go on."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState as States

from spectui.errors import BadInputError, UsageError
from spectui.measure.comparable import counted, differences
from spectui.options.stored import check_schema, current, is_of_fast_schedule
from spectui.tune.trials import LEFT, TrialRecord, TrialState

SPEC = "spec"
"""Under which a study keeps what its trials have in common. Other parts: fields of
``listing.Kept``."""
OUTCOME = "outcome"
"""Under which a study keeps its advice."""
PART_OF = "places_of"
"""Under which a study of places or of recordings keeps the name of the study that it goes with."""
SCHEMA = "schema"
"""Under which it keeps the version of all this; nothing where an older spectui made it."""
STUDY_SCHEMA = "spectui.study/1"
RECORD = "record"
"""Under which a trial keeps its measurements."""


class Part:
    """A study of Optuna's that goes with another one, and keeps a value in each of its trials."""

    def __init__(self, storage: BaseStorage, study: str, suffix: str) -> None:
        """Open it, or create it: its name is that of the ``study`` with the ``suffix``."""
        self._stored = optuna.create_study(
            study_name=f"{study}{suffix}",
            storage=storage,
            direction="maximize",
            load_if_exists=True,
        )
        self._stored.set_user_attr(PART_OF, study)

    def values(self, key: str) -> list[Any]:
        """Values under a key, in the order in which they were kept."""
        trials = self._stored.get_trials(deepcopy=False)
        return [one.user_attrs[key] for one in trials if key in one.user_attrs]

    def keep(self, key: str, kept: object, **trial: Any) -> None:  # noqa: ANN401 - Optuna's
        """Keep a value in a trial, of which ``trial`` is what Optuna's tools see."""
        self._stored.add_trial(optuna.trial.create_trial(user_attrs={key: kept}, **trial))


def check_study(name: str, kept: Mapping[str, Any]) -> None:
    """Refuse a study that this spectui does not read.

    Args:
        name: name of the study.
        kept: its attributes.

    Raises:
        BadInputError: a newer one made it, or it was measured on the ``fast`` schedule.
    """
    check_schema(
        kept.get(SCHEMA, STUDY_SCHEMA),
        STUDY_SCHEMA,
        f"the study {name}",
        what="study",
        advice="delete it with spectui studies delete, or give another --study",
    )
    if any(map(is_of_fast_schedule, kept.values())):
        raise BadInputError(
            f"the study {name} was measured with --schedule fast, which is gone: llama-server "
            "never did so little work per round; tune again without it, as another --study"
        )


def check_same(
    name: str, known: Mapping[str, Any], spec: Mapping[str, Any], *, is_shared: bool = False
) -> bool:
    """Refuse to mix trials that cannot be compared.

    Args:
        name: name of the study.
        known: what its trials have in common.
        spec: what new ones would have.
        is_shared: whether machines may have a study each under this name.

    Returns:
        Whether they can be compared; False where only prices differ, and ``is_shared``.

    Raises:
        UsageError: they cannot; the message has what differs, and what to do.
    """
    known = {key: known.get(key) for key in spec}
    differing = differences(known, spec)
    if differing is None:
        return True
    if is_shared:
        differing = differences(counted(known), counted(spec))
        if differing is None:
            return False
    raise UsageError(
        f"the study {name} was made {differing}; its trials cannot be compared with new ones, "
        "so choose another --study"
    )


def trials_of(study: optuna.Study) -> tuple[TrialRecord, ...]:
    """All trials that have begun, by number; those of ended processes are interrupted.

    Raises:
        BadInputError: one is damaged.
    """
    every = study.get_trials(deepcopy=False)
    begun = [one for one in every if RECORD in one.user_attrs and one.state is not States.WAITING]
    try:
        found = [decoded(one.user_attrs[RECORD], TrialRecord) for one in begun]
    except msgspec.ValidationError as error:
        raise BadInputError(
            f"a trial of the study {study.study_name} cannot be read ({error}); update spectui, or "
            "delete the study"
        ) from error
    for n, trial in enumerate(begun):
        if trial.state.is_finished() and found[n].state is TrialState.RUNNING:
            found[n] = replace(found[n], state=TrialState.INTERRUPTED, error=LEFT)
    return tuple(sorted(found, key=lambda one: one.number))


T = TypeVar("T")


def from_plain(kept: object, kind: type[T]) -> T | None:
    """Decode a stored value; None for one that another version of spectui wrote."""
    try:
        return decoded(kept, kind)
    except msgspec.ValidationError:
        return None


def decoded(kept: object, kind: type[T]) -> T:
    """Decode a stored value, of an earlier version as well.

    Raises:
        msgspec.ValidationError: it is none of ``kind``.
    """
    return msgspec.convert(current(kept), kind, dec_hook=_path)


def _path(kind: type, value: str) -> Path:
    if kind is not Path:
        raise NotImplementedError(kind)
    return Path(value)
