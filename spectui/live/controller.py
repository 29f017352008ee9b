"""The state of a live session: its pair, its chat and its search, with a screen or without.

One thread owns it, and passes the engine's events on to it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from spectui.engine import events
from spectui.errors import CancelledError, EngineDiedError, SpectuiError, UsageError
from spectui.live.chat import Chat, SessionStore, describe_answer
from spectui.live.sessions import Entry, Session
from spectui.live.setup import (
    Activity,
    BaselineMeasured,
    ChatRecorded,
    LiveSetup,
    ModelsLost,
    RamMeasured,
)
from spectui.live.tally import LiveTally
from spectui.monitor.readings import Snapshot
from spectui.options.speculation import Speculation
from spectui.tune.progress import TuningState

if TYPE_CHECKING:
    # They load the engine and the search, which are not needed to start.
    from spectui.live.pair import SearchRequest
    from spectui.live.recording import ChatRecording
    from spectui.live.session import LiveSession


class View(Protocol):
    """Shows a session."""

    def changed(self) -> None:
        """Show the setup, the activity, what is being loaded and the prompt that waits."""

    def begun(self, entries: Sequence[Entry]) -> None:
        """Show another conversation, with what was said in it before."""

    def asked(self, text: str) -> None:
        """Show a question; its answer begins."""

    def answered(self, event: events.TokenEmitted | events.RoundFinished) -> None:
        """Show a part of the answer."""

    def ended(self, note: str, notice: str = "") -> None:
        """End the answer, with numbers below it, or with what went wrong."""

    def warn(self, sentence: str) -> None:
        """Show a sentence for a while."""

    def unloaded(self, error: SpectuiError) -> None:
        """Let the user choose a pair: an error has left none loaded."""


class SessionController:
    """Keeps the state of a session, and sends the user's requests to the engine."""

    log = "the log"
    """Name of llama.cpp's log in sentences."""

    def __init__(self, view: View, *, keeps_sessions: bool = False) -> None:
        """Start without an engine.

        Args:
            view: shows the session.
            keeps_sessions: whether conversations are stored.
        """
        self._view = view
        self.engine: LiveSession | None = None
        """None until llama.cpp is imported."""
        self.setup: LiveSetup | None = None
        """The pair with its options; None before one was chosen."""
        self.activity = Activity.STARTING
        self.parts: dict[str, float | None] = {}
        """What is being loaded, and how far it is; None where that is not known."""
        self.waiting: str | None = None
        """A prompt that waits for the pair, or for the end of an answer."""
        self.target: events.ModelLoaded | None = None
        """The loaded target."""
        self.tally = LiveTally()
        self.search: TuningState | None = None
        """State of the pair's last search."""
        self.recording: ChatRecording | None = None
        """Answers of the pair; None where none are recorded."""
        self._store = SessionStore(view.warn, enabled=keeps_sessions)
        self.chat = Chat(self._store.append)
        self._prompt: events.PromptEvaluated | None = None
        self._resumed: Session | None = None
        """A stored conversation that is taken up with the pair."""
        self._takers: dict[type, Callable[[Any], None]] = {
            events.ModelLoaded: self._loaded,
            events.EngineFailed: self._failed,
            BaselineMeasured: self.tally.baseline,
            RamMeasured: self.tally.ram_measured,
            Snapshot: self.tally.snapshot,
        }

    def enter(self, activity: Activity, part: str | None = None) -> None:
        """Set the activity, with a part that is being loaded, or none."""
        self.activity, self.parts = activity, {} if part is None else {part: None}
        self._view.changed()

    def load_part(self, name: str, fraction: float | None = None) -> None:
        """Note a part that is being loaded, and its progress."""
        self.parts = {**self.parts, name: fraction}
        self._view.changed()

    def load(
        self, setup: LiveSetup, *, resumed: Session | None = None, from_disk: bool = False
    ) -> None:
        """Load a pair in place of what is loaded.

        Args:
            setup: the pair with its options.
            resumed: a stored conversation to take up.
            from_disk: whether weights may be read from disk again and again.
        """
        self.target, self._resumed = None, resumed
        if self.engine is None:
            raise RuntimeError("the engine has not started")
        try:
            self.engine.load(setup, from_disk=from_disk)
        except SpectuiError as error:
            self.fail(error)
            return
        self.setup = setup
        self.enter(Activity.LOADING, setup.target.path.name)
        self._begin()
        self.tally.reset()

    def _begin(self, entries: Sequence[Entry] = ()) -> None:
        """Begin another conversation, or take one up; the old one stays stored."""
        # Its pair is going, and nothing more will come.
        self.chat.finish("cut off")
        self.tally.generation_finished()
        self._store.take_up(entries)
        self.chat = Chat(self._store.append, entries)
        self._view.begun(entries)

    def _loaded(self, event: events.ModelLoaded) -> None:
        """Go on with the draft, or begin to chat."""
        setup, engine = self.setup, self.engine
        if setup is None or engine is None:
            return
        self.tally.loaded(event.role, event.memory)
        if event.role is events.Role.TARGET:
            self.target = event
            if setup.draft is not None:
                self.load_part(setup.draft.path.name)
                engine.load_draft(setup.draft, mtp=setup.has_mtp_file)
                return
        self._complete()

    def _complete(self, notice: str = "") -> None:
        """Chat with what is loaded."""
        if self.engine is not None:
            self.engine.measure_baseline()
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self._begin(resumed.entries)
            if resumed.settings is not None:
                self.speculate(resumed.settings.speculation)
        if notice:
            self._view.ended("", notice)
        self._ready()

    def _ready(self) -> None:
        """Be idle, and send the prompt that waits for it."""
        self.enter(Activity.READY)
        if (text := self.take_back()) is not None:
            self.ask(text)

    def fail(self, error: SpectuiError) -> None:
        """Go on without a draft if only that could not be loaded; else there is no pair."""
        if self.target is not None and self.setup is not None:
            left = replace(self.setup, draft=None)
            self.setup = replace(left, speculation=left.drafting)
            runs = (
                "The target runs without a draft" if left.drafting is None else "It is not needed"
            )
            self._complete(f"{str(error).rstrip('.')}. {runs}.")
            return
        self.setup = self._resumed = None
        self.enter(Activity.NO_MODEL)
        self._view.unloaded(error)

    def ask(self, text: str) -> bool:
        """Send a prompt, or keep it until the pair is ready; False where neither can be."""
        setup = self.setup
        if self.activity is Activity.NO_MODEL:
            return False
        if self.activity is Activity.READY and setup is not None:
            self._send(text, setup)
        elif self.waiting is None:
            self.waiting = text
            self._view.changed()
        else:
            self._view.warn("One prompt is waiting already; stop the answer, or let it end.")
            return False
        return True

    def _send(self, text: str, setup: LiveSetup) -> None:
        if self.engine is None or self.target is None:
            raise RuntimeError("nothing is loaded, but the session says that it is ready")
        self._store.answer_with(setup)
        self.chat.system = setup.system
        self.chat.ask(text)
        self._prompt = None
        self._view.asked(text)
        self.tally.generation_started(setup.drafting, setup.context.ctx_size)
        if self.target.info.has_chat_template or setup.rendering.template:
            self.engine.send(setup, self.chat.messages())
        else:
            self.engine.send(setup, (), self.chat.text())
        self.enter(Activity.ANSWERING)

    def take_back(self) -> str | None:
        """Return the prompt that waits, which then waits no more."""
        text, self.waiting = self.waiting, None
        self._view.changed()
        return text

    def stop(self) -> None:
        """End the answer or the load."""
        if self.engine is not None:
            self.engine.stop()

    def new_chat(self) -> None:
        """Begin another conversation with the same pair."""
        if self.chat.is_answering:
            self._view.warn("An answer is being written; stop it first.")
        else:
            self._begin()

    def adopt(self, changed: LiveSetup) -> None:
        """Take drafting and sampling of ``changed`` from the next answer on.

        Only these: another pair may have been chosen while the form was open.
        """
        if self.setup is None:
            return
        names = ("sampling", "n_predict", "system")
        self.setup = replace(self.setup, **{name: getattr(changed, name) for name in names})
        self.speculate(changed.wanted)
        if changed.speculation is None:
            self.speculate(None)

    def speculate(self, speculation: Speculation | None) -> None:
        """Draft in another way from the next answer on, None for not at all."""
        if self.setup is None:
            return
        drafting = replace(self.setup, speculation=speculation).drafting
        resting = drafting or self.setup.wanted
        self.setup = replace(self.setup, speculation=drafting, resting=resting)
        self._view.changed()

    def tune(self, request: "SearchRequest") -> None:
        """Begin a search beside the chat, or go on with the study of the same prompts.

        Raises:
            UsageError: there is nothing to tune.
        """
        if self.setup is None:
            raise UsageError("go back, and choose a target first")
        is_loaded = self.activity in {Activity.READY, Activity.ANSWERING}
        if self.engine is None or self.target is None or not is_loaded:
            raise UsageError("wait until the pair is loaded")
        self.engine.start_tuning(self.setup, request)

    def take(self, event: object) -> None:
        """Take an event of the engine, of the search or of the monitor."""
        if (take := self._takers.get(type(event))) is not None:
            take(event)
            return
        match event:
            case events.LoadProgress():
                self.load_part(event.path.name, event.fraction)
            case events.LoadWarned():
                self._view.warn(f"{event.warning}.")
            case ModelsLost():
                self._view.warn(f"{event.error}. {self._advice(event.error)}")
            case TuningState():
                self.search = event
            case ChatRecorded():
                self.recording = event.recording
            case _:
                self._answered(event)

    def _answered(self, event: object) -> None:
        match event:
            case _ if not self.chat.is_answering:
                # An event of an answer that was given up.
                pass
            case events.TokenEmitted():
                self.chat.add(event.piece, from_draft=event.from_draft)
                self._view.answered(event)
            case events.RoundFinished():
                self.tally.round_finished(event.round)
                self._view.answered(event)
            case events.PromptEvaluated():
                # Another process may have had to load the models first.
                self.enter(self.activity)
                self._prompt = event
                self.tally.prompt_evaluated(event)
            case events.GenerationResult():
                self._end(event, describe_answer(event, self._prompt))

    def _end(self, result: events.GenerationResult | None, note: str, notice: str = "") -> None:
        """End the answer with its numbers, or with a failure and what may be done then."""
        self._view.ended("" if notice else note, notice)
        self.chat.finish(note, result)
        self.tally.generation_finished()
        is_searching = self.search is not None and self.search.is_running
        if self.engine is not None and self.tally.baseline_is_stale and not is_searching:
            self.engine.measure_baseline()
        self._ready()

    def _failed(self, event: events.EngineFailed) -> None:
        error: SpectuiError = event.error
        if event.trace is not None:
            error = SpectuiError(f"{error}; this is a defect of spectui's, and {self.log} has more")
        is_stopped = isinstance(error, CancelledError)
        if self.chat.is_answering:
            reason = "stopped before the first token" if is_stopped else str(error)
            advice = self._advice(event.error)
            self._end(None, reason, f"{reason}. {advice}" if advice else reason)
        elif self.activity is not Activity.LOADING:
            self._view.warn(str(error))
        else:
            self.fail(CancelledError("The load was cancelled.") if is_stopped else error)

    def _advice(self, error: SpectuiError) -> str:
        """The next step after the end of the process with the models; "" after other errors."""
        if not isinstance(error, EngineDiedError):
            return ""
        return f"Your next prompt loads the models again; {self.log} has llama.cpp's last lines."

    def close(self, last: Sequence[object] = ()) -> None:
        """Store the last events, and end the conversation; the engine is closed by its owner."""
        for event in last:
            if isinstance(event, events.TokenEmitted):
                self.chat.add(event.piece, from_draft=event.from_draft)
            elif isinstance(event, events.GenerationResult):
                self.chat.finish(describe_answer(event, self._prompt), event)
        self.chat.flush()
        self._store.close()
