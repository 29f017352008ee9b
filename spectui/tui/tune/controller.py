"""Leads the search beside the chat: started, paused, stopped and applied from the tune screen."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError, UsageError
from spectui.format import counted
from spectui.live.setup import Activity, ChatRecorded
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, PromptFile, builtin_suite, load_prompts
from spectui.prompts.chats import Chats, load_chats
from spectui.tui.base_app import BaseApp
from spectui.tui.chat.session import SessionController
from spectui.tui.tune.form import PromptSource, Wanted
from spectui.tui.widgets import key_of

if TYPE_CHECKING:
    from spectui.live.recording import ChatRecording
    from spectui.measure.arm import Arm
    from spectui.tui.tune.screen import TuneScreen
    from spectui.tune.progress import TuningState


_NO_DRAFT = (
    "There is nothing to replay before a pair with a draft is loaded (or a target with MTP layers, "
    "with --spec-type draft-mtp)."
)
_OFF = (
    "Answers are not recorded, since config.toml says record_chats = false; without it they are, "
    "in memory, and nothing is written."
)
_NOTHING = (
    "Ask something: when the answer is there and nobody waits, {who} goes along it once more, and "
    "every setting can be replayed on it. Answers of earlier sessions are not recorded."
)


class TuneController:
    """Knows how the search stands, whether its screen is open or not."""

    def __init__(self, app: BaseApp, session: SessionController) -> None:
        """Start without a screen; ``session`` has the chat beside the search."""
        self._app = app
        self._session = session
        self._screen: TuneScreen | None = None
        self.state: TuningState | None = None
        self._is_stopping = False
        """Whether the search was asked to end and has not told yet that it did."""
        self._prompts: str | None = None
        """Which prompts the search uses, in words."""
        self._recording: ChatRecording | None = None

    @property
    def is_measuring(self) -> bool:
        """Whether a search measures, so that the screen should be quiet."""
        return self.state is not None and self.state.is_running and not self.state.paused

    @property
    def can_stop(self) -> bool:
        """Whether a search runs that nobody has stopped yet."""
        return self.state is not None and self.state.is_running and not self._is_stopping

    def is_open(self, *, replay: bool) -> bool:
        """Whether a view of the screen is shown, or lies below another screen."""
        screen = self._screen
        return screen is not None and (
            screen.shows_replay is replay or self._app.screen is not screen
        )

    def open(self, *, replay: bool = False) -> None:
        """Show the screen: the search, or what replay says of the chat."""
        # Imported here: numpy is not needed to start.
        from spectui.tui.tune.screen import TuneScreen  # noqa: PLC0415

        if self._screen is not None:
            self._screen.shows_replay = replay
            return
        self._screen = TuneScreen(self, self.state)
        self._screen.prompts = self._prompts
        self._screen.shows_replay = replay
        self.look_at_chat()
        self._app.push_screen(self._screen, self._closed)

    def take_recording(self, event: ChatRecorded) -> None:
        """Take the present recording of the chat; None for another pair."""
        self._recording = event.recording

    def _closed(self, _result: None) -> None:
        self._screen = None

    def take(self, state: "TuningState") -> None:
        """Take a change of the search."""
        # Loaded by whoever made the state; it brings numpy, which is not needed to start.
        from spectui.tune.progress import Phase  # noqa: PLC0415

        refused = _refusal(state)
        self.state = state if refused is None else replace(state, phase=Phase.IDLE, error=None)
        self._is_stopping = self._is_stopping and state.is_running
        self._show_word()
        if self._screen is not None:
            self._screen.show(self.state)
        if refused is not None:
            self._refuse(refused)

    def _refuse(self, reason: str) -> None:
        """Say why nothing was started: in the form, if it is still there."""
        if self._screen is None:
            self._app.warn(f"{reason}.")
        else:
            self._screen.ask(f"{reason}.")

    def _show_word(self) -> None:
        if self.state is not None:
            word = "stopping the search" if self._is_stopping else _word(self.state)
            self._session.screen.tuning = word

    def look_at_chat(self) -> None:
        """Tell the screen how the chat stands, and what of it is recorded."""
        screen = self._screen
        if screen is None:
            return
        screen.chat_is_busy = self._session.screen.activity is Activity.ANSWERING
        recording, setup = self._recording, self._session.setup
        screen.not_recorded = self._not_recorded()
        if recording is None or setup is None:
            screen.recorded = screen.in_use = None
        else:
            tuned = None if self.state is None else self.state.costs.get(recording.draft)
            alone = recording.alone(setup.speculation)
            screen.in_use = None if alone is None else Speculation(alone)
            screen.recorded = recording, tuned

    def _not_recorded(self) -> str:
        """Return why there is no answer to replay."""
        recording = self._recording
        if not self._session.loader.launch.settings.record_chats:
            return _OFF
        if recording is None:
            return _NO_DRAFT
        if recording.failure is not None:
            return f"An answer could not be recorded: {recording.failure}."
        return _NOTHING.format(who="the target" if recording.is_mtp else "the draft")

    def start(self, wanted: Wanted) -> None:
        """Begin a search, or go on with the study of the same prompts."""
        try:
            is_export = wanted.source is PromptSource.EXPORT
            chats = load_chats([wanted.path or Path()]) if is_export else None
            found = self._read(wanted)
            self._start(found.prompts, chats, wanted)
        except SpectuiError as error:
            self._refuse(str(error))
            return
        for note in found.notes:
            self._app.warn(f"{note}.")
        n_prompts = counted(len(found.prompts), "prompt")
        read = n_prompts if chats is None else counted(len(chats.prompts), "answer")
        self._prompts = f"{wanted.path or wanted.source} ({read})"
        if self._screen is not None:
            self._screen.prompts = self._prompts

    def _read(self, wanted: Wanted) -> PromptFile:
        match wanted.source:
            case PromptSource.BUILTIN:
                return PromptFile(prompts=builtin_suite())
            case PromptSource.FILES:
                return load_prompts(wanted.path or Path())
            case PromptSource.EXPORT:
                return PromptFile(prompts=())
            case PromptSource.CHAT:
                prompts = self._session.conversation.chat.prompts()
        if not prompts:
            raise UsageError("this chat has no turns yet; ask something first, or choose others")
        return PromptFile(prompts=prompts)

    def _start(self, prompts: tuple[Prompt, ...], chats: Chats | None, wanted: Wanted) -> None:
        session = self._session
        setup, engine, target = session.setup, session.engine, session.loader.target
        by = key_of(self._app, "app.models")
        if setup is None:
            raise UsageError(f"choose a target and a draft first ({by})")
        if engine is None or not session.can_measure:
            raise UsageError("wait until the pair is loaded")
        if setup.draft is None and not (target and target.mtp_layers):
            raise UsageError(f"tuning needs a draft; choose a pair with one ({by})")
        # Imported here: it brings the search, which is not needed to start.
        from spectui.live.pair import SearchRequest  # noqa: PLC0415

        request = SearchRequest(
            prompts=prompts,
            chats=chats,
            time_budget_s=wanted.time_budget_s,
            path=None if chats else wanted.path,
        )
        engine.start_tuning(setup, request)

    def toggle_pause(self) -> None:
        """Pause or go on."""
        engine = self._session.engine
        if engine is None or engine.tuning is None or self.state is None:
            return
        if self.state.paused:
            engine.tuning.resume()
        else:
            engine.tuning.pause()

    def stop(self) -> None:
        """End the search with what it has."""
        engine = self._session.engine
        if engine is not None and engine.tuning is not None:
            self._is_stopping = True
            self._show_word()
            engine.tuning.stop()

    def apply(self, arm: "Arm") -> None:
        """Use a setting in the chat from the next answer on; the screen has said so."""
        self._session.speculate(arm.speculation)
        self.look_at_chat()


def _refusal(state: "TuningState") -> str | None:
    """Return why a search has failed before there was a study; None if that is not how it stands.

    Such as a prompt that does not fit in the context: nothing was measured, and nothing is lost.
    """
    return None if state.study is not None or state.records else state.error


def _word(state: "TuningState") -> str:
    """Short enough for the status bar."""
    if not state.is_running:
        return ""
    if state.paused:
        return "tuning paused"
    done = f" {state.n_done}/{state.n_steps}" * state.is_confirming
    return f"tuning{done}"
