"""The owner thread: takes the commands of its clients one by one, answers each with events."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

from spectui.engine.commands import (
    Command,
    ComparePair,
    Generate,
    GeneratePair,
    LoadDraft,
    LoadTarget,
    ProbeExperts,
    ProbeMargin,
    RecordChains,
    Shutdown,
    Tokenize,
    UnloadDraft,
)
from spectui.engine.events import (
    CommandRestarted,
    DraftUnloaded,
    EngineClosed,
    EngineFailed,
    Event,
    GenerationFinished,
    LoadProgress,
    LoadWarned,
    ModelLoaded,
    Role,
    Tokenized,
)
from spectui.engine.fit import beside
from spectui.engine.generation import Generation, probe_margin
from spectui.engine.guard import Guard
from spectui.engine.inspection import Inspector, probe_experts, record
from spectui.engine.models import LoadedModels
from spectui.engine.pairing import PairGeneration
from spectui.engine.templates import Templates
from spectui.errors import CancelledError, SpectuiError, UsageError
from spectui.llama.context import AbortFlag
from spectui.llama.library import aborts
from spectui.llama.planned import PlanRequest, are_of_rpc
from spectui.options.setup import ModelOptions
from spectui.speculative.decoder import Stop

Sink = Callable[[Event], None]

_LOST = "llama.cpp gave up ({why}); start spectui again, and tell llama.cpp's developers"
_LOST_SERVER = (
    "an RPC server went away, or answered what llama.cpp cannot read; start it again, and spectui"
)
_FOR_GOOD = sys.maxsize
"""Number that no command reaches."""


class Priority(IntEnum):
    """Priority of commands. Within one priority the order of submission counts."""

    INTERACTIVE = 0
    """A person waits. What runs in the background gives way at once and is begun again later."""
    BACKGROUND = 1
    LAST = 2
    """Closing: everything else has been answered before."""


class EngineClient:
    """One user of the engine: its commands in, its events out. Safe to call from any thread."""

    def __init__(self, engine: "EngineThread", sink: Sink, priority: Priority) -> None:
        """Use ``EngineThread.connect``."""
        self._engine = engine
        self.sink = sink
        self.priority = priority
        self.held = False
        self.n_stopped = 0
        """Commands up to this number are cancelled."""
        self.n_interruptions = 0
        """Number of times that another client's command began, or this client was held."""
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

    def hold(self) -> None:
        """Let nothing of this client run until ``release``; what runs is begun again then."""
        self._engine.hold(self, held=True)

    def release(self) -> None:
        """Go on."""
        self._engine.hold(self, held=False)

    def tell(self, event: Event) -> None:
        """Call the sink. One that raises is told so, and the engine lives on for the others."""
        try:
            self.sink(event)
        except Exception as error:  # noqa: BLE001 - the thread must live on; the event tells all
            self._tell_defect(error)

    def _tell_defect(self, error: Exception) -> None:
        try:
            self.sink(_defect(error))
        except Exception:  # noqa: BLE001 - it takes nothing any more
            args = (*sys.exc_info(), threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(args))


@dataclass(slots=True, kw_only=True)
class _Job:
    number: int
    command: Command
    client: EngineClient
    since_s: float
    """When it was submitted or, once it runs, began."""
    preempted: bool = False
    """It gives way to another client, or to its own being held."""

    @property
    def stopped(self) -> bool:
        return self.number <= self.client.n_stopped

    @property
    def cancelled(self) -> bool:
        return self.stopped or self.preempted

    @property
    def runnable(self) -> bool:
        # A cancelled command is answered even where its client is held: somebody waits for it.
        return self.stopped or not self.client.held


