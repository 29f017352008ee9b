"""The start screen: a target, and a draft for it; it loads what is chosen."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static

from spectui.commands.sources.processes import RunningServer
from spectui.demo import DemoModel
from spectui.display import visible
from spectui.errors import SpectuiError
from spectui.format import counted
from spectui.live.sessions import Session
from spectui.models.files import FoundModel, expand_home, usual_folders
from spectui.models.ranking import DraftOption, ModelInspected
from spectui.paths import cache_dir
from spectui.presets import Preset, list_presets
from spectui.tui.chat.loading import Choice, Load
from spectui.tui.chat.screen import LiveScreen
from spectui.tui.launch import Pair
from spectui.tui.picker.lists import PASTE, DraftList, TargetList, detail
from spectui.tui.picker.rows import PickerList
from spectui.tui.threads import Threads
from spectui.tui.widgets import KeyBar, hidden, key

_DEMOS = frozenset({"demo", "demo-moe"})
"""Presets of the demo models, which have one row of their own."""
_BESIDE_CELLS = 150
"""Width from which on both lists show all their columns beside each other."""


class PickerScreen(Screen[Load | None]):
    """Offers earlier pairs, presets, the demo pair and every model found, with drafts ranked.

    Ends with what loads the choice, None without one.
    """

    TITLE = "Models"
    HORIZONTAL_BREAKPOINTS = [(0, "-stacked"), (_BESIDE_CELLS, "-beside")]  # noqa: RUF012 - as Screen has it
    AUTO_FOCUS = "#targets"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("slash", "picker.filter", "Filter", "Filter by typing, or search a folder"),
        hidden("left", "picker.targets", "", "Go to the targets"),
        hidden("right", "picker.drafts", "", "Go to the drafts"),
        hidden(
            "down", "picker.leave_filter", "", "Go from the filter to the targets", action="targets"
        ),
        key("escape", "picker.back", "Back", "Show all targets again, or go back to them"),
    ]

    def __init__(
        self,
        live: LiveScreen,
        threads: Threads,
        *,
        folders: Sequence[Path],
        presets: Sequence[Preset] = (),
    ) -> None:
        """Offer the presets; all else is found later.

        Args:
            live: its session compares pairs, and loads what is chosen.
            threads: look for models, servers and stored sessions.
            folders: where models are looked for.
            presets: those to offer.
        """
        super().__init__()
        self._session, self._loader, self._warn = live.session, live.loader, live.warn
        self._threads = threads
        self._folders = tuple(folders)
        self._n_scans = 1
        """Searches under way: one of the usual folders, one of each that is opened."""
        self._is_stale = False
        self._can_close = live.setup is not None
        self._problem = Static("", id="problem", markup=False)
        self._problem.display = False
        self.targets = TargetList(presets)
        self._drafts = DraftList(live.loader.launch.n_ctx)

    def compose(self) -> ComposeResult:
        """Lay out the two lists and the details of the highlighted row."""
        yield self._problem
        with Container(id="panes"):
            with Vertical(id="target-pane"):
                with Horizontal(classes="bar"):
                    yield Static("Target", classes="title", markup=False)
                    yield Input(
                        placeholder="/ to filter, or the path of a folder",
                        select_on_focus=False,
                        compact=True,
                        id="filter",
                    )
                    yield Static(self._status, id="status", markup=False)
                yield self.targets
            with Vertical(id="draft-pane"):
                with Horizontal(classes="bar"):
                    yield Static("Draft", classes="title", markup=False)
                    yield Static("", id="draft-title", markup=False)
                yield self._drafts
        yield Static("", id="detail", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Look for what can be chosen."""
        self._threads.scan(self._folders, self.add_model, self.scan_finished)
        self._threads.read_sessions(self.targets.show_recent)
        self._threads.look_for_servers(self.targets.show_running)

    def on_unmount(self) -> None:
        """Cancel the comparisons of drafts."""
        self._forget_comparisons()

    def show_problem(self, reason: str) -> None:
        """Show why models were not loaded, until others are chosen."""
        self._problem.update(visible(reason))
        self._problem.display = True

    def add_model(self, model: FoundModel) -> None:
        """Offer a model that was found."""
        if self.targets.add(model):
            self._show_status()
            self._rank_soon()

    def show_inspection(self, inspected: ModelInspected) -> None:
        """Show what became known of a draft, or of the target where ``path`` is the target's."""
        if self._drafts.learn(inspected):
            self._rank_soon()

    def scan_finished(self, reasons: Sequence[str]) -> None:
        """Show that one search has ended, and sentences about folders that cannot be read."""
        self._n_scans -= 1
        self.targets.complete()
        self._show_status()
        for reason in reasons:
            self._warn(f"{reason}.")

    @property
    def _status(self) -> str:
        n_models = counted(len(self.targets.models), "model")
        return f"looking… {n_models}" if self._n_scans else n_models

    def _show_status(self) -> None:
        # A scan may go on after the screen was closed.
        if self.is_mounted and self.is_running:
            self.query_one("#status", Static).update(self._status)

    @on(OptionList.OptionHighlighted, "#targets")
    def _look_at_target(self) -> None:
        # What is highlighted now: the message may be older than the last change of the rows.
        value = self.targets.value
        target = value if isinstance(value, FoundModel) else None
        if target is None or target != self._drafts.target:
            if target is not None:
                # What was asked about the one before is void.
                self._forget_comparisons()
            self._rank(target)
        self._show_detail()

    def _forget_comparisons(self) -> None:
        if (engine := self._session.engine) is not None:
            engine.inspector.forget()

    def _rank_soon(self) -> None:
        """Rank again once, however much was found or inspected until then."""
        if not self._is_stale and self._drafts.target is not None:
            self._is_stale = True
            self.call_later(self._rank_again)

    def _rank_again(self) -> None:
        self._is_stale = False
        if (target := self._drafts.target) is not None:
            self._rank(target)
            self._show_detail()

    def _rank(self, target: FoundModel | None) -> None:
        title = ""
        if target is None:
            self._drafts.show_nothing()
        else:
            title = f"for {target.name}"
            self._drafts.show_target(target, self.targets.models)
            engine, launch = self._session.engine, self._loader.launch
            if engine is not None:
                for draft in self._drafts.take_unknown():
                    pair = Pair(target=target.path, draft=draft.path)
                    engine.inspector.compare(launch.make_setup(pair))
        self.query_one("#draft-title", Static).update(visible(title))

    @on(OptionList.OptionHighlighted, "#drafts")
    @on(events.DescendantFocus)
    def _show_detail(self) -> None:
        focused: PickerList = self._drafts if self._drafts.has_focus else self.targets
        text = detail(focused.entry, self._drafts.target_inspection)
        self.query_one("#detail", Static).update(text)

    @on(OptionList.OptionSelected, "#targets")
    def _choose_target(self) -> None:
        value = self.targets.value
        if isinstance(value, Preset | DemoModel | Session):
            self._choose(value)
        elif isinstance(value, RunningServer):
            self._choose(value.text)
        elif value == PASTE:
            self.notify("Paste the command now, with Ctrl+Shift+V in most terminals.")
        elif self._drafts.target_problem is None:
            self._drafts.focus()
        else:
            self.app.bell()

    def on_paste(self, event: events.Paste) -> None:
        """Take a pasted llama-server command over."""
        if event.text.strip():
            self._choose(event.text.strip())

    @on(OptionList.OptionSelected, "#drafts")
    def _choose_draft(self) -> None:
        value, target = self._drafts.value, self._drafts.target
        is_unfit = isinstance(value, DraftOption) and value.reason is not None
        if target is None or is_unfit or self._drafts.target_problem is not None:
            self.app.bell()
            return
        draft = value.model.path if isinstance(value, DraftOption) else None
        self._choose(Pair(target=target.path, draft=draft))

    def _choose(self, choice: Choice) -> None:
        """Load what was chosen, or say why that cannot be; then the screen stays."""
        try:
            load = self._loader.prepared(choice)
        except SpectuiError as error:
            self.show_problem(str(error))
            return
        self.dismiss(load)

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        self.targets.filter(event.value)

    @on(Input.Submitted, "#filter")
    def _look_in(self, event: Input.Submitted) -> None:
        """Search the folder whose path was typed: the filter leaves what lies in it."""
        folder = os.path.expanduser(event.value.strip())  # noqa: PTH111 - there may be no home
        if folder.startswith("/"):
            event.input.value = folder
            self._n_scans += 1
            self._show_status()
            self._threads.scan((Path(folder),), self.add_model, self.scan_finished)
        self.action_targets()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the way back only where there is one."""
        del parameters
        if action != "back" or not self.is_mounted:
            return True
        field = self.query_one("#filter", Input)
        return self._drafts.has_focus or field.has_focus or bool(field.value) or self._can_close

    def action_targets(self) -> None:
        """Go to the targets."""
        self.targets.focus()

    def action_drafts(self) -> None:
        """Go to the drafts."""
        self._drafts.focus()

    def action_filter(self) -> None:
        """Go to the filter."""
        self.query_one("#filter").focus()

    def action_back(self) -> None:
        """Go back to the targets, then to all of them, then to where the picker was opened."""
        field = self.query_one("#filter", Input)
        if self._drafts.has_focus:
            self.targets.focus()
        elif field.value or field.has_focus:
            field.clear()
            self.targets.focus()
        elif self._can_close:
            self.dismiss(None)


def make_picker(live: LiveScreen, threads: Threads, own_folders: Sequence[str]) -> PickerScreen:
    """Return the picker over the usual folders and presets, and the user's own folders."""
    # The demo's models lie in the cache: behind the user's own.
    own = map(expand_home, own_folders)
    folders = sorted((*own, *usual_folders()), key=cache_dir().absolute().__eq__)
    presets = [one for one in list_presets(live.warn) if one.is_ready and one.name not in _DEMOS]
    return PickerScreen(live, threads, folders=folders, presets=presets)
