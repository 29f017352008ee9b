"""Leads the what-if screen: gives it recorded answers, takes its requests to the session."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError
from spectui.format import counted
from spectui.live.setup import Activity, ChatRecorded
from spectui.options.speculation import Speculation

if TYPE_CHECKING:
    from spectui.live.recording import ChatRecording
    from spectui.live.session import LiveSession
    from spectui.live.whatif import WhatIfState
    from spectui.options.drafters import Model
    from spectui.tui.app import SpectuiApp
    from spectui.tui.whatif.screen import WhatIfScreen

_LOOKING = "What was answered is being looked at."
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


class WhatIfController:
    """Holds what is recorded of the chat, whether the screen is open or not."""

    def __init__(self, app: "SpectuiApp") -> None:
        """Start without a screen and without recordings."""
        self._app = app
        self._screen: WhatIfScreen | None = None
        self._recording: ChatRecording | None = None
        self._seen: tuple[object, ...] = ()
        """State of session and search when the screen was last told."""

    @property
    def is_open(self) -> bool:
        """Whether the screen is there."""
        return self._screen is not None

    def open(self) -> None:
        """Show the screen."""
        # Imported here: plots and numpy are not needed to start.
        from spectui.live.whatif import WhatIfState  # noqa: PLC0415
        from spectui.tui.whatif.screen import WhatIfScreen  # noqa: PLC0415

        if self._screen is None:
            self._screen = WhatIfScreen(self, WhatIfState(reason=_LOOKING, applied=self._applied()))
            self._app.push_screen(self._screen, self._closed)
            self.refresh()

    def _applied(self) -> "Model | None":
        """Return how the next answer is drafted, if not by n-gram drafters."""
        setup = self._app.session.setup
        speculation = None if setup is None else setup.speculation
        return None if speculation is None or speculation.ahead else speculation.model

    def _closed(self, _result: None) -> None:
        self._screen = None

    def take(self, event: ChatRecorded) -> None:
        """Take the present recording; None for another pair."""
        self._recording = event.recording
        self.refresh()

    def look_at_chat(self) -> None:
        """Follow what the session is doing, and what a search has measured."""
        if self._doing() != self._seen:
            self.refresh()

    def _doing(self) -> tuple[object, ...]:
        session = self._app.live.activity, self._app.session.conversation.is_answering
        search = self._app.tune.state
        return session if search is None else (*session, search.records, search.costs)

    def refresh(self) -> None:
        """Show what there is, if somebody looks. Costs are fitted aside."""
        self._seen = self._doing()
        if self._screen is not None:
            self._screen.show_made(self._maker())

    def _maker(self) -> "Callable[[], WhatIfState]":
        """Return a function that makes the present state, on any thread."""
        from spectui.live.whatif import WhatIfState, whatif_state  # noqa: PLC0415 - as above
        from spectui.tui.whatif.words import nothing_recorded  # noqa: PLC0415

        setup, recording, search = self._app.session.setup, self._recording, self._app.tune.state
        if setup is None or recording is None:
            return partial(WhatIfState, reason=self._no_recording())
        make = partial(
            whatif_state,
            recording,
            applied=setup.speculation,
            tuned=None if search is None else search.costs.get(recording.draft),
            trials=() if search is None else search.records,
        )
        conversation = self._app.session.conversation
        reason = nothing_recorded(
            recording, is_answering=conversation.is_answering, n_turns=conversation.chat.n_turns
        )
        return lambda: replace(make(), reason=reason)

    def _no_recording(self) -> str:
        """Return why nothing will be recorded as things are."""
        if self._app.session.setup is None:
            return _NO_PAIR
        if not self._app.settings.record_chats:
            return _OFF
        return _LOADING if self._app.live.activity is Activity.LOADING else _NO_DRAFT

    def apply(self, setting: "Model") -> None:
        """Use a setting in the chat from the next answer on; the screen has said so."""
        self._app.session.speculate(Speculation(setting))
        self.refresh()

    def save(self, *, keep_text: bool) -> None:
        """Write a trace, aside."""
        engine, recording = self._app.session.engine, self._recording
        if engine is None or recording is None:
            return
        make = self._maker()

        def save() -> None:
            try:
                told = _save(engine, recording, make(), keep_text=keep_text)
            except SpectuiError as error:
                self._app.call_from_thread(self._app.warn, f"{error}.")
            else:
                tell = partial(self._app.notify, told, markup=False, timeout=10)
                self._app.call_from_thread(tell)

        self._app.run_worker(save, thread=True)


def _save(
    engine: "LiveSession", recording: "ChatRecording", state: "WhatIfState", *, keep_text: bool
) -> str:
    """Write a trace; return what it holds and where it is."""
    from spectui.live.recording import save_trace  # noqa: PLC0415 - numpy is not needed to start

    trace = engine.chat_trace(recording, state.known.costs)
    path = save_trace(trace, keep_text=keep_text)
    text = "with the text" if keep_text else "without text"
    told = f"Saved {counted(len(trace.recordings), 'answer')}, {text}, to {path}"
    n_left_out = len(recording.recordings) - len(trace.recordings)
    # A trace has one way of sampling.
    if n_left_out:
        told += f" ({counted(n_left_out, 'answer')} sampled otherwise left out)"
    return told
