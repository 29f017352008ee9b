"""A program in a pseudo terminal, for a page that draws it."""

import asyncio
import fcntl
import os
import struct
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

_READ_BYTES = 1 << 16
_ENDING_S = 10.0
"""Seconds in which the program ends once its terminal is gone."""
_MOST_CELLS = 1000
"""Width and height of a terminal, at most."""


class PseudoTerminal:
    """Starts a program in a pseudo terminal of its own, and hangs up at the end."""

    def __init__(self, command: Sequence[str], *, width: int, height: int) -> None:
        """Start nothing yet.

        Args:
            command: the program and its arguments; no shell reads them.
            width: in cells.
            height: in cells.
        """
        self._command = command
        self._size = width, height
        self._master = -1
        self._process: Process | None = None
        self._output = asyncio.StreamReader()
        self._input: asyncio.WriteTransport | None = None

    async def __aenter__(self) -> Self:
        """Start the program."""
        self._master, slave = os.openpty()
        try:
            self.resize(*self._size)
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
                preexec_fn=_take_terminal,
                env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            )
        finally:
            os.close(slave)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._output), os.fdopen(self._master, "rb", 0)
        )
        self._input, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(os.dup(self._master), "wb", 0)
        )
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Hang up, as a terminal that is closed does, and wait for the program's end."""
        process = self._process
        if process is None:
            return
        if self._input is not None:
            self._input.abort()
        with suppress(ProcessLookupError):
            process.send_signal(1)
        try:
            await asyncio.wait_for(process.wait(), _ENDING_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def output(self) -> AsyncIterator[bytes]:
        """Yield what the program draws, until it has ended."""
        # A pseudo terminal whose program is gone cannot be read: that is its end of file.
        with suppress(OSError):
            while data := await self._output.read(_READ_BYTES):
                yield data

    def write(self, data: bytes) -> None:
        """Type."""
        if self._input is not None:
            self._input.write(data)

    def resize(self, width: int, height: int) -> None:
        """Change the size, in cells; the kernel tells the program."""
        cells = (min(max(n, 1), _MOST_CELLS) for n in (height, width))
        with suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", *cells, 0, 0))


def _take_terminal() -> None:
    """Make stdin the session's terminal: without one no signal comes from it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
