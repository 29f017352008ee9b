"""A question that stays until it is answered, and the log of llama.cpp."""

import threading
from collections import deque
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Log, Static

from spectui.tui.widgets import KeyBar, key


class QuestionScreen(ModalScreen[bool]):
    """Ends with True for yes. Without a text for that it only says something."""

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

    def __init__(self, sentence: str, *, yes: str | None = None, no: str = "Close") -> None:
        """Ask.

        Args:
            sentence: what there is to say.
            yes: answer to go on; None where that cannot be.
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
                if self._yes is not None:
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
