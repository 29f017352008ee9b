"""A search beside the chat, and what replay says of the chat: settings, verdict, actions."""

import asyncio
from dataclasses import replace
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import var
from textual.screen import Screen
from textual.widgets import Input, Static

from spectui.live.recording import ChatRecording
from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.trace.replay import Total
from spectui.tui import draw
from spectui.tui.tune import ledger as settings
from spectui.tui.tune.controller import TuneController
from spectui.tui.tune.form import TuneSetup
from spectui.tui.tune.views import COMING, INTRODUCTION, SettingsTable, TuneStatus, basis
from spectui.tui.widgets import KeyBar, key
from spectui.tune.progress import Phase, TuningState


class TuneScreen(Screen[None]):
    """Shows the state of the search, and passes the user's actions on to it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before the field that has the focus, which would take it; not shown twice in the footer.
        replace(
            key("enter", "tune.begin", "Start", "Start what the form asks for", display="enter"),
            priority=True,
        ),
        key("s", "tune.start", "Start", "Start tuning, or go on with it"),
        key("x", "tune.stop", "Stop", "End tuning; Start goes on from what it has found"),
        key("escape", "tune.back", "Back", "Leave; tuning goes on"),
    ]
    AUTO_FOCUS = "SettingsTable"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-medium"), (36, "-tall"), (54, "-large")]  # noqa: RUF012 - as Screen has it

    chat_is_busy: var[bool] = var(False, init=False)
    """Whether a turn of the chat has the engine."""
    running_s: var[int | None] = var(None, init=False)
    """Seconds since the start of the search; None where none runs."""
    prompts: var[str | None] = var(None, init=False)
    """Which prompts the search uses, in words; None if that is not known."""
    shows_replay: var[bool] = var(False, init=False)
    """Whether the replay of the chat is shown in place of the search."""
    recorded: var[tuple[ChatRecording, Costs | None] | None] = var(None, init=False)
    """Answers of the chat, with the costs that tuning measured; None if none will be recorded."""
    not_recorded: var[str] = var("", init=False)
    """Why there is no answer to replay, in a sentence."""
    in_use: var[Speculation | None] = var(None, init=False)
    """The chat's setting, where only the recorded drafter drafts; else None."""

    def __init__(self, search: TuneController, state: TuningState | None = None) -> None:
        """Begin with a search's state; without one no search was started."""
        super().__init__()
        self._search = search
        self._state = state or TuningState()
        self._ledger = settings.digest(self._state)
        self._asks = False
        """Whether the form of the next search is open."""
        self._available: frozenset[str] = frozenset()
        self._replayed: tuple[ChatRecording, tuple[Total, ...]] | None = None
        """Recorded answers with their replay, while it is shown."""

    def compose(self) -> ComposeResult:
        """Head, form, and the settings."""
        yield TuneStatus()
        yield TuneSetup()
        yield Static(INTRODUCTION, id="introduction", markup=False)
        yield Static(id="basis", markup=False)
        yield SettingsTable()
        yield Static(id="detail", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Show what there is."""
        for shown in ("chat_is_busy", "running_s", "prompts", "not_recorded"):
            self.watch(self, shown, self._show_state, init=False)
        for shown in ("recorded", "in_use"):
            self.watch(self, shown, self._look_at_chat, init=False)
        self.watch(self, "shows_replay", self._show_other)

    def _show_other(self) -> None:
        """Show the search, or the replay."""
        self._show_settings()
        self.refresh_bindings()
        self._replay()
        setup = self.query_one(TuneSetup)
        (setup.sources if setup.display else self.query_one(SettingsTable)).focus()

    def _look_at_chat(self) -> None:
        self._replay()

    @work(exclusive=True)
    async def _replay(self) -> None:
        """Replay every setting on the chat, on a thread, while the replay is shown."""
        known = self.recorded if self.shows_replay else None
        if known is None or not known[0].recordings:
            self._replayed = None
        else:
            self._replayed = known[0], await asyncio.to_thread(settings.replay_chat, *known)
        # The screen may have been closed meanwhile, with its table gone.
        if self in self.app.screen_stack:
            self._show_settings()

    def look(self) -> None:
        """Show the present state of the search and of the chat."""
        search = self._search
        self.chat_is_busy, self.prompts = search.chat_is_busy, search.prompts
        self.running_s = search.running_s
        self.not_recorded, self.in_use = search.not_recorded, search.in_use
        self.recorded = search.recorded
        if search.state is not None and search.state is not self._state:
            self.show(search.state)

    def show(self, state: TuningState) -> None:
        """Show the state of the search. To be called on the app's thread."""
        before, self._state = self._state, state
        has_changed = any(
            getattr(state, name) is not getattr(before, name)
            for name in ("records", "forecasts", "looked", "result")
        )
        if has_changed:
            self._ledger = settings.digest(state)
        if not self.is_mounted:
            return
        with self.app.batch_update():
            if has_changed:
                self._show_settings()
            else:
                self._show_state()

    def ask(self, problem: str | None = None) -> None:
        """Open the form, with the reason why no search was started if one was refused."""
        self._asks = True
        self._show_state()
        setup = self.query_one(TuneSetup)
        if problem is not None:
            setup.tell(problem)
        setup.begin()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out actions that make no sense now."""
        del parameters
        if action == "apply_selected":
            row = self.query_one(SettingsTable).selected if self.is_mounted else None
            return row is not None and row.is_known
        if action not in settings.ACTIONS:
            return True
        if self.shows_replay or (action == "start" and isinstance(self.focused, Input)):
            # A letter would be typed into the field.
            return False
        return action in self._available

    def action_start(self) -> None:
        """Start a search, or first open its form."""
        setup = self.query_one(TuneSetup)
        if not setup.display:
            self.ask()
        elif (wanted := setup.read()) is not None:
            self._asks = False
            self._show_state()
            self._search.start(wanted)

    action_begin = action_start

    def action_stop(self) -> None:
        """End the search."""
        self._search.stop()

    def action_apply_selected(self) -> None:
        """Use the selected setting in the chat."""
        row = self.query_one(SettingsTable).selected
        if row is not None and row.is_known:
            self._search.apply(row.arm)
            self.in_use = self._search.in_use
            what = "Speculation is turned off" if row.arm.is_off else f"Applied {row.arm.label}"
            sentence = draw.one_line(f"{what} ({row.origin}), from the next answer on.")
            self.notify(sentence, markup=False)

    def action_back(self) -> None:
        """Leave the form, or the screen."""
        if self._asks and not self.shows_replay and not self._is_empty:
            self._asks = False
            self._show_state()
            self.query_one(SettingsTable).focus()
        else:
            self.dismiss()

    @property
    def _is_empty(self) -> bool:
        """Whether there is nothing behind the form."""
        return self._state.phase is Phase.IDLE and not self._state.records

    def _show_settings(self) -> None:
        ledger = self._ledger
        if self.shows_replay:
            ledger = settings.Ledger()
            if self._replayed is not None:
                recording, totals = self._replayed
                ledger = settings.replayed(recording.draft, totals, self.in_use)
        self.query_one(SettingsTable).show(ledger)
        self._show_state()
        self.refresh_bindings()

    @on(SettingsTable.RowHighlighted)
    def _on_row(self) -> None:
        self._show_detail()
        self.refresh_bindings()

    def _show_detail(self) -> None:
        """Show the details of the selected row, or why there are no rows yet."""
        table, detail = self.query_one(SettingsTable), self.query_one("#detail", Static)
        row, text = table.selected, ""
        if row is not None:
            label = draw.one_line(row.arm.label)
            is_whole = table.label(row.arm) == label and len(label) <= self.size.width // 2
            text = " • ".join(filter(None, (label * (not is_whole), row.detail)))
        elif self._state.is_running and not self.shows_replay:
            text = COMING
        if detail.content != text:
            detail.update(text)
        detail.display = bool(text)

    def _show_state(self) -> None:
        state, replays = self._state, self.shows_replay
        self.query_one(TuneStatus).show(
            state,
            self._ledger,
            chat_is_busy=self.chat_is_busy,
            running_s=self.running_s,
            prompts=self.prompts,
        )
        self.query_one(TuneStatus).display = not replays
        self._show_detail()
        setup, line = self.query_one(TuneSetup), self.query_one("#basis", Static)
        setup.display = not replays and (self._is_empty or (self._asks and not state.is_running))
        self.query_one("#introduction").display = self._is_empty and not replays
        table = self.query_one(SettingsTable)
        table.display = table.row_count > 0
        line.display = replays
        if replays:
            line.update(self._basis())
        if not setup.display and (self.focused is None or setup in self.focused.ancestors):
            table.focus()
        available = settings.available(state)
        if setup.display:
            # The form has a key of its own.
            available |= {"begin"}
        if available != self._available:
            # The footer is built anew: only when there is something new to build.
            self._available = available
            self.refresh_bindings()

    def _basis(self) -> str:
        """Data behind the settings of the replay, or why there are none."""
        if self._replayed is not None:
            return basis(*self._replayed)
        if self.recorded is not None and self.recorded[0].recordings:
            return "What if: every setting is being replayed on what was answered."
        return f"What if: {self.not_recorded}"
