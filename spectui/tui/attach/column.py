"""The panels of an attached server, in as many columns as there is room for."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Resize

from spectui.server.watch.state import AttachState
from spectui.tui.attach.drafts import DraftsPanel
from spectui.tui.attach.machine import HostMemoryPanel, Machine, MachinePanel
from spectui.tui.attach.served import ServedPanel
from spectui.tui.attach.server import IdentityState, ServerPanel
from spectui.tui.attach.slots import SlotsPanel
from spectui.tui.glyphs import ASCII, glyphs_of

_TWO_COLUMNS, _THREE_COLUMNS = 72, 150
_PANEL_LINES = 4
"""From which on a panel can have a frame."""
_N_PANELS, _N_OF_SERVER = 6, 4


class AttachPanels(VerticalScroll, can_focus=False):
    """What the server tells, and what its machine does if that is this one."""

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
        """What it does first, what it is and has after that."""
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
