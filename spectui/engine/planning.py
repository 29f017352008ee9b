"""Memory plans from a child process, so that no header of a file can end or fill this one."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import psutil

from spectui.closing import Closing
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError
from spectui.llama.buffers import HOST
from spectui.llama.planned import DeviceMemory, Plan, PlanRequest

if TYPE_CHECKING:
    # It loads llama.cpp, which only the child does.
    from spectui.llama.plan_child import Answer

TIMEOUT_S = 30.0
"""For one plan, and for the child's start. Plans take less than two seconds on a free machine."""
_LAST_WORDS_BYTES = 4096
_BUILD_FOLDER = re.compile(r"\A/\S*/(?=[^/\s]+:\d+: )")
"""Where llama.cpp was compiled, in front of a file and line of it."""


class Planner(Closing):
    """Plans as often as it is asked, in one child that is started anew if a header ends it.

    Not thread-safe. Close it, or use it as a context manager: the child ends with it.
    """

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Start the child, which is ready by the time of the first question.

        Args:
            timeout_s: when a plan has not come by then, its file is called unusable.
        """
        self._timeout_s = timeout_s
        self._child: _Child | None = _Child()

    @property
    def pid(self) -> int | None:
        """The child's process, for whoever watches its memory; None where it has just ended."""
        return None if self._child is None else self._child.pid

    def plan(self, request: PlanRequest) -> Plan:
        """Plan a target, and a draft beside it, without reading a weight.

        Raises:
            BadInputError: a file is no model that generates, or llama.cpp could not make sense of
                its header and died or hung.
            DoesNotFitError: a recurrent state, which even a plan allocates, does not fit, or the
                kernel has ended the child because there is no memory.
            UsageError: an option that cannot be.
            SpectuiError: llama.cpp died before it read a file, as of a GPU's driver.
        """
        answer = self._ask(request)
        if not isinstance(answer, Plan):
            raise TypeError(f"the planner answered with {answer!r}")
        return answer

    def gpus(self) -> tuple[DeviceMemory, ...]:
        """Read the memories of the GPUs that llama.cpp sees."""
        answer = self._ask(None)
        if not isinstance(answer, tuple):
            raise TypeError(f"the planner answered with {answer!r}")
        return answer

    def free_bytes(self) -> dict[str, int]:
        """Free memory by ``Buffer.memory``: of every GPU that tells it, and of the host.

        The host's contains the page cache, in which mapped weights live.
        """
        gpus = {gpu.name: gpu.free_bytes for gpu in self.gpus() if gpu.free_bytes is not None}
        return {**gpus, HOST: psutil.virtual_memory().available}

    def close(self) -> None:
        """End the child. May be called again."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _ask(self, request: PlanRequest | None) -> "Answer":
        if self._child is None:
            self._child = _Child()
        try:
            answer = self._child.ask(request, self._timeout_s)
        except BaseException:
            # It is dead, or busy with what nobody wants any more.
            self.close()
            raise
        if isinstance(answer, SpectuiError):
            raise answer
        return answer


class _Child(Closing):
    """One process of ``spectui.llama.plan_child``."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        self._stderr: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        self._reading: Path | None = None
        with theirs:
            self._process = _start(theirs, self._stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: PlanRequest | None, timeout_s: float) -> "Answer":
        """Return what the child says, an error of the request included.

        Raises:
            BadInputError: a signal ended it while it read a file, or it did not answer in time.
            DoesNotFitError: it was killed, as the kernel does where memory ends.
            SpectuiError: a signal ended it before it read a file, as a GPU's driver may.
            RuntimeError: it ended by itself.
        """
        self._reading = None
        deadline_s = time.monotonic() + timeout_s
        try:
            self._connection.send(request)
            while self._connection.poll(max(deadline_s - time.monotonic(), 0.0)):
                answer: Answer = self._connection.recv()
                if not isinstance(answer, Path):
                    return answer
                self._reading = answer
        except (EOFError, OSError):
            raise self._died(deadline_s) from None
        raise BadInputError(
            f"{self._what()}: llama.cpp did not come to an end with its header within "
            f"{timeout_s:g} s; check that the download is complete"
        )

    def close(self) -> None:
        """Kill it: it has nothing to keep."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._connection.close()
        self._stderr.close()

    def _what(self) -> str:
        return "the memory plan" if self._reading is None else str(self._reading)

    def _died(self, deadline_s: float) -> Exception:
        # The connection breaks a moment before the process is gone.
        code = self._process.wait(max(deadline_s - time.monotonic(), 1.0))
        words = self._last_words()
        if code >= 0:
            # llama.cpp ends by a signal: this was Python.
            return RuntimeError(f"the process that plans ended with exit code {code}: {words}")
        name = signal.Signals(-code).name
        if -code == signal.SIGKILL:
            return DoesNotFitError(
                f"{self._what()}: the process that plans was killed, as the kernel does where "
                "memory ends; close other programs"
            )
        if self._reading is None:
            return SpectuiError(
                f"llama.cpp ended with {name} before it read a file (its last words: {words}); "
                "check the GPU's driver, or hide the GPU with CUDA_VISIBLE_DEVICES=''"
            )
        return BadInputError(
            f"{self._what()}: llama.cpp could not make sense of it and ended with "
            f"{name} (its last words: {words}); "
            "check that the download is complete"
        )

    def _last_words(self) -> str:
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(end - _LAST_WORDS_BYTES, 0))
        lines = self._stderr.read().decode(errors="replace").splitlines()
        spoken = [line.strip() for line in lines if line.strip()]
        return _BUILD_FOLDER.sub("", spoken[-1]) if spoken else "none"


def _start(connection: Connection, stderr: BinaryIO) -> "subprocess.Popen[bytes]":
    number = connection.fileno()
    # -P: what lies in the working folder is not imported.
    command = [sys.executable, "-P", "-m", "spectui.llama.plan_child", str(number)]
    return subprocess.Popen(  # noqa: S603 - this very program, without a shell
        command,
        # Held open and never written to: the child ends when it is closed, however that comes.
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=(number,),
        # Ctrl-C is for the parent, who ends the child.
        start_new_session=True,
    )
