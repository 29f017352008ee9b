"""The log of llama.cpp: its last lines, written by native threads, and the screen for them."""

import threading
from collections import deque
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Log

from spectui.tui.widgets import KeyBar, key

_ABORTED = "failed to decode, ret = 2"
"""How llama.cpp tells that it was asked to end a decode, which only spectui asks."""
_NO_ERROR = "spectui: ended on purpose (a stop, or what goes first); this is no error"
_LINES = 5_000
_LOOK_S = 0.5


class LogLines:
    """Keeps the last lines and counts all of them."""

    def __init__(self, capacity: int = 5_000) -> None:
        """Keep ``capacity`` lines."""
        self._lines: deque[str] = deque(maxlen=capacity)
        self._n_added = 0
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Add a line, from any thread."""
        told = (line, _NO_ERROR) if _ABORTED in line else (line,)
        with self._lock:
            self._lines.extend(told)
            self._n_added += len(told)

    def since(self, n_seen: int) -> tuple[int, tuple[str, ...]]:
        """Return how many lines there have been, and those after the first ``n_seen``."""
        with self._lock:
            n_new = min(self._n_added - n_seen, len(self._lines))
            return self._n_added, tuple(self._lines)[len(self._lines) - n_new :]


class LogScreen(Screen[None]):
    """Follows the log while it is open."""

    TITLE = "Log"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("escape,f8,q", "log.back", "Back", "Close the log", action="dismiss")
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
