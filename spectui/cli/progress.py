"""Progress on stderr: a live display on a terminal, plain lines elsewhere, or nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from spectui.demo import DemoProgress
    from spectui.engine.events import Event
    from spectui.measure.measurer import Pair
    from spectui.tune.progress import TuneEvent


class Progress:
    """Receives a command's progress; this one shows nothing (``--quiet``)."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._warnings = set[str]()

    def on_demo(self, progress: "DemoProgress") -> None:
        """A demo model is being built."""

    def on_engine(self, event: "Event") -> None:
        """An event of the engine."""

    def on_tune(self, event: "TuneEvent") -> None:
        """An event of the search."""

    def on_pair(self, pair: "Pair") -> None:
        """A prompt was measured."""

    def say(self, text: str) -> None:
        """A step has begun."""

    def announce(self, text: str) -> None:
        """Show a line that stays in sight while steps come and go."""

    def warn(self, warning: str) -> None:
        """Announce a warning about a load once: a search loads the same again and again."""
        if warning not in self._warnings:
            self._warnings.add(warning)
            self.announce(f"note: {warning}")

    def close(self) -> None:
        """Restore the terminal."""


class LastingStderr:
    """Writes to stderr until that fails; drops everything afterwards.

    The terminal may be closed and a pipe's reader may go away while something is measured. Progress
    is for whoever reads it; what was measured must be reported and stored all the same.
    """

    def __init__(self) -> None:
        """Write to what is stderr now."""
        self._file = sys.stderr
        self._is_gone = self._file is None
        self.encoding = "utf-8" if self._file is None else self._file.encoding

    def write(self, text: str) -> int:
        """Write ``text``; drop it if stderr is closed."""
        self._try(self._file.write, text)
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        self._try(self._file.flush)

    def _try(self, call: Callable[..., object], *arguments: str) -> None:
        if not self._is_gone:
            try:
                call(*arguments)
            except OSError:
                self._is_gone = True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return not self._is_gone and self._file.isatty()

    def fileno(self) -> int:
        """File descriptor of stderr."""
        return self._file.fileno()


@contextmanager
def open_progress(*, quiet: bool, verbose: bool = False) -> Iterator[Progress]:
    """A display on stderr for the time of the block. llama.cpp's log would tear a live one."""
    progress = Progress() if quiet else _display(verbose=verbose)
    try:
        yield progress
    finally:
        progress.close()


def _display(*, verbose: bool) -> Progress:
    # They know every event, which takes time to load.
    from rich.console import Console

    from spectui.cli.display import Lines, Screen

    console = Console(file=cast("TextIO", LastingStderr()))
    return Screen(console) if console.is_terminal and not verbose else Lines(console)
