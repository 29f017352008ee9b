"""Leads the choice of models: feeds the picker, and loads what is chosen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.demo import DemoModel
from spectui.errors import SpectuiError
from spectui.live.sessions import Session
from spectui.live.setup import Launch, Pair
from spectui.models.files import FoundModel, expand_home, usual_folders
from spectui.models.ranking import ModelInspected
from spectui.paths import cache_dir
from spectui.presets import Preset, list_presets
from spectui.tui.base_app import BaseApp
from spectui.tui.chat.session import SessionController
from spectui.tui.threads import ScanFinished, ServersFound, Threads

if TYPE_CHECKING:
    from spectui.tui.picker.screen import Choice, PickerScreen

_N_RECENT = 8
_DEMOS = frozenset({"demo", "demo-moe"})
"""Presets of the demo models, which have one row of their own."""


class PickerController:
    """Opens the picker on demand; feeds it with what the scan and the engine find."""

    def __init__(self, app: BaseApp, session: SessionController, threads: Threads) -> None:
        """Start without a screen.

        Args:
            app: shows the screen.
            session: loads what is chosen.
            threads: look for models.
        """
        self._app = app
        self._session = session
        self._threads = threads
        self._screen: PickerScreen | None = None
        self._recent: tuple[Session, ...] = ()
        """Stored sessions that can be taken up, the newest first."""

    @property
    def is_open(self) -> bool:
        """Whether the picker is shown, or lies below another screen."""
        return self._screen is not None

    def open(self, reason: str | None) -> None:
        """Show the picker, with what went wrong if something did."""
        # Imported here: most starts name their models.
        from spectui.tui.picker.screen import PickerScreen  # noqa: PLC0415

        if reason is not None:
            self._app.warn(reason)
        if self._screen is not None:
            return
        settings = self._app.settings
        own = tuple(map(expand_home, settings.model_folders))
        # The demo's models lie in the cache: behind the user's own.
        folders = sorted((*own, *usual_folders()), key=cache_dir().absolute().__eq__)
        self._screen = PickerScreen(
            self,
            folders=folders,
            recent=self._recent,
            presets=[preset for preset in list_presets(self._app.warn) if _is_offered(preset)],
            n_ctx=self._session.loader.launch.n_ctx,
            can_close=self._session.setup is not None,
        )
        self._app.push_screen(self._screen, self._closed)
        self._threads.scan(folders)
        self._threads.read_sessions()
        self._threads.look_for_servers()

    def offer(self, sessions: Sequence[Session]) -> None:
        """Take the stored sessions, the newest first."""
        kept: list[Session] = []
        for session in sessions:
            # What a later session has taken up is left out: that one holds all of it.
            if not any(_goes_on(later, session) for later in kept):
                kept.append(session)
        self._recent = tuple(kept[:_N_RECENT])
        if self._screen is not None:
            self._screen.targets.show_recent(self._recent)

    def _closed(self, _result: None) -> None:
        self._screen = None
        self.forget_comparisons()

    def look_in(self, folder: Path) -> None:
        """Search another folder."""
        self._threads.scan((folder,))

    def forget_comparisons(self) -> None:
        """Forget all comparisons, since another target is looked at."""
        if (engine := self._session.engine) is not None:
            engine.inspector.forget()

    def compare(self, target: FoundModel, drafts: tuple[FoundModel, ...]) -> None:
        """Ask the engine which drafts fit; the likely ones come first."""
        engine, launch = self._session.engine, self._session.loader.launch
        if engine is not None:
            for draft in drafts:
                pair = Pair(target=target.path, draft=draft.path)
                engine.inspector.compare(launch.make_setup(pair))

    def choose(self, choice: "Choice") -> None:
        """Load what was chosen."""
        loader = self._session.loader
        match choice:
            case Pair():
                self._close()
                loader.load(choice)
            case Session(header=header):
                self._close()
                draft = None if header.draft is None else Path(header.draft)
                loader.resume(choice, Pair(target=Path(header.target), draft=draft))
            case Preset():
                self._begin(lambda: loader.launch.with_preset(choice.name))
            case DemoModel():
                # As --demo does.
                self._begin(
                    lambda: replace(loader.launch.with_preset("demo"), pair=None, demo=choice)
                )

    def choose_command(self, text: str) -> None:
        """Load the models of a llama-server command, with its options.

        Args:
            text: as ``--from`` takes it.
        """
        self._begin(lambda: self._session.loader.launch.with_command(text))

    def _begin(self, make: Callable[[], Launch]) -> None:
        """Start anew, or say why not; then the picker stays open."""
        loader = self._session.loader
        try:
            launch = make()
        except SpectuiError as error:
            self.open(str(error))
            return
        self._close()
        if launch.notice is not None:
            self._app.warn(launch.notice)
        loader.begin(
            replace(launch, from_disk=loader.launch.from_disk, settings=self._app.settings)
        )

    def _close(self) -> None:
        if self._screen is not None:
            self._screen.dismiss()

    def take(self, event: FoundModel | ScanFinished | ServersFound | ModelInspected) -> None:
        """Process a result of the scan or the engine; ignored once the picker is closed."""
        screen = self._screen
        if screen is None:
            return
        match event:
            case FoundModel():
                screen.add_model(event)
            case ScanFinished():
                screen.scan_finished(event.reasons)
            case ServersFound():
                screen.targets.show_running(event.servers)
            case ModelInspected():
                screen.show_inspection(event)


def _is_offered(preset: Preset) -> bool:
    """Whether its models are there, and no other row is for them."""
    return preset.is_ready and preset.name not in _DEMOS


def _goes_on(later: Session, earlier: Session) -> bool:
    return later.entries[: len(earlier.entries)] == earlier.entries
