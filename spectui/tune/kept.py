"""The trace that belongs to a study: written once recorded, read when the study goes on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spectui.errors import BadInputError
from spectui.measure.comparable import spec_digest
from spectui.paths import data_dir
from spectui.trace.file import SUFFIX, check_pair, read_trace, write_trace
from spectui.trace.record import ModelIdentity, Trace, bare
from spectui.tune.candidates import Candidate
from spectui.tune.tracing import Tracing, identity


class KeptTrace:
    """A file beside the study, without text."""

    def __init__(
        self,
        path: Path,
        describe: Callable[[Tracing], Trace],
        target: ModelIdentity,
        drafts: dict[str, ModelIdentity],
    ) -> None:
        """Keep in ``path`` what ``describe`` makes of a recording of these models."""
        self.path = path
        self._describe = describe
        self._target = target
        self._drafts = drafts

    def keep(self, tracing: Tracing) -> None:
        """Write it.

        Raises:
            BadInputError: the folder or the file cannot be written.
        """
        write_trace(bare(self._describe(tracing)), self.path, is_own=True)

    def read(self) -> Trace | None:
        """Return it; None where there is none that can be used, which costs time and no more."""
        try:
            trace = read_trace(self.path)
            check_pair(trace, self._target, self._drafts)
        except BadInputError:
            return None
        return trace


def study_trace(study: str, spec: dict[str, Any]) -> Path:
    """Path of a study's trace: studies of one name may lie in several storages."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in study)
    return data_dir() / "traces" / f"{safe}.{spec_digest(spec)}{SUFFIX}"


def identities(candidates: Sequence[Candidate]) -> dict[str, ModelIdentity]:
    """The drafts that can be loaded, by name."""
    return {one.name: identity(one.loaded) for one in candidates if one.loaded is not None}
