"""Executes the engine's commands in a child process, whose death does not end this process.

Callers see only the error of the command during which the child died: the next command starts
another child, and loads the same models there first.
"""

import os
import threading
from contextlib import suppress
from dataclasses import replace
from typing import get_args

import psutil

from spectui.children import Child, ProtocolError
from spectui.engine.child import Cancel
from spectui.engine.commands import (
    Command,
    ComparePair,
    LoadDraft,
    LoadTarget,
    Shutdown,
    UnloadDraft,
)
from spectui.engine.events import Answer, Done, EngineFailed, Event, ModelLoaded, Sink
from spectui.errors import EngineDiedError, EngineKilledError, SpectuiError, UsageError
from spectui.llama.library import library_variables
from spectui.llama.log import native_log
from spectui.llama.planned import is_lost_rpc_server

_CHECK_S = 1.0
PATIENCE = 300
"""Successive checks, one a second, that find a process idle before it counts as hung: it is idle
while RPC servers compute for it."""
PATIENCE_VARIABLE = "SPECTUI_PATIENCE"
"""Environment variable with another number: a file system on a slow network may need more."""
_SEND_TIMEOUT_S = 30
"""Seconds for sending a message, at most: the child has a thread that does nothing but receive."""
_CANCEL_PATIENCE = 10
"""``PATIENCE`` after a cancellation, at most: nobody should wait long for a hung process."""
_N_LINES = 10
"""Last lines of llama.cpp's log that the error of a death quotes."""
_LOST_SERVER = "an RPC server went away, or answered what llama.cpp cannot read; start it again"
_NO_MEMORY = "memory ran out while {doing} ({why}); close other programs, or choose a shorter -c"
_BUSY_SHARE = 0.01
"""Share of the time between two checks above which a computing process is not idle."""


def activity(pid: int) -> tuple[float, int]:
    """Processor's seconds of a process and of those that plan and render for it; bytes it read."""
    used_s, n_read = 0.0, 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                used_s += times.user + times.system
        counters = process.io_counters()
        n_read = counters.read_bytes + counters.read_chars
    return used_s, n_read


def is_idle(before: tuple[float, int], now: tuple[float, int]) -> bool:
    """Whether a process did nothing from one look at its ``activity`` to the next."""
    # Less time, once one of its own children has ended.
    return abs(now[0] - before[0]) <= _BUSY_SHARE * _CHECK_S and now[1] == before[1]


