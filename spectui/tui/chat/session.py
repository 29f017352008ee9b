"""The live session behind the live screen: a pair is loaded, prompts are sent, events come back.

Runs on the event loop and owns the state of the session; the screen only shows it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.demo import DemoModel, DemoProgress
from spectui.engine import events
from spectui.errors import (
    CancelledError,
    DoesNotFitError,
    EngineDiedError,
    ReadsFromDiskError,
    SpectuiError,
)
from spectui.live.chat import SessionStore
from spectui.live.sessions import Session
from spectui.live.setup import (
    Activity,
    BaselineMeasured,
    Launch,
    LiveSetup,
    ModelsLost,
    Pair,
    RamMeasured,
)
from spectui.live.tally import LiveTally
from spectui.monitor.readings import Snapshot
from spectui.options.speculation import Speculation
from spectui.presets import Preset
from spectui.tui.chat.conversation import ConversationController, explain_failure
from spectui.tui.chat.view import LiveView
from spectui.tui.dialogs import QuestionScreen
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


Choice = Pair | Session | Preset | DemoModel | str
"""What can be loaded: two files, an earlier pair with its chat, a preset, a demo target, or a
llama-server command as ``--from`` takes it."""

Load = Callable[[], None]
"""Begins to load."""


class PairLoader:
    """Brings a pair up: builds demo models, loads a target and its draft, says why it could not."""

    def __init__(self, session: "SessionController", launch: Launch, threads: Threads) -> None:
        """Start without a model.

        Args:
            session: takes over when a pair is loaded.
            launch: options of the command line.
            threads: build demo models.
        """
        self._session = session
        self._screen = session.screen
        self.launch = launch
        self._threads = threads
        self.target: events.ModelLoaded | None = None
        """Facts of the models that were loaded last."""
        self._pair: Pair | None = None
        """The pair that was asked for last."""
        self._resumed: Session | None = None
        """A stored conversation that is taken up with the pair."""
        self._building: DemoModel | None = None
        """Demo target that is being built, to be loaded then."""
        self._no_engine: str | None = None
        """Why there is none."""

    def begin(self, launch: Launch | None = None) -> None:
        """Load what ``launch`` or the command line names, or let the user choose."""
        self.launch = launch or self.launch
        if self.launch.demo is not None:
            self._build(self.launch.demo)
        elif self.launch.pair is not None:
            self.load(self.launch.pair)
        else:
            self._screen.activity = Activity.NO_MODEL
            self._session.choose_models(None)

    def _build(self, demo: DemoModel) -> None:
        self._end_build()
        self.target = None
        self._building = demo
        self._screen.activity = Activity.LOADING
        self._screen.loading_bars.set_part("demo models", None)
        self._threads.build_demo(demo, self._show_build, self._built, self.cannot_start)

    def _end_build(self) -> None:
        """End the build: its remaining messages are ignored."""
        if self._building is not None:
            self._building = None
            self._threads.stop_demo()

    def cancel_build(self) -> bool:
        """End the build of demo models; False if there is none."""
        is_building = self._building is not None
        if is_building:
            self._end_build()
            self.fail("The build of the demo models was cancelled.")
        return is_building

    def prepared(self, choice: Choice) -> Load:
        """Return what loads a choice.

        Raises:
            SpectuiError: a preset's or a command's models or options cannot be used.
        """
        match choice:
            case Pair():
                return partial(self.load, choice)
            case Session():
                return partial(self._resume, choice)
            case Preset():
                launch = self.launch.with_preset(choice.name)
            case DemoModel():
                # As --demo does.
                launch = replace(self.launch.with_preset("demo"), pair=None, demo=choice)
            case _:
                launch = self.launch.with_command(choice)
        before = self.launch
        launch = replace(launch, from_disk=before.from_disk, settings=before.settings)
        return partial(self._start_anew, launch)

    def _start_anew(self, launch: Launch) -> None:
        if launch.notice is not None:
            self._session.warn(launch.notice)
        self.begin(launch)

    def _resume(self, session: Session) -> None:
        """Load a stored conversation's pair and take the conversation up."""
        self._resumed, header = session, session.header
        draft = None if header.draft is None else Path(header.draft)
        self.load(Pair(target=Path(header.target), draft=draft))

    def load(self, pair: Pair, *, from_disk: bool = False) -> None:
        """Load a pair in place of what is loaded.

        Args:
            pair: what to load.
            from_disk: whether weights may be read from disk again and again.
        """
        self._end_build()
        self._pair = pair
        engine = self._session.engine
        if self._no_engine is not None:
            self.fail(self._no_engine)
            return
        if engine is None:
            # Still being imported: ``begin`` comes when it has started.
            self.launch = replace(self.launch, pair=pair, demo=None)
            return
        self.target = None
        self._screen.loading_bars.finish()
        try:
            setup = self._make_setup(pair)
            engine.load(setup, from_disk=from_disk or self.launch.from_disk)
        except SpectuiError as error:
            self.fail(str(error))
            return
        self._screen.setup = setup
        self._screen.activity = Activity.LOADING
        self._screen.loading_bars.set_part(pair.target.name, 0.0)
        self._session.conversation.begin()
        self._session.tally.reset()

    def _make_setup(self, pair: Pair) -> LiveSetup:
        setup = self.launch.make_setup(pair)
        if self._resumed is None:
            return setup
        load, settings = self._resumed.header.load, self._resumed.settings
        if load is not None and load.target.path == pair.target:
            # What is placed otherwise than last time may not fit any more.
            setup = setup.loaded_as(load)
        speculation = None if settings is None else settings.speculation
        # Before the load: it makes room for drafts as long as these, or takes MTP layers along.
        resumed = replace(setup, speculation=speculation)
        return setup if resumed.drafting is None else resumed

    def cannot_start(self, reason: str) -> None:
        """Say that there is no engine, or no demo model."""
        if self._session.engine is None:
            self._no_engine = reason
        self._building = None
        self.fail(reason)

    def _show_build(self, progress: DemoProgress) -> None:
        if self._building is not None:
            self._screen.loading_bars.set_part(f"demo {progress.model}", progress.fraction)

    def _built(self, paths: dict[DemoModel, Path]) -> None:
        if self._building is not None:
            self.load(Pair(target=paths[self._building], draft=paths[DemoModel.DRAFT]))

    def progressed(self, event: events.LoadProgress) -> None:
        """Show how far a file is read."""
        self._screen.loading_bars.set_part(event.path.name, event.fraction)

    def loaded(self, event: events.ModelLoaded) -> None:
        """Go on with the draft, or begin to chat."""
        setup, engine = self._screen.setup, self._session.engine
        if setup is None or engine is None:
            return
        self._session.tally.loaded(event.role, event.memory)
        if event.role is events.Role.TARGET:
            self.target = event
        if event.role is events.Role.TARGET and setup.draft is not None:
            self._screen.loading_bars.set_part(setup.draft.path.name, 0.0)
            engine.load_draft(setup.draft, mtp=setup.has_mtp_file)
            return
        self._finish()
        self._session.ready()

    def _finish(self) -> None:
        self._screen.loading_bars.finish()
        if self._session.engine is not None:
            self._session.engine.measure_baseline()
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self._session.conversation.resume(resumed)
            if resumed.settings is not None:
                self._session.speculate(resumed.settings.speculation)

    def refuse(self, error: DoesNotFitError) -> None:
        """Say that there is no room for the pair, or ask whether to load what would be slow."""
        pair = self._pair
        if self.target is not None or pair is None or not isinstance(error, ReadsFromDiskError):
            self.fail(str(error))
            return
        self._screen.loading_bars.finish()
        self._screen.activity = Activity.NO_MODEL

        def answered(loads: bool | None) -> None:  # noqa: FBT001 - a screen's result
            if loads:
                self.load(pair, from_disk=True)
            else:
                self.fail(None)

        question = QuestionScreen(
            f"{error.reason}.", yes="Load it all the same", no="Choose another pair"
        )
        self._screen.app.push_screen(question, answered)

    def fail(self, reason: str | None) -> None:
        """Go on without a draft if only that could not be loaded; else let the user choose.

        Args:
            reason: what to say; None where it has been said.
        """
        self._screen.loading_bars.finish()
        if reason is not None and self.target is not None and self._screen.setup is not None:
            left = replace(self._screen.setup, draft=None)
            self._screen.setup = replace(left, speculation=left.drafting)
            self._finish()
            runs = (
                "The target runs without a draft" if left.drafting is None else "It is not needed"
            )
            self._session.conversation.say("notice", f"{reason.rstrip('.')}. {runs}.")
            self._session.ready()
            return
        self._resumed = None
        self._screen.setup = None
        self._screen.activity = Activity.NO_MODEL
        self._session.choose_models(reason)
