"""The screen over a running llama-server: its panels, in as many columns as there is room for."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from spectui.server.watch.state import AttachState, LinkState
from spectui.server.watch.words import model_name, named, waiting_for
from spectui.tui.attach.machine import (
    HostMemoryPanel,
    IdentityState,
    Machine,
    MachinePanel,
    ServerPanel,
)
from spectui.tui.attach.panels import DraftsPanel, ServedPanel, SlotsPanel
from spectui.tui.glyphs import ASCII, glyphs_of
from spectui.tui.widgets import KeyBar, StatusBar, key

_TWO_COLUMNS, _THREE_COLUMNS = 72, 150
_PANEL_LINES = 4
"""Height from which on a panel can have a frame."""
_N_PANELS, _N_OF_SERVER = 6, 4


def title(state: AttachState) -> str:
    """Return which server, and which model."""
    facts = state.facts.value
    address = state.link.url.removeprefix("http://")
    return address if facts is None else f"{address}  {model_name(facts)}"


def connection(link: LinkState, *, is_paused: bool) -> str:
    """Return how it stands, in a few words."""
    if is_paused:
        return "paused"
    if link.failure is not None:
        return named(link.failure.trouble)
    if link.waits_s is not None:
        return f"no answer for {link.waits_s:.0f} s"
    if not link.is_connected:
        return "connecting"
    return "connected, answers late" if link.is_late else "connected"


def trouble(link: LinkState) -> str:
    """Return the failure and the next step; empty if nothing is wrong."""
    if link.failure is None:
        return ""
    again = "" if link.retry_s is None else f"; asked again after {link.retry_s:g} s"
    return f"{waiting_for(link.failure)}{again}."


class AttachPanels(VerticalScroll, can_focus=False):
    """Panels of the server, and of its machine if that is this one."""

    DEFAULT_CSS = """
    AttachPanels {
        height: 1fr;
        scrollbar-size-vertical: 1;
        & > Panel {
            height: 1fr; min-height: 2;
            border-top: solid $foreground 30%;
            border-title-color: $text-primary;
            padding-left: 1;
        }
        & > ServedPanel, & > SlotsPanel { height: 3fr; }
        & > DraftsPanel, & > ServerPanel, & > HostMemoryPanel, & > MachinePanel { height: 2fr; }
        & > Panel.-alert { border-title-color: $text-warning; }
        &.-framed > Panel { border: round $foreground 30%; padding: 0 1; }

        &.-two-columns { layout: grid; grid-size: 2; grid-rows: 3fr 3fr 2fr; }
        &.-two-columns.-remote { grid-rows: 1fr; }
        &.-three-columns { layout: grid; grid-size: 3; grid-rows: 3fr 2fr; }
        &.-three-columns.-remote { grid-size: 2; grid-rows: 1fr; }
        &.-two-columns > Panel, &.-three-columns > Panel { height: 1fr; }

        &.-remote > HostMemoryPanel, &.-remote > MachinePanel { display: none; }
        &.-few > HostMemoryPanel, &.-few > MachinePanel { display: none; }

        &.-ascii > Panel { border-top: ascii $foreground 30%; }
        &.-ascii.-framed > Panel { border: ascii $foreground 30%; }
    }
    """

    def compose(self) -> ComposeResult:
        """Its work first, then the server itself and its machine."""
        yield ServedPanel()
        yield DraftsPanel()
        yield SlotsPanel()
        yield ServerPanel()
        yield HostMemoryPanel()
        yield MachinePanel()

    def on_mount(self) -> None:
        """Frames are characters too."""
        self.set_class(glyphs_of(self) is ASCII, "-ascii")

    def on_resize(self, event: Resize) -> None:
        """Choose columns and frames."""
        width, height = event.size
        n_columns = 1 + (width >= _TWO_COLUMNS) + (width >= _THREE_COLUMNS)
        self.set_class(n_columns == 2, "-two-columns")  # noqa: PLR2004 - as its name says
        self.set_class(n_columns == 3, "-three-columns")  # noqa: PLR2004 - as its name says
        is_few = height * n_columns < _N_PANELS * (_PANEL_LINES - 1)
        self.set_class(is_few, "-few")
        n_shown = _N_OF_SERVER if is_few else _N_PANELS
        self.set_class(height * n_columns >= n_shown * _PANEL_LINES, "-framed")

    def show(self, state: AttachState, machine: Machine) -> None:
        """Hand every panel its part."""
        self.set_class(not state.host.is_here, "-remote")
        self.query_one(ServedPanel).state = state.served
        self.query_one(DraftsPanel).state = state.drafts
        self.query_one(SlotsPanel).state = state.slots
        self.query_one(ServerPanel).state = IdentityState(
            link=state.link,
            facts=state.facts,
            host=state.host,
            drafters=state.drafts.drafters,
        )
        if state.host.is_here:
            self.query_one(HostMemoryPanel).state = machine.memory
            self.query_one(MachinePanel).state = machine.state


class AttachScreen(Screen[None]):
    """Shows the states that it is given; never asks the server."""

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
        key("r", "attach.retry", "Ask now", "Ask the server at once"),
        key("p", "attach.pause", "Pause", "Hold the picture; what happens meanwhile is kept"),
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
        self._status.left = glyphs.spelt(title(state))
        wrong = glyphs.spelt(trouble(state.link))
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
