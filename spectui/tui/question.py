"""A sentence that stays until it is answered: why a pair is not loaded, or whether to do it."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

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
