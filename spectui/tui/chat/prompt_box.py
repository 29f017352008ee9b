"""The box that prompts are written in: Enter sends, Ctrl+J starts a new line, Up recalls."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import var
from textual.widgets import TextArea

from spectui.tui.draw import one_line
from spectui.tui.widgets import hidden

MAX_EDITED_CHARS = 10_000
"""Longer texts are sent as they are, but stand in the box as a label."""


class PromptBox(TextArea):
    """A box that grows with its text up to six lines and remembers what was sent.

    Up in the first line and Down in the last one walk through earlier prompts, with what was being
    written as the newest. Changes to a recalled prompt last until the next one is sent. A very long
    text that is pasted or recalled stands as a label, so that keys stay quick.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Not in the footer: the empty box names these keys.
        hidden("enter", "prompt.submit", "Send"),
        hidden("ctrl+j,shift+enter,alt+enter", "prompt.newline", "New line"),
    ]

    class Submitted(Message):
        """The user has sent a prompt; the box is empty again."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    busy: var[bool] = var(default=False)
    """Whether an answer is being written. Enter sends then, too."""

    def __init__(self, *, placeholder: str = "") -> None:
        """Create an empty box, with a text that stands in it while it is empty."""
        super().__init__(placeholder=Content(placeholder), highlight_cursor_line=False)
        self._hint = self.placeholder
        # A blinking cursor repaints twice a second for as long as the app idles.
        self.cursor_blink = False
        self.prompts: list[str] = []
        """Sent prompts, the oldest first."""
        self._walk = [""]
        self._position = 0
        self._folded: dict[str, str] = {}

    async def on_key(self, event: events.Key) -> None:
        """Run the box's bindings at once, so that fast keys act in the order they were pressed.

        Otherwise the app runs them when the event comes back to it, after keys that were pressed
        later but need no binding.
        """
        if event.is_printable:
            return
        active = self.screen.active_bindings.get(event.key)
        if active is not None and active.node is self and active.enabled:
            event.stop()
            event.prevent_default()
            await self.run_action(active.binding.action)

    def show_waiting(self, text: str | None) -> None:
        """Show in the empty box a prompt that will be sent later; None for none."""
        waits = None if text is None else Content(f"Will be sent: {one_line(text)}")
        self.placeholder = self._hint if waits is None else waits

    def watch_busy(self) -> None:
        """Show the state in the border."""
        self.set_class(self.busy, "-busy")

    def action_submit(self) -> None:
        """Send the text unless it is blank."""
        text = self._unfold(self.text)
        if not text.strip():
            return
        self.set_aside()
        self.post_message(self.Submitted(text))

    def action_newline(self) -> None:
        """Start a new line at the cursor."""
        self.replace("\n", *self.selection, maintain_selection_offset=False)

    def set_aside(self) -> bool:
        """Empty the box and keep its text among the prompts; False if there was nothing in it."""
        text = self._unfold(self.text)
        if text.strip() and self.prompts[-1:] != [text]:
            self.prompts.append(text)
        if text:
            self._start_over()
        return bool(text)

    def remember(self, prompts: Sequence[str]) -> None:
        """Add earlier prompts, the oldest first, before those that are known."""
        known = set(self.prompts)
        earlier = [prompt for prompt in prompts if prompt not in known]
        self.prompts[:0] = self._walk[:0] = earlier
        self._position += len(earlier)

    def put_back(self, text: str) -> None:
        """Return a prompt that could not be used, unless the user has begun another."""
        if not self.text:
            self._show(text)

    def action_cursor_up(self, select: bool = False) -> None:  # noqa: FBT001, FBT002 - as in TextArea
        """Go up a line, from the first one to the prompt before."""
        at_edge = self.navigator.is_first_wrapped_line(self.cursor_location)
        if select or not at_edge or not self._recall(self._position - 1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:  # noqa: FBT001, FBT002 - as in TextArea
        """Go down a line, from the last one to the prompt after."""
        at_edge = self.navigator.is_last_wrapped_line(self.cursor_location)
        if select or not at_edge or not self._recall(self._position + 1):
            super().action_cursor_down(select)

    def _recall(self, position: int) -> bool:
        if not 0 <= position < len(self._walk):
            return False
        self._walk[self._position] = self._unfold(self.text)
        self._position = position
        self._show(self._walk[position])
        return True

    def _show(self, text: str) -> None:
        self.load_text(self._fold(text))
        self.move_cursor(self.document.end)

    def _on_paste(self, event: events.Paste) -> None:  # type: ignore[override]
        """Put a label in place of a long text."""
        event.text = self._fold(event.text)

    def _fold(self, text: str) -> str:
        """Return a text, or a label for one so long that every key would take noticeable time."""
        if len(text) <= MAX_EDITED_CHARS:
            return text
        label = f"[long text {len(self._folded) + 1}: {len(text):,} characters]"
        self._folded[label] = text
        return label

    def _unfold(self, text: str) -> str:
        for label, folded in self._folded.items():
            text = text.replace(label, folded)
        return text

    def _start_over(self) -> None:
        self._walk = [*self.prompts, ""]
        self._position = len(self.prompts)
        self._folded = {}
        self.load_text("")
