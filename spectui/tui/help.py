"""All actions by the stable ids of their bindings: the help screen and the command palette."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual.actions import parse
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from spectui.settings import settings_path
from spectui.tui.colours import ROLES
from spectui.tui.widgets import ChoiceRow, KeyBar, key

if TYPE_CHECKING:
    from spectui.tui.base_app import BaseApp

_SWATCH = 3
_IDS_FROM = 100
"""Columns of a terminal from which on there is room for ids."""
_KEY_CELLS = 16
"""Cells for keys: some actions have several."""
_PLACES = {
    "app": "Everywhere",
    "attach": "Attached server",
    "live": "Live screen",
    "prompt": "Prompt",
    "tune": "Tune screen",
    "map": "Map of the tune screen",
    "export": "Export screen",
    "picker": "Choosing models",
    "folder": "Opening a folder",
    "settings": "Settings",
    "question": "Questions",
    "choice": "Rows of options",
}


def actions_of(node_type: type[DOMNode], app: "BaseApp") -> Iterator[Binding]:
    """Bindings with an id that a class and its parents define, to show with the user's keys."""
    for kind in node_type.__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id:
                keys = app.settings.keys.get(binding.id, binding.key).split(",")
                shown = (app.get_key_display(Binding(each.strip(), "")) for each in keys)
                yield replace(binding, key_display=", ".join(shown))


def all_actions(app: "BaseApp") -> tuple[Binding, ...]:
    """Every action of every screen, by screen; those of the present one first."""
    # Imported here: the screens of later use are not needed to start.
    from spectui.tui.chat.prompt_box import PromptBox  # noqa: PLC0415
    from spectui.tui.chat.screen import LiveScreen  # noqa: PLC0415
    from spectui.tui.chat.settings import SettingsScreen  # noqa: PLC0415
    from spectui.tui.export import ExportScreen  # noqa: PLC0415
    from spectui.tui.picker.folder import FolderScreen  # noqa: PLC0415
    from spectui.tui.picker.list import PickerList  # noqa: PLC0415
    from spectui.tui.picker.screen import PickerScreen  # noqa: PLC0415
    from spectui.tui.question import QuestionScreen  # noqa: PLC0415
    from spectui.tui.tune.map import Heatmap  # noqa: PLC0415
    from spectui.tui.tune.screen import TuneScreen  # noqa: PLC0415
    from spectui.tui.tune.table import TrialsTable  # noqa: PLC0415

    places: tuple[type[DOMNode], ...] = (
        type(app),
        LiveScreen,
        PromptBox,
        SettingsScreen,
        TuneScreen,
        ChoiceRow,
        TrialsTable,
        Heatmap,
        ExportScreen,
        PickerScreen,
        PickerList,
        FolderScreen,
        QuestionScreen,
    )
    first = sorted(places, key=lambda place: not isinstance(app.screen, place))
    found = {action.id: action for place in first for action in actions_of(place, app)}
    return tuple(found.values())


def attach_actions(app: "BaseApp") -> tuple[Binding, ...]:
    """Every action of the screen over a running server, which is an app of its own."""
    from spectui.tui.attach import app as attach  # noqa: PLC0415 - as above

    places = (attach.AttachApp, attach.AttachScreen)
    found = (action for place in places for action in actions_of(place, app))
    # Parents of both have actions of the app.
    return tuple(sorted(found, key=lambda one: not str(one.id).startswith("app.")))


def system_commands(app: "BaseApp", screen: Screen[object]) -> Iterable[SystemCommand]:
    """Offer what can be done now in the command palette, each once, by the key that is shown."""
    for node in (screen, app):
        # The last of each action counts: the one whose key the footer shows.
        found = sorted(actions_of(type(node), app), key=lambda binding: binding.show)
        for binding in {binding.action: binding for binding in found}.values():
            _namespace, name, parameters = parse(binding.action)
            if node.check_action(name, parameters):
                yield SystemCommand(
                    f"{binding.description} ({binding.key_display})",
                    binding.tooltip or binding.description,
                    partial(app.run_action, binding.action, node),
                )


class HelpScreen(ModalScreen[None]):
    """A table of all actions with their keys and ids."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape,f1,q", "help.back", "Back", "Close the help", action="dismiss")
    ]

    def __init__(self, actions: Sequence[Binding]) -> None:
        """Show ``actions``."""
        super().__init__()
        self._actions = actions
        self._has_ids: bool | None = None
        """Whether ids are shown; None before anything is."""

    def compose(self) -> ComposeResult:
        """One table, scrollable."""
        with VerticalScroll(can_focus=True) as scroll:
            scroll.border_title = "Keys and actions"
            yield Static(markup=False)
        yield KeyBar()

    def on_resize(self) -> None:
        """Explanations go before ids, which only who changes a key looks for."""
        has_ids = self.size.width >= _IDS_FROM
        if has_ids is not self._has_ids:
            self._has_ids = has_ids
            self.query_one(Static).update(self._table(has_ids=has_ids))

    def _table(self, *, has_ids: bool) -> Table:
        table = Table.grid(padding=(0, 2) if has_ids else (0, 1))
        table.add_column(max_width=_KEY_CELLS)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True)
        for place, actions in groupby(self._actions, key=lambda each: str(each.id).split(".")[0]):
            table.add_row(Text(_PLACES.get(place, place), style="bold"), "", "")
            for action in actions:
                table.add_row(
                    # A span: the style of a whole text would fill its cell.
                    Text.assemble((f" {action.key_display} ", "reverse")),
                    Text(action.tooltip or action.description),
                    Text(str(action.id) if has_ids else "", style="dim"),
                )
            table.add_row("", "", "")
        table.add_row(Text("Colours", style="bold"), "", "")
        for role in ROLES:
            colour = self.app.theme_variables[role.name].removeprefix("ansi_")
            block = "█" * _SWATCH
            table.add_row(Text.assemble(f" {block} ", style=colour), Text(role.meaning), "")
        table.add_row("", "", "")
        its_id = "its id" if has_ids else f"its id (shown from {_IDS_FROM} columns on)"
        table.add_row(
            "", Text(f"To change a key, write {its_id} under [keys] in {settings_path()}")
        )
        return table
