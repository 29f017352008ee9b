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
from spectui.tui.tune.form import Filled, PromptSource, Wanted
from spectui.tui.widgets import key_of

if TYPE_CHECKING:
    from spectui.live.recording import ChatRecording
    from spectui.measure.arm import Arm
    from spectui.tui.app import SpectuiApp
    from spectui.tui.tune.screen import TuneScreen
    from spectui.tune.progress import TuningState


_NO_PAIR = "No pair is loaded yet: choose one, and ask it something."
_LOADING = "The models are being loaded; what they answer then can be replayed."
_NO_DRAFT = (
    "No draft is loaded, and the target was not loaded to draft for itself, so there is nothing to "
    "ask about; choose a pair with a draft or, where the target has MTP layers, start with "
    "--spec-type draft-mtp."
)
_OFF = (
    "Answers are not recorded, since config.toml says record_chats = false; without it they are, "
    "in memory, and nothing is written."
)
_NOTHING = (
    "Nothing is recorded yet, as answers of earlier sessions never are: ask something; when the "
    "answer is there and nobody waits, {goes}, and every setting can be replayed on it."
)
_DRAFT_GOES = "the draft goes along it"
_TARGET_GOES = "the target goes along it once more with its MTP layers"
_DRAFT_IS_GOING = "The draft is going along what was answered; a moment of rest is all it needs."
_TARGET_IS_GOING = (
    "The target is going along what was answered once more, with its MTP layers: while nobody "
    "waits, and about as long as it takes to write that without a draft."
)


class TuneController:
    """Knows how the search stands, whether its screen is open or not."""

    def __init__(self, app: "SpectuiApp") -> None:
        """Start without a screen."""
        self._app = app
        self._screen: TuneScreen | None = None
        self.state: TuningState | None = None
        self._is_stopping = False
        """Whether the search was asked to end and has not told yet that it did."""
        self._filled: Filled | None = None
        """Contents of the form when it was left."""
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
        # Imported here: plots and numpy are not needed to start.
        from spectui.tui.tune.screen import TuneScreen  # noqa: PLC0415

        if self._screen is not None:
            self._screen.shows_replay = replay
            return
        self._screen = TuneScreen(self, self.state, self._filled)
        self._screen.prompts = self._prompts
        self._screen.shows_replay = replay
        self.look_at_chat()
        self._app.push_screen(self._screen, self._closed)

    def take_recording(self, event: ChatRecorded) -> None:
        """Take the present recording of the chat; None for another pair."""
        self._recording = event.recording

    def _closed(self, filled: Filled | None) -> None:
        self._screen, self._filled = None, filled

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
            self._app.live.tuning = word

    def look_at_chat(self) -> None:
        """Tell the screen how the chat stands: its turns, its speed, what of it is recorded."""
        # Imported here: it brings the search, which is not needed to start.
        from spectui.live.pair import text_s  # noqa: PLC0415

        if self._screen is not None:
            self._screen.chat_is_busy = self._app.live.activity is Activity.ANSWERING
            self._screen.n_chat_turns = self._app.session.conversation.chat.n_turns
            baseline = self._app.session.tally.baseline_tokens_per_s
            self._screen.text_s = None if baseline is None else text_s(baseline)
            self._screen.missing = self._missing()
            recording, setup = self._recording, self._app.session.setup
            self._screen.not_recorded = self._not_recorded()
            if recording is None or setup is None:
                self._screen.recorded = self._screen.in_use = None
            else:
                tuned = None if self.state is None else self.state.costs.get(recording.draft)
                alone = recording.alone(setup.speculation)
                self._screen.in_use = None if alone is None else Speculation(alone)
                self._screen.recorded = recording, tuned

    def _not_recorded(self) -> str:
        """Return why there is no answer to replay."""
        recording = self._recording
        if self._app.session.setup is None:
            return _NO_PAIR
        if not self._app.settings.record_chats:
            return _OFF
        if recording is None:
            return _LOADING if self._app.live.activity is Activity.LOADING else _NO_DRAFT
        if recording.failure is not None:
            return f"An answer could not be recorded: {recording.failure}."
        if recording.n_waiting:
            return _TARGET_IS_GOING if recording.is_mtp else _DRAFT_IS_GOING
        return _NOTHING.format(goes=_TARGET_GOES if recording.is_mtp else _DRAFT_GOES)

    def _missing(self) -> str | None:
        """Return what has to be there before a search, and how to get it; None if nothing."""
        session = self._app.session
        setup, target = session.setup, session.loader.target
        by = key_of(self._app, "app.models")
        if self._app.picker.is_open and self._screen is not None:
            # It lies below.
            by = key_of(self._screen, "tune.back")
        if setup is None:
            return f"Choose a target and a draft first ({by})"
        if session.engine is None or not session.can_measure:
            return "Wait until the pair is loaded"
        if setup.draft is None and not (target and target.mtp_layers):
            return f"Tuning needs a draft; choose a pair with one ({by})"
        return None

    def start(self, wanted: Wanted) -> None:
        """Begin a search, or go on with the study of the same prompts."""
        try:
            is_export = wanted.source is PromptSource.CHATS
            chats = load_chats([wanted.path or Path()]) if is_export else None
            found = PromptFile(prompts=()) if chats else self._read(wanted.source, wanted.path)
            self._start(found.prompts, chats, wanted)
        except SpectuiError as error:
            self._refuse(str(error))
            return
        for note in found.notes:
            self._app.warn(f"{note}.")
        n_prompts = counted(len(found.prompts), "prompt")
        read = counted(len(chats.prompts), "answer") if chats else n_prompts
        self._prompts = f"{wanted.path or wanted.source} ({read})"
        if self._screen is not None:
            self._screen.prompts = self._prompts

    def _read(self, source: PromptSource, path: Path | None) -> PromptFile:
        match source:
            case PromptSource.BUILTIN:
                return PromptFile(prompts=builtin_suite())
            case PromptSource.FILES:
                return load_prompts(path or Path())
            case PromptSource.CHAT:
                prompts = self._app.session.conversation.chat.prompts()
        if not prompts:
            raise UsageError("this chat has no turns yet; ask something first, or choose others")
        return PromptFile(prompts=prompts)

    def _start(self, prompts: tuple[Prompt, ...], chats: Chats | None, wanted: Wanted) -> None:
        setup, engine = self._app.session.setup, self._app.session.engine
        missing = self._missing()
        if setup is None or engine is None or missing is not None:
            raise UsageError(missing or "Wait until the engine has started")
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
        engine = self._app.session.engine
        if engine is None or engine.tuning is None or self.state is None:
            return
        if self.state.paused:
            # Whatever was lost meanwhile.
            self._app.session.lost.load_again()
            engine.tuning.resume()
        else:
            engine.tuning.pause()

    def stop(self) -> None:
        """End the search with what it has."""
        engine = self._app.session.engine
        if engine is not None and engine.tuning is not None:
            self._is_stopping = True
            self._show_word()
            engine.tuning.stop()

    def apply(self, arm: "Arm") -> None:
        """Use a setting in the chat from the next answer on; the screen has said so."""
        self._app.session.speculate(arm.speculation)
        self.look_at_chat()

    def export(self) -> None:
        """Show the flags of the best."""
        self._app.action_export()


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
