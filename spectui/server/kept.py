"""Starts a program that ends with spectui, even if spectui is killed."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, cast

from spectui.closing import Closing
from spectui.errors import ServerError
from spectui.format import printable

_KEEPER = Path(__file__).with_name("keeper.py")
_REPORT_S = 5.0
"""Seconds that the keeper may take to end after the program."""
MOST_BYTES = 1 << 21
"""Bytes of output that are kept: two hundred times what llama-server prints on loading a model."""
_AT_ONCE_BYTES = 1 << 16
_LAST_BYTES = 4096
_N_LAST_LINES = 5
_MOST_CHARACTERS = 600
_UNREADABLE = re.compile(r"\?{3,}")
_PRINTED = bytes(code if code >= ord(" ") or code in b"\n\t" else ord("?") for code in range(256))
"""Table that replaces control characters, so that no terminal acts on a log."""
_JOIN_S = 1.0


class KeptProcess(Closing):
    """A running program, in its own session, which ends with this process even if that is killed.

    It starts in an empty folder of its own, so that nobody else can place a library there for it to
    load. The folder is removed with it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        grace_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            command: program and arguments; no shell sees them. Paths are absolute.
            grace_s: time to end after a request; 0 kills it at once.
            environment: its variables; None for this process's own.

        Raises:
            ServerError: it cannot be started.
        """
        self._grace_s = grace_s
        self._folder = _working_folder(command[0])
        report, child_end = os.pipe()
        try:
            self._keeper = subprocess.Popen(  # noqa: S603 - this very program, without a shell
                [sys.executable, "-I", "-S", _KEEPER, str(child_end), str(grace_s), *command],
                # Held open and never written to: see keeper.py.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(child_end,),
                # Ctrl-C is for the owner, who ends the program.
                start_new_session=True,
                env=environment,
                cwd=self._folder.name,
                bufsize=0,
            )
        except BaseException:
            os.close(report)
            self._folder.cleanup()
            raise
        finally:
            os.close(child_end)
        self.output = Output(cast("IO[bytes]", self._keeper.stdout))
        """Everything that it prints."""
        try:
            self.pid = _started(report, command[0])
        except BaseException:
            self.close()
            raise

    @property
    def returncode(self) -> int | None:
        """Exit code as in ``subprocess``: None while it runs, less than 0 for a signal."""
        return self._keeper.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, at most so long; return ``returncode``."""
        try:
            return self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """End it, by force if it does not go on request. May be called again."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()
        try:
            self.wait(self._grace_s + _REPORT_S)
        finally:
            # The keeper's end is the program's.
            self._keeper.kill()
            self._keeper.wait()
            self.output.join()
            self._folder.cleanup()


def _working_folder(program: str) -> "TemporaryDirectory[str]":
    try:
        return TemporaryDirectory(prefix="spectui-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ServerError(
            f"no folder for {program} to start in can be made ({error.strerror}); point TMPDIR at "
            "a writable folder with room"
        ) from error


def _started(report: int, program: str) -> int:
    """The process id that the keeper reports.

    Raises:
        ServerError: there is none.
    """
    with os.fdopen(report) as pipe:
        line = pipe.readline().strip()
    if line.isdecimal():
        return int(line)
    raise ServerError(
        f"cannot start {program} ({line or 'its keeper died'}); "
        "give the path of an executable llama-server"
    )


def manner_of(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"exit code {code}"
    known = -code in set(signal.Signals)
    return f"signal {signal.Signals(-code).name if known else -code}"


class Output:
    """Reads what a process prints, and keeps the end of it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        """Begin to read ``pipe``, which has no buffer, on a thread that closes it in the end."""
        self._kept = bytearray()
        self._thread = threading.Thread(
            target=self._read, args=(pipe,), name="spectui-output", daemon=True
        )
        self._thread.start()

    @property
    def last_words(self) -> str:
        """Clause with the last lines that were printed so far."""
        lines = self._kept[-_LAST_BYTES:].decode("utf-8", "replace").splitlines()
        spoken = " / ".join([line.strip() for line in lines if line.strip()][-_N_LAST_LINES:])
        if not spoken:
            return "it printed nothing"
        words = _UNREADABLE.sub("??", printable(spoken))[-_MOST_CHARACTERS:]
        return f"its last words were {words!r}"

    @property
    def text(self) -> str:
        """All that is kept; what is no UTF-8 is replaced."""
        return self._kept.decode("utf-8", "replace")

    def join(self) -> None:
        """Wait for the rest; the process has ended."""
        self._thread.join(_JOIN_S)

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while data := pipe.read(_AT_ONCE_BYTES):
                self._kept += data.translate(_PRINTED)
                if len(self._kept) > 2 * MOST_BYTES:
                    del self._kept[:-MOST_BYTES]
