"""The search beside the chat: its start, its end, and the use of its settings."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError, UsageError
from spectui.format import counted, duration_text
from spectui.live.setup import Activity
from spectui.options.speculation import Speculation
from spectui.prompts import Prompt, PromptFile, builtin_suite, load_prompts
from spectui.prompts.chats import Chats, load_chats
from spectui.tui.chat.view import LiveView
from spectui.tui.tune.form import PromptSource, Wanted
from spectui.tune.progress import Phase, TuningState

if TYPE_CHECKING:
    from spectui.live.recording import ChatRecording
    from spectui.measure.arm import Arm
    from spectui.trace.costs import Costs

_NO_DRAFT = (
    "There is nothing to replay before a pair with a draft is loaded (or a target with MTP layers, "
    "with --spec-type draft-mtp)."
)
_OFF = (
    "Answers are not recorded, since config.toml says record_chats = false; without it they are, "
    "in memory, and nothing is written."
)
_SOON = (
    "The answer is complete. When the chat is idle, {who} reads it once; then every setting can be "
    "replayed on it."
)
_NOTHING = (
    "Ask something: when the answer is complete and the chat is idle, {who} reads it once, and "
    "every setting can be replayed on it. Answers of earlier sessions are not recorded."
)


class TuneController:
    """Holds the state of the search, with its screen open or not."""

    def __init__(self, live: LiveView, refuse: Callable[[str], None]) -> None:
        """Start without a search.

        Args:
            live: has the chat beside it.
            refuse: takes a sentence, the reason why no search was started.
        """
        self._live = live
        self._session = live.session
        self._refuse = refuse
        self._is_stopping = False
        """Whether the search ends after the step that it measures."""
        self.prompts: str | None = None
        """Which prompts the search uses, and how long it may take, in words."""
        self._began_s = 0.0

    @property
    def state(self) -> "TuningState | None":
        """State of the search; None before the first one."""
        return self._session.search

    @property
    def is_measuring(self) -> bool:
        """Whether a search measures, so that the screen should be quiet."""
        return self.state is not None and self.state.is_running

    @property
    def running_s(self) -> int | None:
        """Whole seconds since the start of the search; None where none runs."""
        return round(time.monotonic() - self._began_s) if self.is_measuring else None

    @property
    def can_stop(self) -> bool:
        """Whether a search runs that nobody has stopped yet."""
        return self.state is not None and self.state.is_running and not self._is_stopping

    def take(self, state: TuningState) -> None:
        """Take the present state of the search."""
        refused = _refusal(state)
        shown = state if refused is None else replace(state, phase=Phase.IDLE, error=None)
        self._session.take(shown)
        self._is_stopping = self._is_stopping and state.is_running
        self._show_word()
        if refused is not None:
            self._refuse(f"{refused}.")

    def _show_word(self) -> None:
        if self.state is not None:
            word = "stopping the search" if self._is_stopping else _word(self.state)
            self._live.tuning = word

    @property
    def chat_is_busy(self) -> bool:
        """Whether a turn of the chat has the engine."""
        return self._session.activity is Activity.ANSWERING

    @property
    def recorded(self) -> "tuple[ChatRecording, Costs | None] | None":
        """Answers of the chat, with the costs that the search measured; None before a pair."""
        recording = self._session.recording
        if recording is None or self._session.setup is None:
            return None
        return recording, None if self.state is None else self.state.costs.get(recording.draft)

    @property
    def in_use(self) -> Speculation | None:
        """The chat's setting, where only the recorded drafter drafts; else None."""
        recording, setup = self._session.recording, self._session.setup
        if recording is None or setup is None:
            return None
        alone = recording.alone(setup.speculation)
        return None if alone is None else Speculation(alone)

    @property
    def not_recorded(self) -> str:
        """Why there is no answer to replay."""
        recording, engine = self._session.recording, self._session.engine
        if engine is not None and not engine.records_chats:
            return _OFF
        if recording is None:
            return _NO_DRAFT
        if recording.failure is not None:
            return f"An answer could not be recorded: {recording.failure}."
        sentence = _SOON if recording.answers else _NOTHING
        return sentence.format(who="the target" if recording.is_mtp else "the draft")

    def start(self, wanted: Wanted) -> None:
        """Begin a search, or go on with the study of the same prompts."""
        try:
            is_export = wanted.source is PromptSource.EXPORT
            chats = load_chats([wanted.path or Path()]) if is_export else None
            found = self._read(wanted)
            self._start(found.prompts, chats, wanted)
        except SpectuiError as error:
            self._refuse(f"{error}.")
            return
        self._began_s = time.monotonic()
        for note in found.notes:
            self._live.notify(f"{note}.")
        n_prompts = counted(len(found.prompts), "prompt")
        read = n_prompts if chats is None else counted(len(chats.prompts), "answer")
        limit_s = wanted.time_budget_s
        limit = "" if limit_s is None else f", {duration_text(limit_s)} at most"
        self.prompts = f"{wanted.path or wanted.source} ({read}){limit}"

    def _read(self, wanted: Wanted) -> PromptFile:
        match wanted.source:
            case PromptSource.BUILTIN:
                return PromptFile(prompts=builtin_suite())
            case PromptSource.FILES:
                return load_prompts(wanted.path or Path())
            case PromptSource.EXPORT:
                return PromptFile(prompts=())
            case PromptSource.CHAT:
                prompts = self._session.chat.prompts()
        if not prompts:
            raise UsageError("this chat has no turns yet; ask something first, or choose others")
        return PromptFile(prompts=prompts)

    def _start(self, prompts: tuple[Prompt, ...], chats: Chats | None, wanted: Wanted) -> None:
        # Imported here: it brings the search, which is not needed to start.
        from spectui.live.pair import SearchRequest  # noqa: PLC0415

        request = SearchRequest(
            prompts=prompts,
            chats=chats,
            time_budget_s=wanted.time_budget_s,
            path=None if chats else wanted.path,
        )
        self._session.tune(request)

    def stop(self) -> None:
        """End the search with what it has."""
        engine = self._session.engine
        if engine is not None and engine.tuning is not None:
            self._is_stopping = True
            self._show_word()
            engine.tuning.stop()

    def apply(self, arm: "Arm") -> None:
        """Use a setting in the chat, from the next answer on."""
        self._session.speculate(arm.speculation)


def _refusal(state: TuningState) -> str | None:
    """Return why a search has failed before there was a study; None for any other state.

    Such as a prompt that does not fit in the context: nothing was measured, and nothing is lost.
    """
    return None if state.study is not None or state.records else state.error


def _word(state: TuningState) -> str:
    """Return a word for the status bar; empty without a search."""
    if not state.is_running:
        return ""
    done = f" {state.n_done}/{state.n_steps}" * state.is_confirming
    return f"tuning{done}"
