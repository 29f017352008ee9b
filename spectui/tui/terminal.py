"""Gives Textual the terminal for itself: nothing native may ever write into the picture.

The end of the terminal is survived here.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spectui.errors import UsageError
from spectui.files import open_private

_STDOUT, _STDERR = 1, 2


class _Drawing(io.TextIOWrapper):
    """A terminal to draw on; once it is gone, what is drawn is lost, and nobody waits for it."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


@contextmanager
def private_terminal(log: Path) -> Iterator[int]:
    """Send file descriptors 1 and 2 to ``log``, and let Textual draw on a copy of the terminal.

    Yields the log's descriptor.

    Textual draws on ``sys.__stderr__``; C libraries print to the descriptors. The copy has to be
    made before the descriptors are redirected, else the screen stays blank.

    Raises:
        UsageError: there is no terminal.
    """
    if not (sys.__stdin__ and sys.__stdin__.isatty() and os.isatty(_STDERR)):
        raise UsageError(
            "the interactive screen needs a terminal; run spectui in one, or use spectui tune "
            "or spectui bench in scripts"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {fd: os.dup(fd) for fd in (_STDOUT, _STDERR)}
    raw = os.fdopen(os.dup(_STDERR), "wb")
    terminal = _Drawing(raw, encoding="utf-8", errors="replace")
    before = sys.__stdout__, sys.__stderr__
    file = open_private(log, os.O_WRONLY | os.O_APPEND)
    for fd in saved:
        os.dup2(file, fd)
    # Textual draws on the one and asks the other for the size.
    sys.__stdout__ = sys.__stderr__ = terminal  # type: ignore[misc] # handles meant to be replaced
    try:
        yield file
    finally:
        sys.__stdout__, sys.__stderr__ = before  # type: ignore[misc] # as they were
        # The terminal may be gone: its window was closed, or the connection broke.
        with suppress(OSError):
            terminal.close()
        for fd, copy in saved.items():
            os.dup2(copy, fd)
            os.close(copy)
        # The log stays open: native threads write to it until the process ends.
