"""The live session behind the live screen: a pair is loaded, prompts are sent, events come back.

Runs on the event loop and owns the state of the session; the screen only shows it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spectui.engine import events
from spectui.errors import CancelledError, DoesNotFitError, EngineDiedError, SpectuiError
from spectui.live.chat import SessionStore
from spectui.live.setup import (
    Activity,
    BaselineMeasured,
    Launch,
    LiveSetup,
    ModelsLost,
    RamMeasured,
)
from spectui.live.tally import LiveTally
from spectui.monitor.readings import Snapshot
from spectui.options.speculation import Speculation
from spectui.tui.chat.conversation import ConversationController, explain_failure
from spectui.tui.chat.loading import PairLoader
from spectui.tui.chat.view import LiveView
from spectui.tui.threads import Threads
from spectui.tui.widgets import key_of

if TYPE_CHECKING:
    from spectui.live.session import LiveSession

Takers = dict[type, Callable[[Any], None]]
"""Handlers of events of other threads, by the events' types."""


class SessionController:
    """Takes what the user asks for to the engine, and what the engine tells to the screen."""

    def __init__(
        self,
        launch: Launch,
        screen: LiveView,
        threads: Threads,
        *,
        choose_models: Callable[[str | None], None],
        warn: Callable[[str], None],
    ) -> None:
        """Start without a session.

        Args:
            launch: options of the command line.
            screen: shows the session.
            threads: start the engine.
            choose_models: opens the picker, with a reason if something failed.
            warn: shows a sentence.
        """
        self.screen = screen
        self.choose_models = choose_models
        self.warn = warn
        self.engine: LiveSession | None = None
        """None until llama.cpp is imported."""
        self.tally = LiveTally()
        store = SessionStore(warn, enabled=launch.settings.keep_sessions)
        self.conversation = ConversationController(screen.transcript, store, self.tally)
        self.loader = PairLoader(self, launch, threads)
        self._waiting: str | None = None
        """A prompt that waits for the pair, or for the end of an answer."""

    @property
    def setup(self) -> LiveSetup | None:
        """The pair with its options, None before one was chosen."""
        return self.screen.setup

    @property
    def can_measure(self) -> bool:
        """Whether there is a target to measure."""
        return self.screen.activity in {Activity.READY, Activity.ANSWERING}

    def ready(self) -> None:
        """Enter the idle state, and send the prompt that waits for it."""
        self.screen.activity = Activity.READY
        if (text := self._queue(None)) is not None:
            self.ask(text)

    def _queue(self, text: str | None) -> str | None:
        """Let a prompt wait, or none; return the one that has waited."""
        waited, self._waiting = self._waiting, text
        self.screen.prompt.show_waiting(text)
        return waited

    def ask(self, text: str) -> None:
        """Send a prompt, or keep it until the pair is ready."""
        setup, activity = self.setup, self.screen.activity
        if activity is Activity.NO_MODEL:
            self.screen.prompt.put_back(text)
            self.choose_models(None)
        elif activity is Activity.READY and setup is not None:
            self.conversation.ask(text, setup)
            self._send(setup)
            self.screen.activity = Activity.ANSWERING
        elif self._waiting is None:
            self._queue(text)
            answering = activity is Activity.ANSWERING
            when = "when this answer ends" if answering else "when the pair is loaded"
            self.warn(f"Your prompt will be sent {when}.")
        else:
            self.screen.prompt.put_back(text)
            self.warn("One prompt is waiting already; stop the answer, or let it end.")

    def _send(self, setup: LiveSetup) -> None:
        target, chat = self.loader.target, self.conversation.chat
        if self.engine is None or target is None:
            raise RuntimeError("nothing is loaded, but the screen said that it was ready")
        if target.info.has_chat_template or setup.rendering.template:
            self.engine.send(setup, chat.messages())
        else:
            self.engine.send(setup, (), chat.text())

    def stop(self) -> None:
        """End the answer or the load. A prompt that waits for it goes back to the user."""
        self.put_back()
        if not self.loader.cancel_build() and self.engine is not None:
            self.engine.stop()

    def put_back(self) -> None:
        """Give a prompt that waits back to the user."""
        if (text := self._queue(None)) is not None:
            self.screen.prompt.put_back(text)

    def new_chat(self) -> None:
        """Begin another conversation with the same pair."""
        if self.conversation.is_answering:
            self.warn("An answer is being written; stop it first.")
        else:
            self.conversation.begin()

    def adopt(self, changed: LiveSetup) -> None:
        """Take drafting and sampling of ``changed`` from the next answer on.

        Only these: another pair may have been chosen while the form was open.
        """
        if self.setup is None:
            return
        self.speculate(changed.wanted)
        if changed.speculation is None:
            self.speculate(None)
        self.screen.setup = replace(
            self.setup,
            sampling=changed.sampling,
            n_predict=changed.n_predict,
            system=changed.system,
        )

    def speculate(self, speculation: Speculation | None) -> None:
        """Draft in another way from the next answer on, None for not at all."""
        if self.setup is None:
            return
        drafting = replace(self.setup, speculation=speculation).drafting
        resting = drafting or self.setup.wanted
        self.screen.setup = replace(self.setup, speculation=drafting, resting=resting)

    @property
    def takers(self) -> Takers:
        """Handlers of the events of the session."""
        answer = self.conversation.take
        return {
            **dict.fromkeys((events.TokenEmitted, events.RoundFinished), answer),
            events.PromptEvaluated: self._begun,
            events.LoadProgress: self.loader.progressed,
            events.LoadWarned: lambda event: self.warn(f"{event.warning}."),
            events.ModelLoaded: self.loader.loaded,
            events.GenerationResult: self._finished,
            events.EngineFailed: self._failed,
            ModelsLost: lambda event: self.warn(f"{event.error}. {self._advice(event.error)}"),
            BaselineMeasured: self.tally.baseline,
            RamMeasured: self.tally.ram_measured,
            Snapshot: self.tally.snapshot,
        }

    def start(self, engine: "LiveSession") -> None:
        """Load what the command line names."""
        self.engine = engine
        self.engine.records_chats = self.loader.launch.settings.record_chats
        self.loader.begin()

    def _begun(self, event: events.PromptEvaluated) -> None:
        # What another process had to load first.
        self.screen.loading_bars.finish()
        self.conversation.take(event)

    def _finished(self, event: events.GenerationResult) -> None:
        if self.conversation.is_answering:
            self.conversation.take(event)
            self.ready()

    def _failed(self, event: events.EngineFailed) -> None:
        reason = explain_failure(event, self.screen.app)
        if isinstance(event.error, CancelledError) and not self.conversation.is_answering:
            reason = "The load was cancelled."
        if self.conversation.is_answering:
            self.conversation.fail(event, self._advice(event.error))
            self.screen.loading_bars.finish()
            self.ready()
        elif self.screen.activity is not Activity.LOADING:
            self.warn(explain_failure(event, self.screen.app))
        elif isinstance(event.error, DoesNotFitError):
            self.loader.refuse(event.error)
        else:
            self.loader.fail(reason)

    def _advice(self, error: SpectuiError) -> str:
        """The next step after the end of the process with the models; "" after other errors."""
        if not isinstance(error, EngineDiedError):
            return ""
        log = key_of(self.screen.app, "app.log")
        return (
            f"Your next prompt loads the models again; the log ({log}) has llama.cpp's last lines."
        )

    def flush(self) -> None:
        """Bring everything that has come so far to screen and disk."""
        self.conversation.flush()
        self.screen.panels.show(self.tally.state())

    def close(self, last: tuple[object, ...]) -> None:
        """Store what came last, and end the conversation; the engine is closed by its owner."""
        for event in last:
            if isinstance(
                event, events.TokenEmitted | events.RoundFinished | events.GenerationResult
            ):
                self.conversation.take(event)
        self.conversation.close()
