"""Screens over another one: a question that stays until it is answered, the log, the help."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Log, Static

from spectui.paths import log_path
from spectui.settings import settings_path
from spectui.tui.look import ROLES
from spectui.tui.widgets import KeyBar, key, key_name


class QuestionScreen(ModalScreen[bool]):
    """Ends with True for yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape", "question.no", "No", "Leave it", action="answer(False)"),
        key(
            "tab,left,right",
            "question.other",
            "Other answer",
            "Go to the other answer; Enter gives it",
            action="app.focus_next",
            display="tab",
        ),
    ]

    def __init__(self, sentence: str, *, yes: str, no: str) -> None:
        """Ask.

        Args:
            sentence: the question.
            yes: answer to go on.
            no: answer to leave it, which has the keys at first.
        """
        super().__init__()
        self._sentence = sentence
        self._yes = yes
        self._no = no

    def compose(self) -> ComposeResult:
        """The sentence, and the answers below it."""
        with VerticalScroll(can_focus=False):
            yield Static(self._sentence, markup=False)
            with Horizontal():
                yield Button(self._yes, compact=True, id="question-yes")
                yield Button(self._no, variant="primary", compact=True, id="question-no")
        yield KeyBar()

    def on_mount(self) -> None:
        """Let Enter leave it."""
        self.query_one("#question-no").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "question-yes")

    def action_answer(self, answer: bool) -> None:  # noqa: FBT001 - an action's argument
        """Answer."""
        self.dismiss(answer)


_SHOWN_BYTES = 200_000
"""Bytes of the log's end that are shown; an editor shows the rest."""
_LOOK_S = 0.5


class LogScreen(Screen[None]):
    """Follows the log of native code while it is open."""

    TITLE = "Log"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape,f8,q", "log.back", "Back", "Close the log", action="dismiss")
    ]

    def __init__(self) -> None:
        """Begin near the end of the file."""
        super().__init__()
        self._path = log_path()
        self._at = max(0, self._path.stat().st_size - _SHOWN_BYTES)

    def compose(self) -> ComposeResult:
        """The log fills the screen."""
        yield Log(highlight=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the end of the log, and every line that is added."""
        self.query_one(Log).focus()
        self._follow()
        self.set_interval(_LOOK_S, self._follow)

    def _follow(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._at)
            if data := file.read():
                self._at += len(data)
                self.query_one(Log).write(data.decode(errors="replace"))


_SWATCH = "███"
_KEY_CELLS = 16
"""Cells for keys: some actions have several."""
_IDS_FROM = 60
"""Width from which on the help has a column of ids beside what the keys do."""
_OTHERS = (
    ("Up, Down", "In the prompt: what was asked before, and back"),
    ("PgUp, PgDn", "Scroll what has the focus"),
    ("Ctrl+P", "Other looks, and a picture of the screen"),
    ("Mouse", "Select text; Ctrl+C copies it"),
)
"""Keys that every terminal program has, or Textual."""


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
        table.add_column(ratio=1, overflow="fold")
        table.add_column(no_wrap=True, style="dim")
        for action in self._actions:
            # A span: the style of a whole text would fill its cell.
            keys = Text.assemble((f" {action.key_display} ", "reverse"))
            name = str(action.id) if self.app.size.width >= _IDS_FROM else ""
            table.add_row(keys, Text(action.tooltip or action.description), name)
        for others, about in _OTHERS:
            table.add_row(Text(f" {others} "), Text(about))
        table.add_row()
        for name, (meaning, _colours) in ROLES.items():
            colour = self.app.theme_variables[name].removeprefix("ansi_")
            table.add_row(Text.assemble(f" {_SWATCH} ", style=colour), Text(meaning))
        table.add_row()
        # A text of its own: as markup the brackets would be gone.
        advice = f"To change a key, write its id under [keys] in {settings_path()}"
        table.add_row("", Text(advice))
        return table
