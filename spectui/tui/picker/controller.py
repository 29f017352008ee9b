"""Connects the picker with the scan, the engine and the stored sessions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from spectui.demo import DemoModel
from spectui.engine.events import PairCompared
from spectui.live.setup import Pair
from spectui.models.discovery import expand_home, usual_folders
from spectui.models.files import FoundModel
from spectui.models.ranking import Budget, ModelInspected
from spectui.presets import Preset, list_presets
from spectui.sessions import Session
from spectui.tui.messages import ScanFinished
from spectui.tui.picker.targets import (
    Choice,
    DemoChoice,
    PairChoice,
    PresetChoice,
    RecentChoice,
    RecentPair,
)

if TYPE_CHECKING:
    from spectui.tui.app import SpectuiApp
    from spectui.tui.picker.screen import PickerScreen

_N_RECENT = 8


@dataclass(frozen=True, slots=True)
class _Recent:
    session: Session
    pair: RecentPair


class Picking:
    """Connects the picker with the scan, the engine and the stored sessions."""

    def __init__(self, app: "SpectuiApp") -> None:
        """Nothing is open yet."""
        self._app = app
        self._screen: PickerScreen | None = None
        self._recent: list[_Recent] = []

    def open(self, reason: str | None) -> None:
        """Show the picker, with what went wrong if something did."""
        # Imported here: most starts name their models.
        from spectui.tui.picker.screen import PickerScreen  # noqa: PLC0415

        if reason is not None:
            self._app.warn(reason)
        if self._screen is not None:
            return
        settings = self._app.launch.settings
        own = tuple(map(expand_home, settings.model_folders))
        folders = (*own, *usual_folders())
        self._screen = PickerScreen(
            folders=folders,
            recent=[recent.pair for recent in self._recent],
            presets=self._presets(),
            budget=Budget(
                n_ctx=self._app.launch.n_ctx, free_bytes=psutil.virtual_memory().available
            ),
            can_close=self._app.director.setup is not None,
        )
        self._app.push_screen(self._screen, self._closed)
        self._app.backstage.scan(folders)
        self._app.backstage.read_sessions()

    def offer(self, sessions: Sequence[Session]) -> None:
        """Take what is stored, the newest first."""
        recent = _without_earlier_parts(sessions)[:_N_RECENT]
        self._recent = [_Recent(found, _recent_pair(found)) for found in recent]
        if self._screen is not None:
            self._screen.show_recent([recent.pair for recent in self._recent])

    def _presets(self) -> tuple[Preset, ...]:
        """Those that can be started: models of others would have to be fetched first."""
        return tuple(preset for preset in list_presets(self._app.warn) if preset.is_ready)

    def _closed(self, _result: None) -> None:
        self._screen = None
        self.forget_comparisons()

    def look_in(self, folder: Path) -> None:
        """Search another folder."""
        self._app.backstage.scan((folder,))

    def forget_comparisons(self) -> None:
        """Another target is looked at."""
        if self._app.backstage.session is not None:
            self._app.backstage.session.forget_comparisons()

    def compare(self, target: FoundModel, drafts: tuple[FoundModel, ...]) -> None:
        """Ask the engine which drafts fit."""
        if self._app.backstage.session is not None:
            for draft in drafts:
                self._app.backstage.session.compare(target.path, draft.path)

    def choose(self, choice: Choice) -> None:
        """Load what was chosen."""
        if self._screen is not None:
            self._screen.dismiss()
        match choice:
            case PairChoice():
                self._app.director.load(Pair(target=choice.target, draft=choice.draft))
            case RecentChoice():
                self._resume(choice.recent)
            case PresetChoice():
                self._app.open_preset(choice.name)
            case DemoChoice():
                self._app.begin(replace(self._app.launch, pair=None, demo=DemoModel.DENSE))

    def _resume(self, wanted: RecentPair) -> None:
        for recent in self._recent:
            if recent.pair == wanted:
                pair = Pair(target=wanted.target, draft=wanted.draft)
                self._app.director.resume(recent.session, pair)
                return

    def handle(self, event: object) -> None:
        """Take what the scan or the engine found. Nobody looks at it once the picker is closed."""
        screen = self._screen
        if screen is None:
            return
        match event:
            case FoundModel():
                screen.add_model(event)
            case ScanFinished():
                screen.scan_finished(event.reasons)
            case PairCompared():
                screen.show_inspection(
                    ModelInspected(
                        target=event.target,
                        path=event.draft,
                        facts=event.facts,
                        reason=event.reason,
                    )
                )
            case _:
                # Such as the end of the engine, while the app is closing.
                pass


def _without_earlier_parts(sessions: Sequence[Session]) -> list[Session]:
    """Leave out what a later session has taken up: it holds all of it.

    Args:
        sessions: The newest first.
    """
    kept: list[Session] = []
    for session in sessions:
        if not any(_goes_on(later, session) for later in kept):
            kept.append(session)
    return kept


def _goes_on(later: Session, earlier: Session) -> bool:
    return later.entries[: len(earlier.entries)] == earlier.entries


def _recent_pair(session: Session) -> RecentPair:
    header = session.header
    first = session.prompts[0] if session.prompts else ""
    return RecentPair(
        target=Path(header.target),
        draft=None if header.draft is None else Path(header.draft),
        when=header.started,
        n_turns=len(session.prompts),
        said=first.strip().partition("\n")[0],
    )
