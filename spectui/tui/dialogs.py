"""A question that stays until it is answered, and the log of llama.cpp."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Log, Static

from spectui.paths import log_path
from spectui.tui.widgets import KeyBar, key


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
            sentence: what there is to say.
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
"""End of the log that is shown; an editor has the rest."""
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
        """Show what there is, and what comes."""
        self.query_one(Log).focus()
        self._follow()
        self.set_interval(_LOOK_S, self._follow)

    def _follow(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._at)
            if data := file.read():
                self._at += len(data)
                self.query_one(Log).write(data.decode(errors="replace"))
