"""A program that ends with spectui, even if spectui is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from spectui.closing import Closing
from spectui.errors import ServerError

_KEEPER = Path(__file__).with_name("keeper.py")
_REPORT_S = 5.0
"""Seconds that the keeper may take to end after the program."""


class KeptProcess(Closing):
    """A running program, in a session of its own. Its owner may even be killed: it ends as well.

    It starts in an empty folder of its own, in which nobody else can lay a library for it to load,
    and which goes with it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        output: int,
        grace_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            command: program and arguments; no shell sees them. Paths are absolute.
            output: file descriptor for its stdout and stderr.
            grace_s: time to end after a request; 0 kills it at once.
            environment: its variables; None for this process's own.

        Raises:
            ServerError: it cannot be started.
        """
        self._grace_s = grace_s
        self._folder = _working_folder(command[0])
        report, theirs = os.pipe()
        try:
            self._keeper = subprocess.Popen(  # noqa: S603 - this very program, without a shell
                [sys.executable, "-I", "-S", _KEEPER, str(theirs), str(grace_s), *command],
                # Held open and never written to: see keeper.py.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(theirs,),
                # Ctrl-C is for the owner, who ends the program.
                start_new_session=True,
                env=environment,
                cwd=self._folder.name,
            )
        except BaseException:
            os.close(report)
            self._folder.cleanup()
            raise
        finally:
            os.close(theirs)
        try:
            self.pid = _started(report, command[0])
        except BaseException:
            self.close()
            raise

    @property
    def returncode(self) -> int | None:
        """Exit code as in ``subprocess``: None while it runs, less than 0 for a signal."""
        return self._keeper.poll()

    def includes(self, pid: int) -> bool:
        """Return whether a process is the program or was started by it, even if orphaned since."""
        try:
            return any(one.pid == self._keeper.pid for one in psutil.Process(pid).parents())
        except psutil.Error:
            return False

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, at most so long; return ``returncode``."""
        try:
            return self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def let_go(self) -> None:
        """Have it end, and do not wait for that. May be called again, on any thread."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()

    def close(self) -> None:
        """End it, by force if it does not go on request. May be called again."""
        self.let_go()
        try:
            self.wait(self._grace_s + _REPORT_S)
        finally:
            # The keeper's end is the program's.
            self._keeper.kill()
            self._keeper.wait()
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
    with os.fdopen(report) as told:
        line = told.readline().strip()
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
