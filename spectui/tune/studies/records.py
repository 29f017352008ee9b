"""Forms in which a study of Optuna's keeps trials, recordings and all else; which ones go on."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState as States

from spectui.errors import BadInputError, UsageError
from spectui.measure.comparable import counted, differences, spec_digest
from spectui.options.stored import check_schema, current, is_of_fast_schedule
from spectui.paths import data_dir
from spectui.trace.file import SUFFIX, packed_trace, read_trace, unpacked_trace, write_trace
from spectui.trace.record import ModelIdentity, Trace, bare
from spectui.tune.studies.storage import Storage
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


_RECORDING = "recording"
"""Under which a trial keeps one: a list of studies reads their attributes, and not this."""


@dataclass(eq=False)
class Recordings:
    """Traces without text as bytes, a trial of Optuna's each."""

    storage: Storage
    """That of the study that they belong to."""
    study: str
    """Name under which all machines have theirs."""

    def add(self, packed: bytes, n_prompts: int) -> None:
        """Keep a trace of so many prompts.

        Raises:
            BadInputError: the storage failed, or takes no text of this length.
        """
        with self.storage.errors():
            self._part().keep(_RECORDING, base64.b64encode(packed).decode(), value=n_prompts)

    def read(self) -> Iterator[bytes]:
        """Yield all traces, the latest first."""
        with self.storage.errors():
            found = self._part().values(_RECORDING)
        for one in reversed(found):
            with suppress(TypeError, ValueError):
                yield base64.b64decode(one, validate=True)

    def _part(self) -> Part:
        # Opened each time: it would keep all recordings in memory.
        return Part(self.storage.database, self.study, ".recordings")


@dataclass(eq=False)
class KeptTrace:
    """A file beside the study, without text; in a database its recordings are the study's too."""

    path: Path
    target: ModelIdentity
    drafts: dict[str, ModelIdentity]
    database: Recordings | None = None

    def keep(self, trace: Trace, *, is_new: bool = True) -> None:
        """Write it; ``is_new`` is whether the recordings were made here, not only the prices.

        Raises:
            BadInputError: the folder, the file or the storage cannot be written.
        """
        trace = bare(trace)
        write_trace(trace, self.path, is_own=True)
        if is_new and self.database is not None:
            self.database.add(packed_trace(replace(trace, costs={})), len(trace.recordings))

    def read(self) -> Trace | None:
        """Return it; None where there is none that can be used, which costs time and no more."""
        with suppress(BadInputError):
            trace = read_trace(self.path)
            return trace if self._is_of_these(trace) else None
        return None

    def shared(self) -> Iterator[Trace]:
        """Yield the study's recordings of these models, the latest first, without prices."""
        for packed in () if self.database is None else self.database.read():
            with suppress(BadInputError):
                trace = unpacked_trace(packed, Path("the study's recording"))
                if self._is_of_these(trace):
                    yield trace

    def _is_of_these(self, trace: Trace) -> bool:
        """Whether a trace was recorded with these models."""
        drafts = {name: trace.drafts.get(name) for name in self.drafts}
        return (trace.target, drafts) == (self.target, self.drafts)


def study_trace(study: str, spec: dict[str, Any]) -> Path:
    """Path of a study's trace: studies of one name may lie in several storages."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in study)
    return data_dir() / "traces" / f"{safe}.{spec_digest(spec)}{SUFFIX}"


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
