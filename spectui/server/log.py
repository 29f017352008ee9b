"""Keeps the beginning and the end of a server's output in a file that stays small."""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from spectui.closing import Closing
from spectui.errors import ServerError

HEAD_BYTES = 1 << 20
TAIL_BYTES = 1 << 20
"""Each a hundred times what llama-server says while it loads a model."""
_AT_ONCE_BYTES = 1 << 16
_LAST_BYTES = 4096
_JOIN_S = 1.0
_MOST_LOGS = 100
"""Limit of logs with one name, written at the same time."""


class ServerLog(Closing):
    """Reads what a process prints, and keeps the beginning and the end of it.

    The file is locked while it is written: where another spectui writes it, the next one of a
    numbered series is taken.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, empty.

        Args:
            path: the wanted path.

        Raises:
            ServerError: no file can be written there.
        """
        self.n_bytes = 0
        """Printed so far."""
        self.path, self._file = _opened(path)
        self._lock = threading.Lock()
        """Lock of the file, which may be closed while the process still prints."""
        self._tail = bytearray()
        self._thread: threading.Thread | None = None
        self._pipe, self.output = os.pipe()
        """``output`` is the file descriptor that the process is to write to."""

    def follow(self, words: bytes, on_words: Callable[[], None]) -> None:
        """Begin to read: the process has ``output``.

        Args:
            words: words to wait for.
            on_words: called once, on a thread, when they are printed.
        """
        os.close(self.output)
        self.output = -1
        arguments = (words, on_words)
        self._thread = threading.Thread(
            target=self._read, args=arguments, name="spectui-server-log", daemon=True
        )
        self._thread.start()

    def last(self) -> bytes:
        """The end of what was printed so far."""
        return bytes(self._tail[-_LAST_BYTES:])

    def keep(self, path: Path) -> None:
        """Have the file at ``path`` from now on, if that can be."""
        with suppress(OSError):
            self.path.replace(path)
            self.path = path

    def settle(self) -> None:
        """Read the rest; the process has ended."""
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def close(self) -> None:
        """Write the end into the file. May be called again."""
        self.settle()
        if self.output >= 0:
            os.close(self.output)
            os.close(self._pipe)
            self.output = -1
        with self._lock:
            if self._file >= 0:
                with suppress(OSError):
                    self._write_end(self._file)
                os.close(self._file)
                self._file = -1

    def _write_end(self, file: int) -> None:
        behind = self.n_bytes - HEAD_BYTES
        if behind <= 0:
            return
        end = bytes(self._tail[-min(behind, TAIL_BYTES) :])
        if behind > len(end):
            _write(file, f"\n[{behind - len(end)} bytes are left out here]\n".encode())
        _write(file, end)

    def _read(self, words: bytes, on_words: Callable[[], None]) -> None:
        is_waiting = True
        try:
            while data := os.read(self._pipe, _AT_ONCE_BYTES):
                self._keep(data)
                if is_waiting and words in self._tail[-len(words) - len(data) :]:
                    is_waiting = False
                    on_words()
        finally:
            os.close(self._pipe)

    def _keep(self, data: bytes) -> None:
        room = HEAD_BYTES - self.n_bytes
        self.n_bytes += len(data)
        self._tail += data
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        with self._lock, suppress(OSError):
            # A full disk must not stop the process, which waits until it is read.
            if room > 0 and self._file >= 0:
                _write(self._file, data[:room])


def _opened(wanted: Path) -> tuple[Path, int]:
    """The first file of a series that nobody writes, empty and locked."""
    try:
        for path in _series(wanted):
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            if _is_locked(file):
                os.truncate(file, 0)
                return path, file
            os.close(file)
    except OSError as error:
        raise ServerError(
            f"cannot write llama-server's log to {wanted} ({error.strerror})"
        ) from error
    raise ServerError(f"{_MOST_LOGS} processes write llama-server's log to {wanted} and beside it")


def _series(wanted: Path) -> Iterator[Path]:
    yield wanted
    for number in range(2, _MOST_LOGS + 1):
        yield wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")


def _is_locked(file: int) -> bool:
    """Lock the file; return False where another process has it.

    A file that cannot be locked at all counts as ours.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
