"""Loads the pair of a command line, a choice or a session; builds demo models first."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.demo import DemoModel, DemoProgress
from spectui.errors import CancelledError, SpectuiError
from spectui.live.controller import SessionController
from spectui.live.sessions import Session
from spectui.live.setup import Activity, LiveSetup
from spectui.presets import Preset
from spectui.tui.launch import Launch, Pair
from spectui.tui.threads import Threads

if TYPE_CHECKING:
    from spectui.live.session import LiveSession

Choice = Pair | Session | Preset | DemoModel | str
"""A source of a pair: two files, an earlier pair with its chat, a preset, a demo target, or a
llama-server command as ``--from`` takes it."""

Load = Callable[[], None]
"""Begins to load."""


class PairLoader:
    """Makes a setup of a choice, and has the session load it."""

    def __init__(
        self,
        session: SessionController,
        launch: Launch,
        threads: Threads,
        *,
        choose_models: Callable[[str | None], None],
        warn: Callable[[str], None],
    ) -> None:
        """Choose nothing yet.

        Args:
            session: loads the pair.
            launch: options of the command line.
            threads: build demo models.
            choose_models: opens the picker, with a reason if something failed.
            warn: shows a sentence.
        """
        self._session = session
        self.launch = launch
        self._threads = threads
        self._choose_models = choose_models
        self._warn = warn
        self._asked: tuple[Pair, Session | None] | None = None
        """The pair that was asked for last, and a conversation to take up with it."""
        self._building: DemoModel | None = None
        """Demo target that is being built, to be loaded then."""
        self._no_engine: str | None = None
        """Why there is no engine."""

    def start(self, engine: "LiveSession") -> None:
        """Load the pair of the command line."""
        self._session.engine = engine
        engine.records_chats = self.launch.settings.record_chats
        if self._asked is None:
            self._begin(self.launch)
        else:
            self.load(*self._asked)

    def _begin(self, launch: Launch) -> None:
        """Load the pair of a launch, or let the user choose."""
        self.launch = launch
        if launch.demo is not None:
            self._build(launch.demo)
        elif launch.pair is not None:
            self.load(launch.pair)
        else:
            self._session.enter(Activity.NO_MODEL)
            self._choose_models(None)

    def _build(self, demo: DemoModel) -> None:
        self._end_build()
        self._session.target = None
        self._building = demo
        self._session.enter(Activity.LOADING, "demo models")
        self._threads.build_demo(demo, self._show_build, self._built, self.cannot_start)

    def _end_build(self) -> None:
        """End the build: its remaining messages are ignored."""
        if self._building is not None:
            self._building = None
            self._threads.stop_demo()

    def stop(self) -> None:
        """End the build of demo models, the load, or the answer."""
        if self._building is None:
            self._session.stop()
        else:
            self._end_build()
            self._session.fail(CancelledError("The build of the demo models was cancelled."))

    def prepared(self, choice: Choice) -> Load:
        """Return a function that loads a choice.

        Raises:
            SpectuiError: a preset's or a command's models or options cannot be used.
        """
        match choice:
            case Pair():
                return partial(self.load, choice)
            case Session(header=header):
                draft = None if header.draft is None else Path(header.draft)
                return partial(self.load, Pair(target=Path(header.target), draft=draft), choice)
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
            self._warn(launch.notice)
        self._begin(launch)

    def load(self, pair: Pair, resumed: Session | None = None, *, from_disk: bool = False) -> None:
        """Load a pair in place of what is loaded.

        Args:
            pair: what to load.
            resumed: a stored conversation to take up with it.
            from_disk: whether weights may be read from disk again and again.
        """
        self._end_build()
        self._asked = pair, resumed
        if self._session.engine is None and self._no_engine is None:
            # Still being imported: ``start`` comes when that is done.
            return
        if self._no_engine is not None:
            self.cannot_start(self._no_engine)
            return
        try:
            setup = self._setup(pair, resumed)
        except SpectuiError as error:
            self._session.target = None
            self._session.fail(error)
            return
        from_disk = from_disk or self.launch.from_disk
        self._session.load(setup, resumed=resumed, from_disk=from_disk)

    def load_from_disk(self) -> None:
        """Load the last pair again, even if its weights are read from disk again and again."""
        if self._asked is not None:
            self.load(*self._asked, from_disk=True)

    def _setup(self, pair: Pair, resumed: Session | None) -> LiveSetup:
        setup = self.launch.make_setup(pair)
        if resumed is None:
            return setup
        load, settings = resumed.header.load, resumed.settings
        if load is not None and load.target.path == pair.target:
            # What is placed otherwise than last time may not fit any more.
            setup = setup.loaded_as(load)
        speculation = None if settings is None else settings.speculation
        # Before the load: it makes room for drafts as long as these, or takes MTP layers along.
        drafting = replace(setup, speculation=speculation)
        return setup if drafting.drafting is None else drafting

    def cannot_start(self, reason: str) -> None:
        """Note that there is no engine, or no demo model."""
        if self._session.engine is None:
            self._no_engine = reason
        self._building = None
        self._session.fail(SpectuiError(reason))

    def _show_build(self, progress: DemoProgress) -> None:
        if self._building is not None:
            self._session.load_part(f"demo {progress.model}", progress.fraction)

    def _built(self, paths: dict[DemoModel, Path]) -> None:
        if self._building is not None:
            self.load(Pair(target=paths[self._building], draft=paths[DemoModel.DRAFT]))
