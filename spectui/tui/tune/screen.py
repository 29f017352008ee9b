"""Background tuning, watched and steered."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.reactive import var
from textual.screen import Screen
from textual.widgets import Input, Static, Tab, Tabs

from spectui.live.recording import ChatRecording
from spectui.live.replay import ChatReplay, replay_chat
from spectui.measure.arm import Arm
from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.tui import draw
from spectui.tui.tune import ledger as settings
from spectui.tui.tune import words
from spectui.tui.tune.form import Filled, TuneSetup
from spectui.tui.tune.map import Heatmap, replayed, searched
from spectui.tui.tune.status import TuneStatus
from spectui.tui.tune.table import TrialsTable
from spectui.tui.widgets import KeyBar, hidden, key, key_of
from spectui.tune.progress import Phase, TuningState

if TYPE_CHECKING:
    from spectui.tui.tune.controller import TuneController


_LETTERS = frozenset({"start", "source"})
"""Actions of the form whose keys are letters."""
_TITLES = {"settings": "Settings", "map": "Map"}


class TuneViews(Container):
    """Settings as a table and as a map."""

    def __init__(self) -> None:
        super().__init__()
        self._ledger = settings.Ledger()
        self._chat: ChatReplay | None = None
        self._in_use: Speculation | None = None

    def compose(self) -> ComposeResult:
        """The tabs, and what they choose from."""
        titles = enumerate(_TITLES.items(), 1)
        yield Tabs(*(Tab(f"{key} {title}", id=f"tab-{view}") for key, (view, title) in titles))
        with Container(id="views"):
            with Vertical(id="settings", classes="view"):
                yield TrialsTable()
                yield Static(id="detail", markup=False)
            with Vertical(id="map", classes="view"):
                yield Heatmap()
                yield Static(id="cell", markup=False)

    def on_mount(self) -> None:
        """Name the views."""
        for view, title in _TITLES.items():
            self.query_one(f"#{view}").border_title = title

    def show(
        self,
        ledger: settings.Ledger,
        chat: ChatReplay | None = None,
        in_use: Speculation | None = None,
    ) -> None:
        """Show the settings of ``ledger``, and all of them on the map.

        Args:
            ledger: the settings of a search.
            chat: what was replayed on the chat, to be on the map in place of the search.
            in_use: how the chat drafts, if it is on the map.
        """
        self._ledger, self._chat, self._in_use = ledger, chat, in_use
        self.query_one(TrialsTable).show(ledger)
        heatmap = self.query_one(Heatmap)
        if chat is None:
            heatmap.show(searched(ledger))
        else:
            heatmap.show(replayed(chat), is_speedup=chat.costs is not None)
        self._show_selected()

    @on(Heatmap.Moved)
    def _show_cell(self) -> None:
        arm, cell = self.query_one(Heatmap).selected, self.query_one("#cell", Static)
        cell.display = arm is not None
        if arm is not None:
            cell.update(self._words(arm))

    def _words(self, arm: Arm) -> str:
        """Text on a setting of the map."""
        chat = self._chat
        if chat is not None:
            total = next(one for one in chat.totals if one.speculation == arm.speculation)
            in_use = arm.speculation == self._in_use
            return words.replayed(total, chat, in_use=in_use)
        rows = [row for row in self._ledger.rows if row.is_known and row.arm == arm]
        if rows:
            return words.setting(rows[-1])
        return words.forecast(next(one for one in self._ledger.forecasts if one.arm == arm))

    @on(TrialsTable.RowHighlighted)
    def _show_selected(self) -> None:
        row, detail = self.query_one(TrialsTable).selected, self.query_one("#detail", Static)
        detail.display = row is not None
        if row is not None:
            detail.update(words.setting(row))

    @on(Tabs.TabActivated)
    def _on_tab(self, event: Tabs.TabActivated) -> None:
        for view in _TITLES:
            self.query_one(f"#{view}").set_class(event.tab.id == f"tab-{view}", "-active")


class TuneScreen(Screen[Filled]):
    """Shows the states that it is given; wishes go to the controller. Returns its filled form."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before the field that has the focus, which would take it; not shown twice in the footer.
        replace(
            key("enter", "tune.begin", "Start", "Start what the form asks for", display="enter"),
            priority=True,
        ),
        key("s", "tune.start", "Start", "Start tuning, or go on with it"),
        key("space", "tune.pause", "Pause", "Let go of the engine at once"),
        key("space", "tune.resume", "Resume", "Let tuning go on"),
        key("x", "tune.stop", "Stop", "End tuning with what it has found"),
        key(
            "a", "tune.apply", "Apply", "Use in the chat what the verdict says, or the best so far"
        ),
        key("e", "tune.export", "Export", "Show the flags for llama-server"),
        hidden("1", "tune.view_settings", "Show settings", action="view('settings')"),
        hidden("2", "tune.view_map", "Show map", action="view('map')"),
        key("escape", "tune.back", "Back", "Leave; tuning goes on"),
        key(
            "p",
            "tune.source",
            "Prompts",
            "Tune on the built-in prompts, on files, on this chat, or on exported chats",
        ),
        hidden("o", "tune.sort", "Sort", "Sort the settings by the next column"),
        hidden("r", "tune.reverse", "Reverse order", action="sort(True)"),
    ]
    AUTO_FOCUS = "TrialsTable"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Screen has it
        (0, "-narrow"),
        (110, "-wide"),
        (170, "-broad"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (34, "-tall")]  # noqa: RUF012 - as Screen has it

    chat_is_busy: var[bool] = var(False, init=False)
    """Whether a turn of the chat has the engine."""
    n_chat_turns: var[int | None] = var(None)
    """Turns of the chat that could be tuned on; None if that is not known."""
    text_s: var[float | None] = var(None, init=False)
    """Seconds in which the target writes the text of a recording; None if that is not known."""
    missing: var[str | None] = var(None, init=False)
    """Requirement of a search that is not met, as a clause; None if all are."""
    prompts: var[str | None] = var(None, init=False)
    """Which prompts the search uses, in words; None if that is not known."""
    shows_replay: var[bool] = var(False, init=False)
    """Whether the map alone is shown, of the chat if there is an answer to replay."""
    recorded: var[tuple[ChatRecording, Costs | None] | None] = var(None, init=False)
    """Answers of the chat, with the costs that tuning measured; None if none will be recorded."""
    not_recorded: var[str] = var("", init=False)
    """Why there is no answer to replay, in a sentence."""
    in_use: var[Speculation | None] = var(None, init=False)
    """How the chat drafts, if it does so with who is recorded alone."""

    def __init__(
        self,
        controller: "TuneController",
        state: TuningState | None = None,
        filled: Filled | None = None,
    ) -> None:
        """Begin with ``state`` and a form that is ``filled`` in; nothing was started without."""
        super().__init__()
        self._controller = controller
        self._filled = filled or Filled()
        self._state = state or TuningState()
        self._ledger = settings.digest(self._state)
        self._asks = False
        """Whether the user looks at what the next search would do."""
        self._available: frozenset[str] = frozenset()
        self._chat: ChatReplay | None = None
        """Replay on the chat, while that is looked at."""

    def compose(self) -> ComposeResult:
        """Head, form, and two views that are tabs where there is no room for both."""
        yield TuneStatus()
        yield TuneSetup(self._filled).data_bind(TuneScreen.n_chat_turns, TuneScreen.text_s)
        yield Static(id="introduction", markup=False)
        yield Static(id="basis", markup=False)
        yield TuneViews()
        yield KeyBar()

    def on_mount(self) -> None:
        """Show what there is."""
        self._show_views()
        for shown in ("chat_is_busy", "missing", "prompts", "not_recorded"):
            self.watch(self, shown, self._show_state, init=False)
        self.watch(self, "in_use", self._show_views, init=False)
        self.watch(self, "recorded", self._replay, init=False)
        self.watch(self, "shows_replay", self._show_other)

    def _show_other(self) -> None:
        """Show the search, or the replay, with the keys where they are needed first."""
        self._show_state()
        self.refresh_bindings()
        self._replay()
        if self.query_one(TuneSetup).display:
            # Not the path, even where it is what is filled in: letters are keys here.
            self.query_one(TuneSetup).sources.focus()
        elif not self.shows_replay:
            self.query_one(TrialsTable).focus()

    def _replay(self) -> None:
        self.run_worker(self._show_replayed(), group="replay", exclusive=True)

    async def _show_replayed(self) -> None:
        """Replay every setting on the chat, aside, while that is looked at."""
        known = self.recorded if self.shows_replay else None
        if known is None or not known[0].recordings:
            self._chat = None
        else:
            self._chat = await asyncio.to_thread(replay_chat, *known)
        self._show_views()
        self._show_state()
        heatmap = self.query_one(Heatmap)
        if self.shows_replay and not self.has_class("-idle"):
            if self._chat is not None and heatmap.selected is None:
                heatmap.select(Arm(draft=None, speculation=self.in_use))
            heatmap.focus()

    def _show_views(self) -> None:
        views = self.query_one(TuneViews)
        views.show(self._ledger, self._chat, self.in_use)

    def show(self, state: TuningState) -> None:
        """Show how the search stands. To be called on the app's thread."""
        before, self._state = self._state, state
        has_changed = any(
            getattr(state, name) is not getattr(before, name)
            for name in ("records", "forecasts", "result")
        )
        if has_changed:
            self._ledger = settings.digest(state)
        if not self.is_mounted:
            return
        with self.app.batch_update():
            if has_changed:
                self._show_views()
            self._show_state()

    def ask(self, problem: str | None = None) -> None:
        """Show the form, with why nothing was started if something was wrong with it."""
        self._asks = True
        self._show_state()
        setup = self.query_one(TuneSetup)
        if problem is not None:
            setup.tell(problem)
        setup.begin()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what makes no sense now."""
        del parameters
        if self.shows_replay and (action in settings.ACTIONS or action == "view"):
            return False
        if action in _LETTERS and isinstance(self.focused, Input):
            # It would be typed into the field.
            return False
        if action == "begin" and not (self.is_mounted and self.query_one(TuneSetup).display):
            return False
        if action not in settings.ACTIONS or action in self._available:
            return True
        # Dimmed where it will be possible soon.
        return None if action == "apply" and self._state.is_running else False

    def action_start(self) -> None:
        """Start, or first show what would be started."""
        setup = self.query_one(TuneSetup)
        if not setup.display:
            self.ask()
        elif (wanted := setup.read()) is not None:
            self._asks = False
            self._show_state()
            self._controller.start(wanted)

    action_begin = action_start

    def action_pause(self) -> None:
        """Pause, or go on."""
        self._controller.toggle_pause()

    action_resume = action_pause

    def action_stop(self) -> None:
        """End the search."""
        self._controller.stop()

    def action_apply(self) -> None:
        """Use in the chat what tuning found."""
        self._apply(settings.best_choice(self._state, self._ledger))

    def action_apply_selected(self) -> None:
        """Use in the chat the selected setting."""
        self._apply(settings.selected_choice(self.query_one(TrialsTable).selected))

    def action_use(self) -> None:
        """Use in the chat what the map's cursor is on."""
        arm = self.query_one(Heatmap).selected
        if arm is not None:
            self._apply((arm, f"Applied {arm.label}, from the next answer on."))

    def _apply(self, choice: settings.Choice | None) -> None:
        if choice is not None:
            arm, reason = choice
            self._controller.apply(arm)
            self.notify(draw.one_line(reason), markup=False)

    def action_source(self) -> None:
        """Look at the sources of prompts; choose the next one when looking already."""
        choice = self.query_one(TuneSetup).sources
        if self.focused is choice:
            choice.action_move(1)
        else:
            self.ask()
            choice.focus()

    def action_export(self) -> None:
        """Ask for the flags."""
        self._controller.export()

    def action_view(self, view: str) -> None:
        """Show one of the views."""
        self.query_one(Tabs).active = f"tab-{view}"
        # Rows are chosen and applied in the table.
        if view == "settings":
            self.call_after_refresh(self.query_one(TrialsTable).focus)

    def action_sort(self, reverse: bool = False) -> None:  # noqa: FBT001, FBT002 - of a binding
        """Sort the settings by the next column, or reverse their order."""
        table = self.query_one(TrialsTable)
        if reverse:
            table.reverse()
        else:
            table.sort_by_next()

    def action_back(self) -> None:
        """Leave the form, or the screen."""
        # Before the first search there is nothing behind the form.
        hides_settings = self._asks and not self.has_class("-idle")
        if not self.shows_replay and (hides_settings or isinstance(self.focused, Input)):
            self._asks = False
            self.set_focus(None)
            self._show_state()
        else:
            self.dismiss(self.query_one(TuneSetup).filled)

    def _show_state(self) -> None:
        state = self._state
        self._refresh_available()
        self.query_one(TuneStatus).show(
            state, self._ledger, chat_is_busy=self.chat_is_busy, prompts=self.prompts
        )
        is_empty, replays = state.phase is Phase.IDLE and not state.records, self.shows_replay
        self.set_class(replays, "-replay")
        has_no_map = self._chat is None and not state.forecasts
        self.set_class(has_no_map if replays else is_empty, "-idle")
        self.query_one("#map").border_title = "What if" if replays else _TITLES["map"]
        self.query_one("#basis", Static).update(draw.one_line(self._basis()))
        introduction = self.query_one("#introduction", Static)
        introduction.display = is_empty and not replays
        if is_empty:
            begin = key_of(self, "tune.begin")
            introduction.update(words.introduction(begin, self.missing))
        setup = self.query_one(TuneSetup)
        shows = is_empty or (self._asks and not state.is_running)
        setup.display, was_shown = shows and not replays, setup.display
        if setup.display is not was_shown:
            # The form has keys of its own.
            self.refresh_bindings()
        if self.focused is None and not is_empty and not replays:
            self.query_one(TrialsTable).focus()

    def _basis(self) -> str:
        """Data behind the map, while the search is not shown."""
        if self._chat is not None and self.recorded is not None:
            return words.basis(self.recorded[0], self._chat)
        if self.recorded is not None and self.recorded[0].recordings:
            return "Every setting is being replayed on what was answered."
        searched = " The map is of the search's own prompts." if self._state.forecasts else ""
        return self.not_recorded + searched

    @on(TrialsTable.RowHighlighted)
    def _refresh_available(self) -> None:
        # The footer is built anew: only when there is something new to build.
        selected = self.query_one(TrialsTable).selected
        found = settings.available(self._state, self._ledger, selected)
        if found != self._available:
            self._available = found
            self.refresh_bindings()
