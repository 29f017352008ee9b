"""The help: all actions of a screen by the stable ids of their bindings, and the colours."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.screen import ModalScreen
from textual.widgets import Static

from spectui.settings import settings_path
from spectui.tui.look import ROLES
from spectui.tui.widgets import KeyBar, key, key_name

_SWATCH = "███"
_KEY_CELLS = 16
"""Cells for keys: some actions have several."""


def actions_of(node_type: type[DOMNode], keys: Mapping[str, str]) -> Iterator[Binding]:
    """Bindings with an id that a class and its parents define, to show with the user's ``keys``."""
    for kind in node_type.__mro__:
        for binding in kind.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.id:
                bound = keys.get(binding.id, binding.key).split(",")
                yield replace(
                    binding, key_display=", ".join(key_name(each.strip()) for each in bound)
                )


class HelpScreen(ModalScreen[None]):
    """A table of all actions with their keys and ids, those of the screen's widgets first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape,f1,q", "help.back", "Back", "Close the help", action="dismiss")
    ]

    def __init__(self, actions: Iterable[Binding]) -> None:
        """Show ``actions``, each once."""
        super().__init__()
        self._actions = {action.id: action for action in actions}.values()

    def compose(self) -> ComposeResult:
        """One table, scrollable."""
        with VerticalScroll(can_focus=True) as scroll:
            scroll.border_title = "Keys and actions"
            yield Static(self._table(), markup=False)
        yield KeyBar()

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(max_width=_KEY_CELLS)
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, style="dim")
        for action in self._actions:
            # A span: the style of a whole text would fill its cell.
            keys = Text.assemble((f" {action.key_display} ", "reverse"))
            table.add_row(keys, Text(action.tooltip or action.description), str(action.id))
        table.add_row()
        for role in ROLES:
            colour = self.app.theme_variables[role.name].removeprefix("ansi_")
            table.add_row(Text.assemble(f" {_SWATCH} ", style=colour), Text(role.meaning))
        table.add_row()
        table.add_row("", f"To change a key, write its id under [keys] in {settings_path()}")
        return table
