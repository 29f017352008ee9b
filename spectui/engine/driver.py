"""The headless driver: the engine as plain calls that return or raise."""

import queue
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from spectui.closing import Closing
from spectui.engine import commands, events
from spectui.engine.isolation import ProcessWorker
from spectui.engine.thread import EngineThread, Priority
from spectui.engine.worker import Worker
from spectui.interrupts import interrupts
from spectui.options.setup import OWN_TEMPLATE, ModelOptions, Rendering
from spectui.trace.routing import Routing

T = TypeVar("T")
_INTERRUPTIBLE_S = 0.1
"""Seconds between checks for an interrupt while a call emits no events."""


class Engine(Closing):
    """Drives an ``EngineThread`` from one caller. Events pass by ``on_event`` on the way.

    An interrupt (Ctrl-C) while a call waits, or an exception of ``on_event``, stops the engine's
    work and is raised again once the engine is idle.
    """

    n_beside_off: int | None = None
    """Settings that take turns with the target alone: as many as share a draft."""
    rendering: Rendering = OWN_TEMPLATE
    """How conversations are made prompts."""

    def __init__(
        self,
        on_event: events.Sink = lambda _event: None,
        *,
        shared: EngineThread | None = None,
        worker: Worker | None = None,
        from_disk: bool = False,
    ) -> None:
        """Connect to an engine.

        Args:
            on_event: called on the caller's thread.
            from_disk: whether it loads models even if weights will be read from disk again and
                again.
            shared: an engine that other callers use as well, whose commands go first; None starts
                an own one, which ends with ``close``.
            worker: executes the commands of an engine of its own; None for a process of its own.
        """
        self.on_event = on_event
        self.check: Callable[[], None] = lambda: None
        """Called ten times a second while a call waits; what it raises ends the call, as an
        interrupt does."""
        self._events: queue.SimpleQueue[events.Event] = queue.SimpleQueue()
        self._is_shared = shared is not None
        self._from_disk = from_disk
        self._thread = shared or EngineThread(worker or ProcessWorker())
        priority = Priority.BACKGROUND if self._is_shared else Priority.INTERACTIVE
        self.client = self._thread.connect(self._events.put, priority)
        self._n_unanswered = 0

    def load_target(self, command: commands.LoadTarget) -> events.ModelLoaded:
        """Load the target as a command has it. Raises what the engine failed with."""
        return self._call(replace(command, from_disk=self._from_disk), events.ModelLoaded)

    def load_draft(self, options: ModelOptions, *, mtp: bool = False) -> events.ModelLoaded:
        """Load a draft in place of the last one. Raises what the engine failed with."""
        command = commands.LoadDraft(options=options, mtp=mtp, from_disk=self._from_disk)
        return self._call(command, events.ModelLoaded)

    def unload_draft(self) -> None:
        """Free the draft."""
        self._call(commands.UnloadDraft(), events.Done)

    def tokenize(self, command: commands.Tokenize) -> tuple[int, ...]:
        """Tokens of a text or a conversation."""
        return self._call(replace(command, rendering=self.rendering), events.Tokenized).tokens

    def generate(self, command: commands.Generate) -> events.GenerationResult:
        """Run a generation to its end."""
        return self._call(command, events.GenerationResult)

    def write_answers(
        self, command: commands.WriteAnswers, on_answer: Callable[[events.AnswerWritten], None]
    ) -> None:
        """Continue several prompts. After a restart, answers are reported again.

        Args:
            command: the prompts.
            on_answer: called with each complete answer.
        """

        def sink(event: events.Event) -> None:
            if isinstance(event, events.AnswerWritten):
                on_answer(event)
            self.on_event(event)

        self._call(command, events.Done, sink)

    def read_answer(self, command: commands.ReadAnswer) -> events.AnswerRead:
        """Read an answer that is there already."""
        return self._call(command, events.AnswerRead)

    def generate_pair(self, command: commands.GeneratePair) -> events.PairGenerated:
        """Run a generation without and with speculation, in turns."""
        return self._call(command, events.PairGenerated)

    def probe_margin(self, command: commands.ProbeMargin) -> events.MarginProbed:
        """Probe how clear the target's choice after a text is."""
        return self._call(command, events.MarginProbed)

    def record_chains(self, command: commands.RecordChains) -> events.ChainsRecorded:
        """Record what a drafter would propose at every position of an output."""
        return self._call(command, events.ChainsRecorded)

    def read_experts(self, command: commands.ReadExperts) -> Routing:
        """Read which experts answers use; a target without experts has no layers of them."""
        return self._call(command, Routing)

    @property
    def waited_s(self) -> float:
        """Seconds that the calls waited for others, or were held, with discarded work."""
        return self.client.waited_s

    def stop(self) -> None:
        """Cancel the running call. May be called from another thread or a signal handler."""
        self.client.stop()

    def close(self) -> None:
        """Free the models and end the thread; of a shared engine, only let go."""
        if self._is_shared:
            self._thread.disconnect(self.client)
        else:
            self._thread.close()

    def _call(self, command: commands.Command, kind: type[T], sink: events.Sink | None = None) -> T:
        self._drain()
        try:
            # An interrupt between the two would leave an answer that nobody waits for.
            with interrupts.deferred():
                self.client.submit(command)
                self._n_unanswered += 1
            while not isinstance(answer := self._next(self.check), events.Answer):
                (sink or self.on_event)(answer)
        except BaseException:
            # An interrupt, or a failure of on_event or check.
            self.client.stop()
            self._drain()
            raise
        if isinstance(answer, events.EngineFailed):
            if answer.trace is not None:
                answer.error.add_note(answer.trace)
            raise answer.error
        if not isinstance(answer, kind):
            raise TypeError(f"the engine answered {command} with {answer}")
        return answer

    def _next(self, check: Callable[[], None] = lambda: None) -> events.Event:
        while True:
            check()
            # An interrupt after the get would lose an answer, and the caller would wait for ever.
            with interrupts.deferred(), suppress(queue.Empty):
                event = self._events.get(timeout=_INTERRUPTIBLE_S)
                if isinstance(event, events.Answer):
                    self._n_unanswered -= 1
                return event

    def _drain(self) -> None:
        """Wait out a call that was left early: its events must not answer the next one."""
        while self._n_unanswered:
            self._next()
