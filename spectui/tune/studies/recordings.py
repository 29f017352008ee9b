"""The recordings of a study in a database, which all of its machines may take."""

import base64
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optuna.storages import BaseStorage

from spectui.errors import BadInputError
from spectui.measure.comparable import spec_digest
from spectui.paths import data_dir
from spectui.trace.file import (
    SUFFIX,
    check_pair,
    packed_trace,
    read_trace,
    unpacked_trace,
    write_trace,
)
from spectui.trace.record import ModelIdentity, Trace, bare
from spectui.tune.studies import records
from spectui.tune.studies.storage import storage_errors

_RECORDING = "recording"
"""Under which a trial keeps one: a list of studies reads their attributes, and not this."""


@dataclass(eq=False)
class Recordings:
    """Traces without text as bytes, a trial of Optuna's each."""

    url: str
    """Address of the storage."""
    storage: BaseStorage
    """Storage of the study that they belong to."""
    study: str
    """Name under which all machines have theirs."""

    def add(self, packed: bytes, n_prompts: int) -> None:
        """Keep a trace of so many prompts.

        Raises:
            BadInputError: the storage failed, or takes no text of this length.
        """
        with storage_errors(self.url):
            self._part().keep(_RECORDING, base64.b64encode(packed).decode(), value=n_prompts)

    def read(self) -> Iterator[bytes]:
        """Yield all traces, the latest first."""
        with storage_errors(self.url):
            found = self._part().values(_RECORDING)
        for one in reversed(found):
            with suppress(TypeError, ValueError):
                yield base64.b64decode(one, validate=True)

    def _part(self) -> records.Part:
        # Opened each time: it would keep all recordings in memory.
        return records.Part(self.storage, self.study, ".recordings")


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
            return self._checked(read_trace(self.path))
        return None

    def shared(self) -> Iterator[Trace]:
        """Yield the study's recordings of these models, the latest first, without prices."""
        for packed in () if self.database is None else self.database.read():
            with suppress(BadInputError):
                yield self._checked(unpacked_trace(packed, Path("the study's recording")))

    def _checked(self, trace: Trace) -> Trace:
        check_pair(trace, self.target, self.drafts)
        return trace


def study_trace(study: str, spec: dict[str, Any]) -> Path:
    """Path of a study's trace: studies of one name may lie in several storages."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in study)
    return data_dir() / "traces" / f"{safe}.{spec_digest(spec)}{SUFFIX}"
