"""Whoever reads stdout, and may go away before the end, as ``head`` does."""

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
    """Notes that nobody reads stdout any more. What remains to be done is done all the same."""

    def __init__(self) -> None:
        """Somebody reads it."""
        self._is_gone = False

    def begin(self) -> None:
        """Somebody reads it, as far as is known."""
        self._is_gone = False

    def leave(self) -> None:
        """Nobody does; what is still written goes nowhere."""
        self._is_gone = True
        discard(sys.stdout)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """End quietly where click finds the reader gone, which writes help by itself.

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
        """The code of a run that ended with ``code``: an unread success is none."""
        # What could not be told on stderr would be tried again at exit, and change the code.
        with suppress(OSError):
            _flush(sys.stderr)
        return _UNREAD if self._is_gone and code == 0 else code


def discard(stream: TextIO) -> None:
    """Let a stream that takes no more go nowhere: at exit it would be tried again, and complain."""
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
