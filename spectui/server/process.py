"""A llama-server of our own: started on a free loopback port, logged, stopped with its owner."""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from filelock import lock_descriptor

from spectui.closing import Closing
from spectui.commands.items import divide, words_of
from spectui.commands.measured import own_environment
from spectui.commands.sources.source import absolute
from spectui.errors import ServerError
from spectui.server.client import LlamaClient
from spectui.server.connection import BrokenError, LateError, ReplyError, UnreachableError
from spectui.server.kept import KeptProcess, last_words, manner_of
from spectui.server.listeners import intruder
from spectui.writing import open_private

HEAD_BYTES = 1 << 20
TAIL_BYTES = 1 << 20
"""Each a hundred times what llama-server says while it loads a model."""
_AT_ONCE_BYTES = 1 << 16
_LAST_BYTES = 4096
_PRINTED = bytes(code if code >= ord(" ") or code in b"\n\t" else ord("?") for code in range(256))
"""Of each byte that a server prints what is kept: no terminal acts on a log."""
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
                self._keep(data.translate(_PRINTED))
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
            file = open_private(path, os.O_WRONLY)
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
        return lock_descriptor(file, blocking=False)
    except OSError:
        return True


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


POLL_INTERVAL_S = 0.05
HEALTH_TIMEOUT_S = 2.0
GRACE_S = 10.0
_BROKEN_S = 1.0
"""A connection breaks a moment before the process is gone."""
_UNREADY_BYTES = 1 << 26
"""A server that has printed so much and is not ready will not be."""
_LEFT_IT = " (a script that starts the server has to stay as long as that runs)"
_ENDS = b": cleaning up before exit...\n"
"""llama-server's line when it is told to end. It ends once it has nothing to do."""


class LlamaServer(LlamaClient):
    """A running llama-server; the constructor returns once it is ready.

    Args:
        binary: the user's or the project's own llama-server.
        arguments: its command line, with paths from this process's folder. Host and port are set
            by spectui and win over the user's; the API key travels in the environment, where other
            users cannot read it.
        log_path: file for the server's stdout and stderr; where another process writes it, one
            beside it (``log_path`` tells which).
        failed_log_path: where that file is moved once an error refers to it, so that the next
            server does not write over it; None to leave it.
        name: name in error messages.
        ready_timeout_s: limit for loading the model.
        request_timeout_s: limit for one answer.

    Raises:
        ServerError: it could not be started, exited, or was not ready in time.
    """

    def __init__(
        self,
        binary: Path,
        arguments: Sequence[str],
        *,
        log_path: Path,
        failed_log_path: Path | None = None,
        name: str = "llama-server",
        ready_timeout_s: float = 120.0,
        request_timeout_s: float = 600.0,
    ) -> None:
        port, api_key = _free_port(), secrets.token_urlsafe(24)
        super().__init__(
            f"http://127.0.0.1:{port}",
            api_key=api_key,
            name=name,
            request_timeout_s=request_timeout_s,
            check_peer=self._check_listener,
        )
        self._port = port
        self._failed_log_path = failed_log_path
        self._is_serving = False
        """Whether it is ready, and is not being ended."""
        self._was_told_to_end = False
        self._log = ServerLog(log_path)
        self.log_path = self._log.path
        own = words_of(absolute(item) for item in divide(arguments))
        command = [str(binary.absolute()), *own, "--host", "127.0.0.1", "--port", str(port)]
        environment = {**own_environment(os.environ), "LLAMA_API_KEY": api_key}
        try:
            self._process = KeptProcess(
                command, output=self._log.output, grace_s=GRACE_S, environment=environment
            )
        except BaseException:
            self._log.close()
            raise
        try:
            self._log.follow(_ENDS, self._on_ending)
            self._wait_until_ready(ready_timeout_s)
        except BaseException:
            self.close()
            raise
        self._is_serving = True

    @property
    def pid(self) -> int:
        """Process id of the server, for measuring its memory."""
        return self._process.pid

    def close(self) -> None:
        """End the process, by force if it does not go on request. May be called again."""
        self._is_serving = False
        self._process.close()
        self._log.close()
        super().close()

    def _on_ending(self) -> None:
        """Stop waiting for a long answer once somebody else has told the server to end.

        A server that cannot load its model prints the same, and ends by itself.
        """
        if self._is_serving:
            self._was_told_to_end = True
            self._process.let_go()

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not self._has_exited(POLL_INTERVAL_S):
            remaining_s = deadline_s - time.monotonic()
            if remaining_s <= 0:
                raise ServerError(
                    f"{self.name} was not ready after {timeout_s:g} s, and --timeout gives it "
                    f"longer; {self._last_words()}"
                )
            if self._log.n_bytes > _UNREADY_BYTES:
                raise ServerError(
                    f"{self.name} printed more than {_UNREADY_BYTES // 1_000_000} MB and was not "
                    f"ready; {self._last_words()}"
                )
            if self.is_ready(timeout_s=min(HEALTH_TIMEOUT_S, remaining_s)):
                return
        raise self._exited(_LEFT_IT if self._process.returncode == 0 else "")

    def _has_exited(self, within_s: float) -> bool:
        # Waiting for the exit is the pause between two polls, so that a death ends it at once.
        return self._process.wait(within_s) is not None

    def _exited(self, advice: str = "") -> ServerError:
        self._log.settle()
        code = self._process.returncode
        told = "was told to end by somebody else, and " if self._was_told_to_end else ""
        manner = f"{manner_of(code or 0)}{advice}"
        return ServerError(f"{self.name} {told}ended with {manner}; {self._last_words()}")

    def _check_listener(self, from_port: int) -> None:
        """Refuse to send a prompt and the key to a program that has taken the port.

        Args:
            from_port: port of the connection at this end.

        Raises:
            ServerError: it is not the server that listens there.
        """
        found = intruder(self._port, self._process.includes, from_port)
        if found is not None:
            if self._has_exited(0.0):
                raise self._exited()
            raise ServerError(
                f"port {self._port} of {self.name} was taken by {found}, which was sent nothing; "
                "try again, or give --server-bin the llama-server itself if it is a script that "
                "hands over to another program"
            )

    def _failure(self, asked: str, error: ReplyError) -> ServerError:
        is_gone = isinstance(error, BrokenError | LateError | UnreachableError)
        if is_gone and self._has_exited(self._ends_within_s(error)):
            return self._exited()
        return ServerError(f"{super()._failure(asked, error)}; {self._last_words()}")

    def _ends_within_s(self, error: ReplyError) -> float:
        if self._was_told_to_end:
            return GRACE_S + _BROKEN_S
        return 0.0 if isinstance(error, LateError) else _BROKEN_S

    def _last_words(self) -> str:
        if self._failed_log_path is not None:
            self._log.keep(self._failed_log_path)
            self.log_path = self._log.path
        return f"{last_words(self._log.last())} (all of it in {self.log_path})"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
