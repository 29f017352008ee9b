"""llama.cpp's own log."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Log

from spectui.tui.log_lines import LogLines
from spectui.tui.widgets.key_bar import KeyBar

_LINES = 5_000
_LOOK_S = 0.5


class LogScreen(Screen[None]):
    """Follows the log while it is open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f8,q", "dismiss", "Back", id="log.back", tooltip="Close the log")
    ]

    def __init__(self, lines: LogLines) -> None:
        """Show ``lines``."""
        super().__init__()
        self._lines = lines
        self._n_shown = 0

    def compose(self) -> ComposeResult:
        """The log fills the screen."""
        yield Log(max_lines=_LINES, highlight=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Show what there is, and what comes."""
        self.query_one(Log).focus()
        self._follow()
        self.set_interval(_LOOK_S, self._follow)

    def _follow(self) -> None:
        self._n_shown, lines = self._lines.since(self._n_shown)
        if lines:
            self.query_one(Log).write_lines(lines)
