"""Leads the live session: what threads tell goes to the screen, what the user wants to the engine.

Runs on the event loop and owns the state of the session; screens only show it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from spectui.demo import DemoModel
from spectui.engine.events import (
    EngineFailed,
    GenerationFinished,
    LoadProgress,
    ModelLoaded,
    PromptEvaluated,
    Role,
    RoundFinished,
    TokenEmitted,
)
from spectui.errors import CancelledError, SpectuiError, UsageError
from spectui.live.chat import Chat
from spectui.live.events import BaselineMeasured
from spectui.live.launch import Launch, Pair
from spectui.live.setup import LiveSetup
from spectui.live.store import SessionStore
from spectui.monitor.readings import Snapshot
from spectui.options.setup import Schedule
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt
from spectui.sessions import Session
from spectui.speculative.mtp import ONLY_SERVER, effective_schedule
from spectui.tui.backstage import Backstage
from spectui.tui.messages import (
    DemoBuilding,
    DemoBuilt,
    EngineStarted,
    MonitorFailed,
    StartFailed,
)
from spectui.tui.screens.live import Activity, LiveScreen
from spectui.tui.talk import Talk, explain


class Director:
    """State of the live session, and what happens to it."""

    def __init__(
        self,
        launch: Launch,
        screen: LiveScreen,
        backstage: Backstage,
        *,
        choose_models: Callable[[str | None], None],
        warn: Callable[[str], None],
    ) -> None:
        """Nothing runs yet.

        Args:
            launch: what the command line asked for.
            screen: shows the session; it is mounted.
            backstage: does the work.
            choose_models: opens the picker, with a reason if something failed.
            warn: shows a sentence.
        """
        self.launch = launch
        self._screen = screen
        self._backstage = backstage
        self._choose_models = choose_models
        self._warn = warn
        store = SessionStore(warn, enabled=launch.settings.keep_sessions)
        self.talk = Talk(screen.transcript, store)
        self._target: ModelLoaded | None = None
        self._queued: str | None = None
        self._resumed: Session | None = None
        self._building: DemoModel | None = None
        """Demo target that is being built, to be loaded then."""
        self._start_failure: str | None = None
        """Why there is no engine."""
        self.has_gpu = False
        """Whether the monitor sees a GPU."""

    @property
    def setup(self) -> LiveSetup | None:
        """The pair with its options, None before one was chosen."""
        return self._screen.setup

    def begin(self, launch: Launch | None = None) -> None:
        """Load what ``launch`` or the command line names, or let the user choose."""
        self.launch = launch or self.launch
        if self.launch.demo is not None:
            self._build(self.launch.demo)
        elif self.launch.pair is not None:
            self.load(self.launch.pair)
        else:
            self._screen.activity = Activity.NO_MODEL
            self._choose_models(None)

    def _build(self, demo: DemoModel) -> None:
        self._end_build()
        self._target = None
        self._building = demo
        self._screen.activity = Activity.LOADING
        self._screen.loading_bars.set_part("demo models", None)
        self._backstage.build_demo(demo)

    def _end_build(self) -> None:
        """Whatever is still told of a build is void."""
        if self._building is not None:
            self._building = None
            self._backstage.stop_demo()

    def load(self, pair: Pair) -> None:
        """Load a pair in place of what is loaded."""
        self._end_build()
        session = self._backstage.session
        if self._start_failure is not None:
            self._load_failed(self._start_failure)
            return
        if session is None:
            # Still being imported: ``begin`` comes when it has started.
            self.launch = replace(self.launch, pair=pair, demo=None)
            return
        self._target = None
        self._screen.loading_bars.finish()
        try:
            setup = self._make_setup(pair)
            session.load(setup)
        except SpectuiError as error:
            self._load_failed(str(error))
            return
        self._screen.setup = setup
        self._screen.activity = Activity.LOADING
        self._screen.loading_bars.set_part(pair.target.name, 0.0)
        self.talk.begin()
        self.talk.tally.reset()

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

    def resume(self, session: Session, pair: Pair) -> None:
        """Load a stored conversation's pair and take the conversation up."""
        self._resumed = session
        self.load(pair)

    def _loaded(self, event: ModelLoaded) -> None:
        setup, session = self.setup, self._backstage.session
        if setup is None or session is None:
            return
        self.talk.tally.loaded(event.role, event.memory)
        if event.role is Role.TARGET:
            self._target = event
            self._screen.setup = replace(setup, schedule=self._possible(setup.schedule))
            if setup.draft is not None:
                self._screen.loading_bars.set_part(setup.draft.path.name, 0.0)
                session.load_draft(setup.draft)
                return
        self._start_talking()

    def _possible(self, wanted: Schedule) -> Schedule:
        return effective_schedule(wanted, 0 if self._target is None else self._target.mtp_layers)

    def _start_talking(self) -> None:
        self._resume_talk()
        self._ready()

    def _resume_talk(self) -> None:
        self._screen.loading_bars.finish()
        self.measure_baseline()
        if self._resumed is not None:
            self.talk.resume(self._resumed)
            if self._resumed.settings is not None:
                self.speculate(self._resumed.settings.speculation)
            self._resumed = None

    @property
    def can_measure(self) -> bool:
        """Whether there is a target to measure."""
        return self._screen.activity in {Activity.READY, Activity.ANSWERING}

    def measure_baseline(self) -> None:
        """Measure the target alone, when nobody waits for it."""
        if self._backstage.session is not None:
            self._backstage.session.measure_baseline()

    def _ready(self) -> None:
        self._screen.activity = Activity.READY
        if self._queued is not None:
            text, self._queued = self._queued, None
            self.ask(text)

    def _load_failed(self, reason: str) -> None:
        self._screen.loading_bars.finish()
        if self._target is not None and self.setup is not None:
            left = replace(self.setup, draft=None)
            self._screen.setup = replace(left, speculation=left.drafting)
            self._resume_talk()
            runs = (
                "The target runs without a draft" if left.drafting is None else "It is not needed"
            )
            self.talk.say("notice", f"{reason.rstrip('.')}. {runs}.")
            self._ready()
            return
        self._resumed = None
        self._screen.setup = None
        self._screen.activity = Activity.NO_MODEL
        self._choose_models(reason)

    def ask(self, text: str) -> None:
        """Send a prompt, or keep it until the pair is ready."""
        setup, activity = self.setup, self._screen.activity
        if activity is Activity.NO_MODEL:
            self._screen.put_back(text)
            self._choose_models(None)
        elif activity is Activity.READY and setup is not None:
            self.talk.ask(text, setup, self._send)
            self._screen.activity = Activity.ANSWERING
        elif self._queued is None:
            self._queued = text
            answering = activity is Activity.ANSWERING
            when = "when this answer ends" if answering else "when the pair is loaded"
            self._warn(f"Your prompt will be sent {when}.")
        else:
            self._screen.put_back(text)
            self._warn("One prompt is waiting already; stop the answer, or let it end.")

    def _send(self, setup: LiveSetup, chat: Chat) -> None:
        session = self._backstage.session
        if session is None or self._target is None:
            raise RuntimeError("nothing is loaded, but the screen said that it was ready")
        if self._target.info.has_chat_template:
            session.send(setup, chat.messages())
        else:
            session.send(setup, (), chat.text())

    def stop(self) -> None:
        """End the answer or the load. A prompt that waits for it goes back to the user."""
        if self._queued is not None:
            self._screen.put_back(self._queued)
            self._queued = None
        if self._building is not None:
            self._end_build()
            self._load_failed("The build of the demo models was cancelled.")
        elif self._backstage.session is not None:
            self._backstage.session.stop()

    def new_chat(self) -> None:
        """Begin another conversation with the same pair."""
        if self.talk.is_answering:
            self._warn("An answer is being written; stop it first.")
        else:
            self.talk.begin()

    def adopt(self, changed: LiveSetup) -> None:
        """Take drafting and sampling of ``changed`` from the next answer on.

        Only these: another pair may have been chosen while the form was open.
        """
        if self.setup is None:
            return
        self.speculate(changed.wanted)
        if changed.speculation is None:
            self.speculate(None)
        schedule = self._possible(changed.schedule)
        if schedule is not changed.schedule:
            self._warn(f"The schedule stays {schedule}: {ONLY_SERVER}.")
        self._screen.setup = replace(
            self.setup,
            schedule=schedule,
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
        self._screen.setup = replace(self.setup, speculation=drafting, resting=resting)

    def toggle_draft(self) -> None:
        """Let the next answer use the draft, or not."""
        if self.setup is not None:
            self.speculate(self.setup.wanted if self.setup.speculation is None else None)

    def start_tuning(
        self, prompts: tuple[Prompt, ...], n_trials: int, *, path: Path | None = None
    ) -> None:
        """Tune the loaded pair beside the chat, on prompts of ``path`` if they are of files.

        Raises:
            UsageError: there is no pair to tune, or a search is running.
        """
        setup, session = self.setup, self._backstage.session
        if setup is None or session is None or not self.can_measure:
            raise UsageError("tuning needs a loaded pair; choose one, or wait until it is loaded")
        if setup.draft is None and not (self._target and self._target.mtp_layers):
            raise UsageError("tuning needs a draft; choose a pair with one")
        session.start_tuning(setup, prompts, n_trials, path=path)

    def handle(self, event: object) -> bool:
        """Take an event of another thread; return whether it was for the live session."""
        match event:
            case EngineStarted():
                event.session.records_chats = self.launch.settings.record_chats
                self.begin()
            case StartFailed():
                if self._backstage.session is None:
                    self._start_failure = event.reason
                self._building = None
                self._load_failed(event.reason)
            case MonitorFailed():
                self._screen.recorded = False
                self._warn(event.reason)
            case DemoBuilding() | DemoBuilt():
                self._handle_build(event)
            case Snapshot():
                self.has_gpu = bool(event.gpus)
                self.talk.tally.snapshot(event)
            case BaselineMeasured():
                self.talk.tally.baseline(event.tokens_per_s, event.step_s)
            case _:
                return self._handle_engine(event)
        return True

    def _handle_build(self, event: DemoBuilding | DemoBuilt) -> None:
        if self._building is None:
            return
        match event:
            case DemoBuilding():
                part, fraction = f"demo {event.progress.model}", event.progress.fraction
                self._screen.loading_bars.set_part(part, fraction)
            case DemoBuilt():
                target, draft = event.paths[self._building], event.paths[DemoModel.DRAFT]
                self.load(Pair(target=target, draft=draft))

    def _handle_engine(self, event: object) -> bool:
        match event:
            case LoadProgress():
                self._screen.loading_bars.set_part(event.path.name, event.fraction)
            case ModelLoaded():
                self._loaded(event)
            case PromptEvaluated() | TokenEmitted() | RoundFinished():
                self.talk.handle(event)
            case GenerationFinished() if self.talk.is_answering:
                self.talk.handle(event)
                self._ready()
            case EngineFailed():
                self._engine_failed(event)
            case _:
                return False
        return True

    def _engine_failed(self, event: EngineFailed) -> None:
        if self.talk.is_answering:
            self.talk.fail(event)
            self._ready()
        elif self._screen.activity is Activity.LOADING:
            cancelled = isinstance(event.error, CancelledError)
            self._load_failed("The load was cancelled." if cancelled else explain(event))
        else:
            self._warn(explain(event))

    def close(self, events: tuple[object, ...]) -> None:
        """Store what came last, and end the session; the engine is the backstage's to close."""
        for event in events:
            if isinstance(event, TokenEmitted | RoundFinished | GenerationFinished):
                self.talk.handle(event)
        self.talk.close()

    def flush(self) -> None:
        """Bring everything that has come so far to screen and disk."""
        self.talk.flush()
        self._screen.show(self.talk.tally.state())
