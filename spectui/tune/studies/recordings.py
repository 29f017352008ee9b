"""The recordings of a study in a database, which all of its machines may take."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import optuna
from optuna.storages import BaseStorage

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
    """That of the study that they go with."""
    study: str
    """Name under which all machines have theirs."""

    def add(self, packed: bytes, n_prompts: int) -> None:
        """Keep a trace of so many prompts.

        Raises:
            BadInputError: the storage failed, or takes no text of this length.
        """
        kept = {_RECORDING: base64.b64encode(packed).decode()}
        with storage_errors(self.url):
            self._stored().add_trial(optuna.trial.create_trial(value=n_prompts, user_attrs=kept))

    def read(self) -> Iterator[bytes]:
        """Yield all traces, the latest first."""
        with storage_errors(self.url):
            found = self._stored().get_trials(deepcopy=False)
        for trial in reversed(found):
            try:
                yield base64.b64decode(trial.user_attrs[_RECORDING], validate=True)
            except (KeyError, TypeError, ValueError):
                continue

    def _stored(self) -> optuna.Study:
        return records.part_of(self.storage, self.study, ".recordings")
