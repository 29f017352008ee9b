"""The process with the models: executes the commands of ``spectui.engine.isolation``.

``python -m spectui.engine.child FD`` answers each command that comes over the connection. What
ends it, an abort of llama.cpp's or the kernel where memory ends, does not end the program.
"""

import ctypes
import os
import queue
import resource
import signal
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import psutil

from spectui.children import Channel, ProtocolError, parent_channel, tells_no_memory
from spectui.engine.commands import Command, Shutdown
from spectui.engine.events import EngineFailed, Event
from spectui.engine.guard import Guard
from spectui.engine.host_memory import host_memory
from spectui.engine.worker import LocalWorker
from spectui.errors import SpectuiError, UsageError
from spectui.llama.devices import has_gpu
from spectui.llama.log import native_log
from spectui.options.setup import Fit

_SET_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of ``prctl``."""
_OOM_SCORE = "900"
"""Of at most 1000: when memory ends, the kernel kills this process before those of the user."""

_RESERVED_BYTES = 128 << 20
_STACK_BYTES = 8 << 20
"""Stack of a thread; each processor may have one for tokens and one for prompts."""


@dataclass(frozen=True, slots=True)
class Start:
    """The first message."""

    margins: Fit | None
    """Memory that stays free on GPUs; None for the default."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancels the command that was sent as the ``number``-th, from 1, if it still runs."""

    number: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of llama.cpp's log."""

    line: str


class _Commands:
    """Commands in the order in which they come; cancellations go past them."""

    def __init__(self, channel: Channel, worker: LocalWorker) -> None:
        self._channel = channel
        self._worker = worker
        self._waiting: queue.SimpleQueue[Command | ProtocolError | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._n_begun = 0
        self._cancelled = 0
        threading.Thread(target=self._receive, daemon=True).start()

    def next(self) -> Command | ProtocolError | None:
        """Wait for the next command, if it can be understood; None once the parent is gone."""
        command = self._waiting.get()
        with self._lock:
            self._n_begun += 1
            self._worker.interrupt(on=self.is_cancelled())
        return command

    def is_cancelled(self) -> bool:
        """Whether the command that runs is to end early."""
        return self._n_begun <= self._cancelled

    def _receive(self) -> None:
        try:
            while True:
                message = self._next_message()
                if isinstance(message, Cancel):
                    with self._lock:
                        self._cancelled = message.number
                        if self.is_cancelled():
                            self._worker.interrupt(on=True)
                else:
                    self._waiting.put(message)
        except EOFError:
            pass
        finally:
            # Nor does anything more come where there was no memory for a message.
            self._waiting.put(None)

    def _next_message(self) -> Command | Cancel | ProtocolError:
        try:
            message: Command | Cancel = self._channel.receive()
        except ProtocolError as error:
            return error
        return message


def main() -> None:
    """Answer commands until ``Shutdown``, or until the connection closes."""
    with (
        parent_channel((*get_args(Command), Cancel, Start)) as channel,
        suppress(OSError, EOFError),
    ):
        _end_with_parent()
        _end_before_others()
        native_log.listen(lambda line: channel.send(Logged(line)))
        start: Start = channel.receive()
        worker = LocalWorker(Guard(margins=start.margins))
        commands = _Commands(channel, worker)
        while (command := commands.next()) is not None:
            _bound_memory()
            channel.send(_answer(worker, command, channel, commands))
            if isinstance(command, Shutdown):
                break


def _answer(
    worker: LocalWorker, command: Command | ProtocolError, channel: Channel, commands: _Commands
) -> Event:
    if isinstance(command, ProtocolError):
        # A number outside of its range: messages are checked on their way.
        return EngineFailed(error=UsageError(f"the engine cannot run this: {command}"), trace=None)
    try:
        return worker.execute(command, channel.send, commands.is_cancelled)
    except SpectuiError as error:
        return EngineFailed(error=error, trace=None)
    except Exception as error:
        if tells_no_memory("".join(traceback.format_exception(error))):
            # The process ends: in the next one nothing holds what this command had already taken.
            raise MemoryError from error
        return EngineFailed.defect(error)


def _end_with_parent() -> None:
    """Be killed with the thread that started this, even where this process is stopped."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _end_before_others() -> None:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")


def _bound_memory() -> None:
    """Have no more than the machine can give: then llama.cpp says so, and nothing is killed.

    Stacks of threads and heaps are reserved, and hardly used: there is room for them beside that.
    The bound grows with what others give back meanwhile, and never falls. Drivers of GPUs reserve
    far more than they use, so that no such limit can be set beside one.
    """
    if has_gpu():
        return
    free = host_memory()
    most = psutil.Process().memory_info().data + free.free_bytes + free.slow_bytes
    most += _RESERVED_BYTES + 2 * (os.cpu_count() or 1) * _STACK_BYTES
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        most = max(most, soft)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


if __name__ == "__main__":
    main()
