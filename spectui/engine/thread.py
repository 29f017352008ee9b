"""The owner thread: takes the commands of its clients one by one, answers each with events."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from spectui.engine.commands import Command, Shutdown
from spectui.engine.events import EngineFailed, Event, GenerationResult, Sink
from spectui.engine.worker import Worker
from spectui.errors import CancelledError, UsageError
from spectui.speculative.decoder import Stop


class Priority(IntEnum):
    """Priority of commands. Within one priority the order of submission counts."""

    INTERACTIVE = 0
    """A person waits. What runs in the background gives way at once and is begun again later."""
    BACKGROUND = 1


class EngineClient:
    """One user of the engine: its commands in, its events out. Safe to call from any thread."""

    def __init__(self, engine: "EngineThread", sink: Sink, priority: Priority) -> None:
        """Use ``EngineThread.connect``."""
        self._engine = engine
        self.sink = sink
        self.priority = priority
        self.has_quit = False
        self.waited_s = 0.0
        """Seconds that its commands waited for their turn, runs that gave way included."""

    def submit(self, command: Command) -> None:
        """Queue ``command``.

        Raises:
            UsageError: the engine is closed.
        """
        self._engine.submit(self, command)

    def stop(self) -> None:
        """Cancel all commands submitted so far, the running one within a graph node."""
        self._engine.stop(self)

    def quit(self) -> None:
        """Cancel all commands, those yet to come included."""
        self._engine.stop(self, for_good=True)

    def deliver(self, event: Event) -> None:
        """Call the sink. If it raises, it gets an ``EngineFailed``; the engine's thread goes on."""
        try:
            try:
                self.sink(event)
            except Exception as error:  # noqa: BLE001 - the event tells all
                self.sink(EngineFailed.of(error))
        except Exception:  # noqa: BLE001 - the thread must live on; it takes nothing any more
            args = (*sys.exc_info(), threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(args))


@dataclass(slots=True, kw_only=True)
class _Job:
    command: Command
    client: EngineClient
    since_s: float
    """When it was submitted or, once it runs, began."""
    stopped: bool
    """It is answered as cancelled."""
    preempted: bool = False
    """The work gives way to another client."""

    @property
    def cancelled(self) -> bool:
        return self.stopped or self.preempted


class EngineThread:
    """Has a worker execute the commands of all clients on one thread, one at a time."""

    def __init__(self, worker: Worker, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start the thread.

        Args:
            worker: executes the commands.
            clock: times how long commands wait.
        """
        self._clock = clock
        self._worker = worker
        self._changed = threading.Condition(threading.RLock())
        self._pending: list[_Job] = []
        self._running: _Job | None = None
        self._clients: list[EngineClient] = []
        self._is_closing = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="spectui-engine", daemon=True)
        self._thread.start()

    def connect(self, sink: Sink, priority: Priority = Priority.INTERACTIVE) -> EngineClient:
        """Return a new client; ``sink`` is called on the engine's thread with its every event."""
        client = EngineClient(self, sink, priority)
        with self._changed:
            self._clients.append(client)
        return client

    def disconnect(self, client: EngineClient) -> None:
        """Cancel what ``client`` still has to do, and forget it."""
        self.stop(client)
        with self._changed:
            self._clients.remove(client)

    def submit(self, client: EngineClient, command: Command) -> None:
        """Queue ``command``. What has less priority gives way.

        Raises:
            UsageError: the engine is closed.
        """
        with self._changed:
            if self._closed:
                raise UsageError("the engine is closed; start another one")
            # Answered as cancelled: the caller, a sink perhaps, cannot know yet.
            stopped = client.has_quit or self._is_closing
            job = _Job(command=command, client=client, since_s=self._clock(), stopped=stopped)
            self._pending.append(job)
            running = self._running
            if running and client.priority < running.client.priority:
                running.preempted = True
                self._worker.interrupt(on=True)
            self._changed.notify()

    def stop(self, client: EngineClient, *, for_good: bool = False) -> None:
        """Cancel all commands that ``client`` has submitted so far, or ever will."""
        with self._changed:
            client.has_quit = client.has_quit or for_good
            for job in self._pending:
                job.stopped = job.stopped or job.client is client
            if self._running is not None and self._running.client is client:
                self._running.stopped = True
                self._worker.interrupt(on=True)
            self._changed.notify()

    def close(self) -> None:
        """Cancel everything, free the models, wait for the thread."""
        with self._changed:
            self._is_closing = True
            for client in self._clients:
                self.stop(client)
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            event = self._answer(job)
            with self._changed:
                self._running = None
                if job.preempted and not job.stopped and _is_cancelled(event):
                    # It begins again: its events so far are void.
                    job.preempted = False
                    self._pending.insert(0, job)
                    continue
            job.client.deliver(event)
        self._worker.interrupt(on=False)
        event = self._executed(Shutdown(), lambda _event: None)
        for client in tuple(self._clients):
            client.deliver(event)

    def _next(self) -> _Job | None:
        """Wait for what is to be done next; None once the engine closes and all is answered."""
        with self._changed:
            while not self._pending:
                if self._is_closing:
                    self._closed = True
                    return None
                self._changed.wait()
            job = self._running = min(self._pending, key=lambda job: job.client.priority)
            self._pending.remove(job)
            now_s = self._clock()
            job.client.waited_s += now_s - job.since_s
            job.since_s = now_s
            self._worker.interrupt(on=job.cancelled)
            return job

    def _answer(self, job: _Job) -> Event:
        if job.stopped:
            return EngineFailed.of(CancelledError("cancelled before it began"))
        return self._executed(job.command, job.client.sink)

    def _executed(self, command: Command, sink: Sink) -> Event:
        try:
            return self._worker.execute(command, sink)
        except Exception as error:  # noqa: BLE001 - the thread must live on; the event tells all
            return EngineFailed.of(error)


def _is_cancelled(event: Event) -> bool:
    """Whether an answer reports a cancellation instead of a result."""
    if isinstance(event, GenerationResult):
        return event.stop is Stop.CANCELLED
    return isinstance(event, EngineFailed) and isinstance(event.error, CancelledError)