class EngineThread:
    """Owns every native object, and lets one client at a time use them."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, guard: Guard | None = None
    ) -> None:
        """Start the thread.

        Args:
            clock: times how long commands wait.
            guard: is asked before anything is loaded; None for one that reads what is free now.
        """
        self._clock = clock
        self._abort = AbortFlag()
        self._models = LoadedModels(self._abort)
        self._guard = guard or Guard()
        self._templates = Templates()
        self._request: PlanRequest | None = None
        """Request of the target that was loaded last."""
        self._inspector = Inspector(self._guard, lambda: self._models.buffers)
        self._changed = threading.Condition(threading.RLock())
        self._pending: list[_Job] = []
        self._running: _Job | None = None
        self._clients: list[EngineClient] = []
        self._n_submitted = 0
        self._is_closing = False
        self._closed = False
        self._lost: SpectuiError | None = None
        """Why the thread does not come back from llama.cpp."""
        self._over = threading.Event()
        """Set once nothing more is to be waited for: it has ended, or is lost."""
        aborts.listen(self._lose)
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
        """Queue ``command``. What has less priority gives way. A lost engine answers at once.

        Raises:
            UsageError: the engine is closed.
        """
        with self._changed:
            lost = self._lost
            if lost is None:
                if self._closed:
                    raise UsageError("the engine is closed; start another one")
                if self._is_closing:
                    # Answered as cancelled: who submits it, a sink perhaps, cannot know yet.
                    self.stop(client, for_good=True)
                self._enqueue(client, command)
        if lost is not None:
            client.tell(EngineFailed(error=lost, trace=None))

    def _enqueue(self, client: EngineClient, command: Command) -> None:
        self._n_submitted += 1
        now_s = self._clock()
        self._pending.append(
            _Job(number=self._n_submitted, command=command, client=client, since_s=now_s)
        )
        running = self._running
        if running is not None and client.priority < running.client.priority and not client.held:
            self._preempt(running)
        self._changed.notify()

    def stop(self, client: EngineClient, *, for_good: bool = False) -> None:
        """Cancel all commands that ``client`` has submitted so far, or ever will."""
        with self._changed:
            if client.n_stopped != _FOR_GOOD:
                client.n_stopped = _FOR_GOOD if for_good else self._n_submitted
            if self._running is not None and self._running.stopped:
                self._abort.set()
            self._changed.notify()

    def hold(self, client: EngineClient, *, held: bool) -> None:
        """Let ``client``'s commands wait, or go on."""
        with self._changed:
            client.held = held
            if held:
                client.n_interruptions += 1
            if held and self._running is not None and self._running.client is client:
                self._preempt(self._running)
            self._changed.notify()

    def _preempt(self, job: _Job) -> None:
        job.preempted = True
        self._abort.set()

    def close(self) -> None:
        """Cancel everything, free the models, wait for the thread, unless it is lost."""
        with self._changed:
            if not self._is_closing:
                self._is_closing = True
                clients = tuple(self._clients)
                for client in clients:
                    self.stop(client)
                last = EngineClient(self, _tell(clients), Priority.LAST)
                self._enqueue(last, Shutdown())
        self._over.wait()
        if self._lost is None:
            self._thread.join()
            aborts.forget(self._lose)

    def _lose(self, why: str) -> bool:
        """Answer everything that was asked: the running command never ends."""
        with self._changed:
            waiting = (*(() if self._running is None else (self._running,)), *self._pending)
            self._pending.clear()
            self._closed = self._is_closing = True
            if self._lost is None:
                self._lost = SpectuiError(
                    _LOST_SERVER if are_of_rpc(why) else _LOST.format(why=why)
                )
            self._running = None
        for job in waiting:
            job.client.tell(EngineFailed(error=self._lost, trace=None))
        self._over.set()
        return True

    def _run(self) -> None:
        while True:
            job = self._next()
            event = self._answer(job)
            with self._changed:
                if self._lost is not None:
                    return
                self._running = None
                restart = job.preempted and not job.stopped and _was_cut(event)
                if restart:
                    job.preempted = False
                    self._pending.append(job)
            job.client.tell(CommandRestarted() if restart else event)
            if isinstance(job.command, Shutdown):
                self._over.set()
                return

    def _next(self) -> _Job:
        with self._changed:
            while not (runnable := [job for job in self._pending if job.runnable]):
                self._changed.wait()
            job = min(runnable, key=lambda job: (job.client.priority, job.number))
            self._pending.remove(job)
            self._begin(job)
            return job

    def _begin(self, job: _Job) -> None:
        self._running = job
        if isinstance(job.command, Shutdown):
            self._closed = True
        now_s = self._clock()
        job.client.waited_s += now_s - job.since_s
        job.since_s = now_s
        for client in self._clients:
            if client is not job.client:
                client.n_interruptions += 1
        if job.cancelled:
            self._abort.set()
        else:
            self._abort.clear()

    def _answer(self, job: _Job) -> Event:
        try:
            if job.stopped and not isinstance(job.command, Shutdown):
                raise CancelledError("cancelled before it began")  # noqa: TRY301 - answered as any
            return self._execute(job)
        except SpectuiError as error:
            return EngineFailed(error=error, trace=None)
        except Exception as error:  # noqa: BLE001 - the thread must live on; the event tells all
            return _defect(error)

    def _execute(self, job: _Job) -> Event:
        models, command = self._models, job.command

        def cancelled() -> bool:
            return job.cancelled

        match command:
            case LoadTarget() | LoadDraft():
                return self._load(command, job.client.sink, cancelled)
            case UnloadDraft():
                models.unload_draft()
                return DraftUnloaded()
            case ComparePair():
                return self._inspector.compare(command, cancelled)
            case Tokenize():
                return self._tokenize(command)
            case Generate():
                return Generation(models, command, job.client.sink, cancelled).run()
            case GeneratePair():
                return PairGeneration(models, command, job.client.sink, cancelled).run()
            case ProbeMargin() | RecordChains() | ProbeExperts():
                return self._look(command, cancelled)
            case Shutdown():
                self._guard.close()
                self._templates.close()
                self._inspector.close()
                models.close()
                return EngineClosed()

    def _look(
        self, command: ProbeMargin | RecordChains | ProbeExperts, cancelled: Callable[[], bool]
    ) -> Event:
        match command:
            case ProbeMargin():
                return probe_margin(self._models, command)
            case RecordChains():
                return record(self._models, command, cancelled)
            case ProbeExperts():
                return probe_experts(self._models, command)

    def _load(
        self, command: LoadTarget | LoadDraft, sink: Sink, cancelled: Callable[[], bool]
    ) -> ModelLoaded:
        def progress(role: Role, options: ModelOptions, fraction: float) -> None:
            sink(LoadProgress(role=role, path=options.path, fraction=fraction))

        models = self._models
        if isinstance(command, LoadTarget):
            # Free memory counts once what makes room is gone.
            models.close()
            self._request = PlanRequest(
                target=command.options,
                draft=command.draft,
                mtp=command.mtp if command.draft is None else command.mtp_file,
                context=command.context,
                max_draft=command.max_draft,
            )
            command = self._placed(command, sink)
            self._ask_guard(self._request, command, sink)
            models.load_target(command, progress, cancelled)
            return self._loaded(Role.TARGET, sink)
        models.unload_draft()
        if self._request is not None and models.target_model is not None:
            command = replace(command, options=beside(self._request.target, command.options))
            pair = replace(self._request, draft=command.options, mtp=command.mtp)
            self._ask_guard(pair, command, sink)
        models.load_draft(command, progress, cancelled)
        return self._loaded(Role.DRAFT, sink)

    def _placed(self, command: LoadTarget, sink: Sink) -> LoadTarget:
        """The command with the placement that ``--fit`` chooses, where it is open."""
        if self._request is None:
            return command
        self._request, sentence = self._guard.place(self._request)
        if sentence is not None:
            sink(LoadWarned(warning=sentence))
        return replace(command, options=self._request.target)

    def _ask_guard(self, request: PlanRequest, command: LoadTarget | LoadDraft, sink: Sink) -> None:
        """Have the guard refuse what has no room, before anything is allocated.

        Raises:
            DoesNotFitError: it does.
        """
        has_target = isinstance(command, LoadDraft)
        warning = self._guard.check(request, has_target=has_target, from_disk=command.from_disk)
        if warning is not None:
            sink(LoadWarned(warning=warning))

    def _loaded(self, role: Role, sink: Sink) -> ModelLoaded:
        models = self._models
        for warning in models.warnings(role):
            sink(LoadWarned(warning=warning))
        context = models.target if role is Role.TARGET else models.draft_context
        return ModelLoaded(
            role=role,
            info=context.model.info,
            rollback=context.rollback,
            n_ctx=context.n_ctx,
            memory=models.memory[role],
            mtp_layers=models.mtp_layers(role),
        )

    def _tokenize(self, command: Tokenize) -> Tokenized:
        model = self._models.target_model
        if model is None:
            raise UsageError("no target is loaded; give one with -m")
        text = (
            command.text
            if command.text is not None
            else self._templates.render(model, command.messages)
        )
        return Tokenized(tokens=model.vocabulary.tokenize(text))


def _defect(error: Exception) -> EngineFailed:
    message = f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    return EngineFailed(error=SpectuiError(message), trace=trace)


def _was_cut(event: Event) -> bool:
    """Whether an answer reports a cancellation instead of a result."""
    match event:
        case GenerationFinished():
            return event.result.stop is Stop.CANCELLED
        case EngineFailed():
            return isinstance(event.error, CancelledError)
        case _:
            return False


def _tell(clients: tuple[EngineClient, ...]) -> Sink:
    """Sink that hands an event to every client."""

    def tell(event: Event) -> None:
        for client in clients:
            client.tell(event)

    return tell