class ProcessWorker:
    """A ``Worker`` whose models are in a child process."""

    def __init__(self) -> None:
        """Start nothing yet.

        Raises:
            UsageError: ``PATIENCE_VARIABLE`` has no number of seconds.
        """
        self._patience = _patience_from_environment()
        self._child: Child | None = None
        self._loads: list[LoadTarget | LoadDraft] = []
        """Commands that loaded what is loaded, or is to be loaded again."""
        self._is_loaded = True
        """Whether the child has what is to be loaded."""
        self._lock = threading.Lock()
        self._running: Command | None = None
        self._is_interrupted = self._is_cancelled = False

    @property
    def pid(self) -> int | None:
        """The child's process id; None without one."""
        return None if self._child is None else self._child.pid

    def interrupt(self, *, on: bool) -> None:
        """As ``Worker.interrupt``."""
        with self._lock:
            self._is_interrupted = on
            self._cancel()

    def _cancel(self) -> None:
        """Cancel what runs, once: a process that no longer receives would fill the connection."""
        if self._is_interrupted and self._running is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._tell(Cancel())

    def _tell(self, message: object) -> None:
        # A child that is dead or does not receive is reported where its answer is awaited.
        with suppress(OSError):
            if self._child is not None:
                self._child.channel.send(message)

    def execute(self, command: Command, sink: Sink) -> Event:
        """As ``Worker.execute``.

        Raises:
            EngineDiedError: the process ended meanwhile, or hung and was ended.
        """
        if self._child is not None and (self._child.has_ended or self._child.channel.is_cut):
            # Killed, or stopped, while it had nothing to do: nobody's command is to blame.
            self._drop()
        match command:
            case Shutdown():
                # The process has nothing to keep.
                self._drop()
                return Done()
            case LoadTarget():
                self._loads.clear()
            case LoadDraft() | UnloadDraft():
                del self._loads[1:]
        if not isinstance(command, ComparePair):
            self._restore(sink)
        answer = self._ask(command, sink)
        if isinstance(answer, ModelLoaded) and isinstance(command, LoadTarget | LoadDraft):
            # A placement that was open is chosen once: the next process has the same.
            self._loads.append(replace(command, options=answer.placed or command.options))
        return answer

    def _restore(self, sink: Sink) -> None:
        """Load in a new process what the one before it had."""
        if not self._is_loaded:
            for command in self._loads:
                answer = self._ask(command, sink)
                if isinstance(answer, EngineFailed):
                    raise answer.error
        self._is_loaded = True

    def _ask(self, command: Command, sink: Sink) -> Event:
        """Send a command and return its answer, events on the way to ``sink``."""
        child = self._send(command)
        while True:
            try:
                if child.channel.is_cut:
                    raise self._hung(command, min(self._patience, _SEND_TIMEOUT_S))
                self._wait(command, child)
                event: Event | str = child.channel.receive()
            except (EOFError, OSError):
                raise self._died(command) from None
            except ProtocolError as error:
                self._drop()
                raise EngineDiedError(
                    f"the engine's process sent an unreadable message while {command.doing} "
                    f"({error}); start the command again",
                    native_log.tail(_N_LINES),
                ) from None
            if isinstance(event, Answer):
                self._running = None
                return event
            self._emit(event, sink)

    def _wait(self, command: Command, child: Child) -> None:
        """Wait for what comes next, with an eye on whether the process still does anything."""
        is_cancelling, n_idle, before = False, 0, (-1.0, -1)
        patience = self._patience
        while not child.channel.poll(_CHECK_S):
            now = activity(child.pid)
            n_idle = n_idle + 1 if is_idle(before, now) else 0
            before = now
            if self._is_interrupted and not is_cancelling:
                # It has had no time yet to end what it does.
                is_cancelling, n_idle, patience = True, 0, min(patience, _CANCEL_PATIENCE)
            if n_idle >= patience:
                raise self._hung(command, n_idle)

    def _send(self, command: Command) -> Child:
        with self._lock:
            child = self._child = self._child or self._started()
            self._tell(command)
            self._running, self._is_cancelled = command, False
            self._cancel()
            return child

    def _started(self) -> Child:
        try:
            receives = (*get_args(Event), str)
            child = Child("spectui.engine.child", receives, variables=library_variables())
        except OSError as error:
            raise SpectuiError(
                f"no process for the models can be started ({error.strerror}); close other programs"
            ) from None
        child.channel.bound(min(self._patience, _SEND_TIMEOUT_S))
        return child

    def _emit(self, event: Event | str, sink: Sink) -> None:
        try:
            if isinstance(event, str):
                native_log.add(event)
            else:
                sink(event)
        except BaseException:
            # Its command must not answer the next one.
            self._drop()
            raise

    def _hung(self, command: Command, n_idle: int) -> EngineDiedError:
        self._drop()
        return EngineDiedError(
            f"the engine's process neither computed nor read for {n_idle * _CHECK_S:.0f} s while "
            f"{command.doing}, and was ended; see whether a driver or a disk hangs",
            native_log.tail(_N_LINES),
        )

    def _died(self, command: Command) -> EngineDiedError:
        end, words, no_memory = "", "none", None
        if self._child is not None:
            end, words = self._child.end(), self._child.last_words()
            no_memory = self._child.out_of_memory_line()
        self._drop()
        if is_lost_rpc_server(words):
            return EngineDiedError(_LOST_SERVER)
        doing, log = command.doing, native_log.tail(_N_LINES)
        if end == "SIGKILL" or no_memory is not None:
            why = no_memory or "the kernel has killed the engine's process"
            return EngineKilledError(_NO_MEMORY.format(doing=doing, why=why), log)
        return EngineDiedError(
            f"the engine's process ended with {end} while {doing} (its last words: {words}); start "
            "the command again, and report a signal that comes again to llama.cpp's developers",
            log,
        )

    def _drop(self) -> None:
        with self._lock:
            child, self._child, self._running = self._child, None, None
        if child is not None:
            child.close()
        self._is_loaded = not self._loads


def _patience_from_environment() -> int:
    """Checks before a process counts as hung: ``PATIENCE_VARIABLE``, or ``PATIENCE``."""
    text = os.environ.get(PATIENCE_VARIABLE) or str(PATIENCE)
    if text.isdecimal() and int(text):
        return int(text)
    raise UsageError(f"{PATIENCE_VARIABLE}={text} is no number of seconds; give one, such as 300")
