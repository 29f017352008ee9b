"""Exits quietly when the reader of stdout closes the pipe early, as ``head`` does."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import click

_UNREAD = 141
"""Exit code of a program that SIGPIPE ended, as a shell gives it."""


class Reader:
    """Records that stdout has lost its reader. The remaining work is done all the same."""

    def __init__(self) -> None:
        """Assume that stdout has a reader."""
        self._is_gone = False

    def begin(self) -> None:
        """Assume again that stdout has a reader, at the start of a command."""
        self._is_gone = False

    def leave(self) -> None:
        """Record that stdout has no reader; discard further output."""
        self._is_gone = True
        discard(sys.stdout)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Exit quietly if click itself, printing help, finds the pipe closed.

        Raises:
            RuntimeError: another pipe broke, of which click would say nothing.
        """
        try:
            yield
        except BrokenPipeError as error:
            if not _is_unread(sys.stdout):
                raise RuntimeError("a pipe broke that is not stdout") from error
            self.leave()
            raise click.exceptions.Exit(0) from None

    def exit_code(self, code: int) -> int:
        """Exit code of a run that ended with ``code``: an unread success is a failure."""
        # What could not be told on stderr would be tried again at exit, and change the code.
        with suppress(OSError):
            _flush(sys.stderr)
        return _UNREAD if self._is_gone and code == 0 else code


def discard(stream: TextIO) -> None:
    """Redirect a broken stream to nowhere, lest Python flush it again at exit and complain."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _is_unread(stream: TextIO) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _fd, events in poll.poll(0))


def _flush(stream: TextIO | None) -> None:
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        discard(stream)


reader = Reader()
