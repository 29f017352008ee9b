"""The engine as a live session uses it: load a pair, chat, measure the baseline, tune beside it.

No screen here. Calls come from one thread and return at once; what happens is told to the sink on
the engine's or the search's thread.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from spectui.cores import default_threads
from spectui.engine import events
from spectui.engine.commands import Generate, LoadDraft, LoadTarget, Tokenize
from spectui.engine.driver import Engine
from spectui.engine.isolation import ProcessWorker
from spectui.engine.thread import EngineThread, Priority
from spectui.errors import CancelledError, EngineDiedError, UsageError
from spectui.live.pair import LoadedPair, PairInspector, SearchRequest, max_draft, tuning_setup
from spectui.live.recording import ChatRecorder, ChatRecording
from spectui.live.setup import BaselineMeasured, ChatRecorded, LiveSetup, ModelsLost, RamMeasured
from spectui.monitor.dram import RamGauge
from spectui.options.setup import GREEDY, ModelOptions
from spectui.trace.costs import MAX_DEPTH
from spectui.tune.backends import OwnEngine
from spectui.tune.background import BackgroundTuning
from spectui.tune.candidates import drafter_name
from spectui.tune.progress import TuningState
from spectui.tune.tuning import Tuning

SessionEvent = (
    events.Event | BaselineMeasured | RamMeasured | TuningState | ChatRecorded | ModelsLost
)
T = TypeVar("T")
_BASELINE_TOKENS = 24
_BASELINE_TEXT = (
    "The lighthouse stood at the end of a long stone pier. Every evening the keeper climbed the "
    "stairs, lit the lamp, and wrote the weather of the day into a book."
)


class IdleBaseline:
    """Measures the target alone, from one load of it to the next."""

    def __init__(self, engine: EngineThread, on_event: Callable[[events.Event], None]) -> None:
        """Ask nothing yet.

        Args:
            engine: runs the measurements.
            on_event: is told of every event, on the engine's thread; hands it to ``measured``.
        """
        self.client = engine.connect(on_event, Priority.BACKGROUND)
        self._is_warm = False
        """Whether the target has decoded something since it was loaded."""
        self._is_under_way = False
        """Whether one is asked for and has not ended."""

    def measure(self) -> None:
        """Measure in idle time, after what is waiting there already; one at a time."""
        if not self._is_under_way:
            self._is_under_way = True
            self.client.submit(Tokenize(text=_BASELINE_TEXT))

    def measured(self, event: events.Event) -> BaselineMeasured | None:
        """Go on with a measurement; return what one that ended has found."""
        match event:
            case events.Tokenized():
                self.client.submit(
                    Generate(
                        prompt=event.tokens,
                        n_predict=_BASELINE_TOKENS + 1,
                        sampling=replace(GREEDY, ignore_eos=True),
                    )
                )
            case events.GenerationResult() if not self._is_warm:
                # The first tokens after a load are slower than the rest: they touch the weights.
                self._is_warm = True
                self.client.submit(Tokenize(text=_BASELINE_TEXT))
            case events.GenerationResult():
                self._is_under_way = False
                counters, speed = event.counters, event.tokens_per_s
                if speed is not None and counters.n_rounds:
                    step_s = counters.times.verify_s / counters.n_rounds
                    return BaselineMeasured(tokens_per_s=speed, step_s=step_s)
            case events.EngineFailed():
                # Cancelled, or no target any more: there is no baseline then.
                self._is_under_way = False
        return None


class LiveSession:
    """Owns the engine of one screen."""

    def __init__(
        self,
        sink: Callable[[SessionEvent], None],
        discard: Callable[[], None] = lambda: None,
        *,
        make_gauge: Callable[[Callable[[float], None]], RamGauge] = RamGauge,
    ) -> None:
        """Start an engine with nothing loaded.

        Args:
            sink: told what happens; quick and thread-safe.
            discard: drops what was told but not taken yet: it belongs to a pair that is going.
            make_gauge: makes what measures the limit of the RAM.
        """
        self._post = sink
        self._discard = discard
        self._worker = ProcessWorker()
        self._engine = EngineThread(self._worker)
        self.inspector = PairInspector(self._engine, sink)
        self._lock = threading.RLock()
        self._epoch = 0
        """Counts the pairs; what is told of an earlier one is void."""
        self._connect()
        self._turn: Generate | None = None
        """The answer that is asked for, while its prompt is tokenized."""
        self.tuning: BackgroundTuning | None = None
        """The last search of the present pair."""
        self._pair = LoadedPair()
        self._recorder: ChatRecorder | None = None
        self.records_chats = True
        """Whether answers are recorded; to be told before a pair is loaded."""
        self._gauge = make_gauge(lambda limit: sink(RamMeasured(bytes_per_s=limit)))
        self._n_threads = 1
        self._command: LoadTarget | None = None
        """Loads the target of the present pair; None before the first."""

    @property
    def max_draft(self) -> int:
        """Longest draft that the target was loaded for."""
        return 0 if self._command is None else self._command.max_draft

    @property
    def process(self) -> int | None:
        """Id of the process with the models; None while there is none."""
        return self._worker.pid

    def _connect(self) -> None:
        """Begin an epoch: clients whose events count only as long as it lasts."""
        self._chat = self._engine.connect(self._of_epoch(self._on_chat))
        self._idle = IdleBaseline(self._engine, self._of_epoch(self._on_background))

    def _of_epoch(self, handler: Callable[[T], None]) -> Callable[[T], None]:
        """A handler of events that is called as long as the present epoch lasts."""
        epoch = self._epoch

        def handle(event: T) -> None:
            with self._lock:
                if epoch == self._epoch:
                    handler(event)

        return handle

    def load(self, setup: LiveSetup, *, from_disk: bool = False) -> None:
        """Load the target in place of the loaded one, whatever that one is doing.

        Answered by ``ModelLoaded`` or ``EngineFailed``.

        Args:
            setup: the pair; its draft has to have room as well.
            from_disk: whether weights may be read from disk again and again.

        Raises:
            UsageError: the batch has no room for a draft.
        """
        is_mtp = setup.speculation is not None and setup.speculation.is_mtp
        command = self._command = LoadTarget(
            options=setup.target,
            context=setup.context,
            max_draft=max_draft(setup),
            mtp=is_mtp and not setup.has_mtp_file,
            mtp_file=setup.has_mtp_file,
            draft=setup.draft,
            from_disk=from_disk,
        )
        self._n_threads = setup.context.threads or default_threads()
        # Outside the lock: a search holds its own while it tells of a change, which waits for ours.
        if self.tuning is not None:
            self.tuning.stop()
        with self._lock:
            self._epoch += 1
            self._discard()
            for client in (self._chat, self._idle.client):
                client.quit()
                self._engine.disconnect(client)
            self.inspector.forget()
            self._end_recording()
            self.tuning = self._turn = None
            self._pair = LoadedPair()
            self._connect()
            self._post(TuningState())
            self._post(ChatRecorded(recording=None))
            self._chat.submit(command)

    def load_draft(self, options: ModelOptions, *, mtp: bool = False) -> None:
        """Load a draft beside the target, or MTP layers as their file has them.

        Answered by ``ModelLoaded`` or ``EngineFailed``.
        """
        from_disk = self._command is not None and self._command.from_disk
        self._chat.submit(LoadDraft(options=options, mtp=mtp, from_disk=from_disk))

    def measure_baseline(self) -> None:
        """Measure the target alone in the engine's idle time. Answered by ``BaselineMeasured``."""
        self._idle.measure()

    def send(
        self, setup: LiveSetup, messages: tuple[tuple[str, str], ...], text: str | None = None
    ) -> None:
        """Continue a conversation, or a raw ``text``. Answered by ``GenerationResult``."""
        turn = Generate(
            prompt=(),
            n_predict=setup.n_predict,
            sampling=setup.sampling,
            speculation=self._pair.usable(setup.speculation),
            conversation=True,
        )
        with self._lock:
            self._turn = turn
            self._chat.submit(Tokenize(text=text, messages=messages, rendering=setup.rendering))

    def stop(self) -> None:
        """Cancel what the chat has under way: a load or an answer."""
        with self._lock:
            self._turn = None
            self._chat.stop()

    def start_tuning(self, setup: LiveSetup, request: SearchRequest) -> None:
        """Begin, or go on with, the study of the loaded pair, which has this setup."""
        target, command = self._pair.target, self._command
        if target is None or command is None:
            raise ValueError("tuning needs a loaded target")
        if self.tuning is not None and self.tuning.state.is_running:
            raise UsageError("a search is still running; stop it first")
        candidate, keeps_trace = self._pair.candidate(setup), self.records_chats
        draft = None if candidate is None else candidate.name

        def prepare(engine: Engine, say: Callable[[str], None]) -> Tuning:
            began_s = time.monotonic()
            search = tuning_setup(request, setup, target, candidate, engine, say=say)
            return Tuning(
                search,
                OwnEngine(engine, target, command, draft=draft, keeps_trace=keeps_trace),
                spent_s=time.monotonic() - began_s - engine.waited_s,
            )

        # It would hold up the prompts, and is measured again when the search has ended.
        self._idle.client.stop()
        self.tuning = BackgroundTuning(self._engine, prepare, self._of_epoch(self._on_tuning))

    def _on_tuning(self, state: TuningState) -> None:
        self._post(state)
        if not state.is_running:
            # The machine is not what it was when the search began.
            self.measure_baseline()

    def close(self) -> None:
        """Cancel everything and free the models."""
        self.stop()
        for client in (self._chat, self._idle.client, self.inspector.client):
            client.quit()
        self._end_recording()
        if self.tuning is not None:
            self.tuning.close()
        self._gauge.close()
        self._engine.close()

    def _on_chat(self, event: events.Event) -> None:
        match event:
            case events.Tokenized():
                self._generate(event.tokens)
                return
            case events.ModelLoaded():
                self._pair.add(event)
                self._begin_recording()
        self._post(event)
        if isinstance(event, events.GenerationResult):
            self._gauge.ask(self._n_threads)
        if self._recorder is not None:
            self._recorder.hear(event)

    def _begin_recording(self) -> None:
        """Start recording answers with the present drafter, if any: each load may change it."""
        self._end_recording()
        drafter, target = self._pair.drafter, self._pair.target
        if not self.records_chats or drafter is None or target is None:
            return

        def on_change(recording: ChatRecording) -> None:
            with self._lock:
                if recorder is self._recorder:
                    self._post(ChatRecorded(recording=recording))

        self._recorder = recorder = ChatRecorder(
            self._engine,
            on_change,
            ChatRecording(
                draft=drafter_name(drafter),
                depth=min(self.max_draft, MAX_DEPTH),
                mtp_layers=drafter.mtp_layers,
            ),
            n_ctx=target.n_ctx,
            rollback=target.rollback,
        )
        self._post(ChatRecorded(recording=recorder.state))

    def _end_recording(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None

    def _generate(self, prompt: tuple[int, ...]) -> None:
        # From the engine's thread: the screen's next look may be a tenth of a second away.
        with self._lock:
            turn, self._turn = self._turn, None
            if turn is not None:
                turn = replace(turn, prompt=prompt)
                if self._recorder is not None:
                    self._recorder.begin(turn)
                self._chat.submit(turn)
        if turn is None:
            self._post(events.EngineFailed(error=CancelledError("stopped"), trace=None))

    def _on_background(self, event: events.Event) -> None:
        if isinstance(event, events.EngineFailed) and isinstance(event.error, EngineDiedError):
            self._post(ModelsLost(error=event.error))
        measured = self._idle.measured(event)
        if measured is not None:
            self._post(measured)
            self._gauge.ask(self._n_threads)
