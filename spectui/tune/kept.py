"""The trace that belongs to a study: written once recorded, read when the study goes on."""

from collections.abc import Callable
from pathlib import Path

from spectui.errors import BadInputError
from spectui.paths import data_dir
from spectui.replay.file import SUFFIX, bare, read_trace, write_trace
from spectui.replay.trace import Trace
from spectui.tune.tracing import Tracing


class KeptTrace:
    """A file beside the study, without text."""

    def __init__(self, path: Path, describe: Callable[[Tracing], Trace]) -> None:
        """Keep in ``path`` what ``describe`` makes of a recording."""
        self.path = path
        self._describe = describe

    def keep(self, tracing: Tracing) -> None:
        """Write it.

        Raises:
            BadInputError: the folder or the file cannot be written.
        """
        write_trace(bare(self._describe(tracing)), self.path)

    def read(self) -> Trace | None:
        """Return it; None where there is none that can be used, which costs time and no more."""
        try:
            return read_trace(self.path)
        except BadInputError:
            return None


def study_trace(study: str) -> Path:
    """Where the trace of a study lies; its name says for which machine, pair and prompts it is."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in study)
    return data_dir() / "traces" / f"{safe}{SUFFIX}"
