"""A child process that makes plans, seen from its parent: requests, replies, its death."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

from spectui.closing import Closing
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError
from spectui.llama.planned import Answer, Question

_LAST_WORDS_BYTES = 4096
_BUILD_FOLDER = re.compile(r"\A/\S*/(?=[^/\s]+:\d+: )")
"""Folder in which llama.cpp was compiled, in front of a source file and its line."""


class PlanProcess(Closing):
    """One process of ``spectui.llama.plan_child``."""

    def __init__(self, timeout_s: float) -> None:
        """Start it; it is ready by the time of the first answer.

        Args:
            timeout_s: when an answer has not come by then, its file is called unusable.
        """
        self._timeout_s = timeout_s
        self._deadline_s = 0.0
        self._connection, theirs = Pipe()
        self._stderr: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        self._reading: Path | None = None
        with theirs:
            self._process = _start(theirs, self._stderr)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, question: Question) -> None:
        """Put a question, which has to be followed by ``hear``."""
        self._deadline_s = time.monotonic() + self._timeout_s
        # If it is dead, that is told where its answer is waited for.
        with suppress(OSError):
            self._connection.send(question)

    def hear(self) -> Answer:
        """Wait for the answer, an error of the question included.

        Raises:
            BadInputError: a signal ended it while it read a file, or it did not answer in time.
            DoesNotFitError: it was killed, as the kernel does where memory ends.
            SpectuiError: a signal ended it before it read a file, as a GPU's driver may.
            RuntimeError: it ended by itself.
        """
        self._reading = None
        try:
            while self._connection.poll(max(self._deadline_s - time.monotonic(), 0.0)):
                answer: Answer = self._connection.recv()
                if not isinstance(answer, Path):
                    return answer
                self._reading = answer
        except (EOFError, OSError):
            raise self._died() from None
        raise BadInputError(
            f"{self._what()}: llama.cpp did not come to an end with its header within "
            f"{self._timeout_s:g} s; check that the download is complete"
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

    def _died(self) -> Exception:
        # The connection breaks a moment before the process is gone.
        code = self._process.wait(max(self._deadline_s - time.monotonic(), 1.0))
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
