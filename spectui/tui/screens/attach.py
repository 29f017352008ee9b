"""The screen over a running llama-server."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from spectui.server.watch.state import AttachState
from spectui.tui.attach.column import AttachPanels
from spectui.tui.attach.machine import Machine
from spectui.tui.attach.words import connection, title, trouble
from spectui.tui.glyphs import glyphs_of
from spectui.tui.panels.paint import own
from spectui.tui.widgets.key_bar import KeyBar
from spectui.tui.widgets.status_bar import StatusBar


class AttachScreen(Screen[None]):
    """Shows what it is told. Knows no server."""

    DEFAULT_CSS = """
    AttachScreen {
        & #trouble {
            display: none; height: auto; max-height: 3; padding: 0 1;
            background: $warning 20%; color: $text-warning;
        }
        & #trouble.-shown { display: block; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "retry", "Ask now", id="attach.retry", tooltip="Ask the server at once"),
        Binding(
            "p",
            "pause",
            "Pause",
            id="attach.pause",
            tooltip="Hold the picture; what happens meanwhile is kept",
        ),
    ]

    class RetryRequested(Message):
        """The user does not want to wait."""

    def __init__(self, state: AttachState) -> None:
        """Show what is known before the first answer."""
        super().__init__()
        self._state = state
        self._machine = Machine()
        self._panels = AttachPanels()
        self._status = StatusBar()
        self._trouble = Static(markup=False, id="trouble")
        self.is_paused = False

    def compose(self) -> ComposeResult:
        """Status, what is wrong, panels, keys."""
        yield self._status
        yield self._trouble
        yield self._panels
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the beginning."""
        self.show(self._state, self._machine)

    def show(self, state: AttachState, machine: Machine) -> None:
        """Show this, unless the user holds the picture."""
        self._state, self._machine = state, machine
        self._status.right = connection(state.link, is_paused=self.is_paused)
        if self.is_paused:
            return
        glyphs = glyphs_of(self)
        self._status.left = own(title(state), glyphs)
        wrong = own(trouble(state.link), glyphs)
        self._trouble.update(wrong)
        self._trouble.set_class(bool(wrong), "-shown")
        self._panels.show(state, machine)

    def action_retry(self) -> None:
        """Ask at once."""
        self.post_message(self.RetryRequested())

    def action_pause(self) -> None:
        """Hold the picture, or go on."""
        self.is_paused = not self.is_paused
        self.show(self._state, self._machine)
