"""Keys and actions, made from the same registry as the footer and the command palette."""

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from spectui.settings import settings_path
from spectui.tui.commands import Action
from spectui.tui.widgets.key_bar import KeyBar

_PLACES = {
    "app": "Everywhere",
    "attach": "Attached server",
    "live": "Live screen",
    "prompt": "Prompt",
    "tune": "Tune screen",
    "whatif": "What-if screen",
    "export": "Export screen",
    "picker": "Choosing models",
    "folder": "Opening a folder",
    "settings": "Settings",
}


class HelpScreen(ModalScreen[None]):
    """A table of all actions with their keys and ids."""

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > VerticalScroll {
            width: 90%; max-width: 100; height: 90%;
            background: $surface; border: round $primary; padding: 0 1;
        }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q", "dismiss", "Back", id="help.back", tooltip="Close the help")
    ]

    def __init__(self, actions: Sequence[Action]) -> None:
        """Show ``actions``."""
        super().__init__()
        self._actions = actions

    def compose(self) -> ComposeResult:
        """One table, scrollable."""
        with VerticalScroll(can_focus=True) as scroll:
            scroll.border_title = "Keys and actions"
            yield Static(self._table(), markup=False)
        yield KeyBar()

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True)
        for place, actions in groupby(self._actions, key=lambda action: action.place):
            table.add_row(Text(_PLACES.get(place, place), style="bold"), "", "")
            for action in actions:
                table.add_row(
                    Text(action.keys, style="reverse"),
                    Text(action.help),
                    Text(action.id, style="dim"),
                )
            table.add_row("", "", "")
        table.add_row("", Text(f"To change a key, write its id under [keys] in {settings_path()}"))
        return table
