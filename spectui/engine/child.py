"""The process with the models: executes the commands of ``spectui.engine.isolation``.

``python -m spectui.engine.child FD`` answers each command that comes over the connection.
An abort in llama.cpp, or the kernel's out-of-memory killer, ends this process but not the program.
"""

import ctypes
import queue
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from spectui.children import Channel, ProtocolError, parent_channel
from spectui.engine.commands import Command
from spectui.engine.events import EngineFailed, Event, Sink
from spectui.engine.worker import LocalWorker
from spectui.errors import UsageError
from spectui.llama.log import native_log

_SET_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of ``prctl``."""
_OOM_SCORE = "900"
"""``oom_score_adj``, at most 1000: out of memory, the kernel kills this process before others."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancels the command that was sent last, if it still runs."""


_Waiting = queue.SimpleQueue[Command | ProtocolError | None]


def receive(channel: Channel, worker: LocalWorker, waiting: _Waiting) -> None:
    """Queue commands as they come, and None once the parent is gone.

    A command is sent once the one before it was answered: so a cancellation, which goes past the
    queue, is of the last one.
    """
    try:
        while True:
            message: Command | Cancel | ProtocolError
            try:
                message = channel.receive()
            except ProtocolError as error:
                message = error
            worker.interrupt(on=isinstance(message, Cancel))
            if not isinstance(message, Cancel):
                waiting.put(message)
    except EOFError:
        pass
    finally:
        # Nothing more is received either where there was no memory for a message.
        waiting.put(None)


def main() -> None:
    """Answer commands until the connection closes."""
    with parent_channel((*get_args(Command), Cancel)) as channel, suppress(OSError):
        _end_with_parent()
        _be_first_killed()
        # A text is a line of llama.cpp's log.
        native_log.listen(channel.send)
        worker, waiting = LocalWorker(), _Waiting()
        threading.Thread(target=receive, args=(channel, worker, waiting), daemon=True).start()
        while (command := waiting.get()) is not None:
            channel.send(answer(worker, command, channel.send))


def answer(worker: LocalWorker, command: Command | ProtocolError, sink: Sink) -> Event:
    """Execute a command; its failure is an answer as well.

    Raises:
        MemoryError: there is none, which ends the process: in the next one nothing holds what this
            command had already taken.
    """
    if isinstance(command, ProtocolError):
        # A number outside of its range: messages are checked on their way.
        return EngineFailed.of(UsageError(f"the engine cannot run this: {command}"))
    try:
        return worker.execute(command, sink)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the event tells all
        return EngineFailed.of(error)


def _end_with_parent() -> None:
    """Be killed with the thread that started this, even where this process is stopped."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _be_first_killed() -> None:
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")


if __name__ == "__main__":
    main()
