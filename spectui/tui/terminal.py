"""Gives Textual the terminal for itself: nothing native may ever write into the picture.

What others do to the terminal or to the program, its end and a stop included, is survived here.
"""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from spectui.errors import UsageError
from spectui.files import open_private

_STDOUT, _STDERR = 1, 2
_POP_KEYS = "\x1b[<u"
"""Takes back the keyboard's mode, of which a terminal keeps a stack."""


class StoppableDriver(LinuxDriver):
    """Draws on a terminal, and goes on after any stop.

    SIGSTOP comes without a word, so that nothing is let go before it. Textual begins to read and
    draw a second time after it: two threads take turns at the keys, one of which waits for ever for
    a key that the other has got, and the modes of its own are the ones that it restores at the end.
    """

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Take Textual's arguments, and the signals that stop and continue."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # By the loop: one in the middle of the other would leave the threads of both.
        self._loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
        self._loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

    def resume_application_mode(self) -> None:
        """Draw again, whether the terminal was let go or not."""
        before = self.attrs_before
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self._end_threads()
        super().resume_application_mode()
        if before is not None:
            self.attrs_before = before
        self._app.refresh(layout=True)

    def _end_threads(self) -> None:
        """End what reads and writes; what was typed meanwhile stays."""
        self.exit_event.set()
        if self._key_thread is not None:
            self._key_thread.join()
        self.exit_event.clear()
        self.write(_POP_KEYS)
        self.close()


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
