"""All panels together: one column, or two where there is room."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Resize

from spectui.live.state import LiveState
from spectui.tui.glyphs import ASCII, glyphs_of
from spectui.tui.panels.acceptance import AcceptancePanel
from spectui.tui.panels.expectation import ExpectationPanel
from spectui.tui.panels.memory import MemoryPanel
from spectui.tui.panels.rounds import RoundPanel
from spectui.tui.panels.throughput import ThroughputPanel
from spectui.tui.panels.traffic import TrafficPanel

_TWO_COLUMNS = 84
_FRAMED = 33
"""Lines from which on six panels in a column can have a frame each."""


class Panels(VerticalScroll, can_focus=False):
    """The six live panels, each in the detail that its size allows."""

    DEFAULT_CSS = """
    Panels {
        scrollbar-size-vertical: 1;
        & > Panel {
            border-top: solid $foreground 30%;
            border-title-color: $text-primary;
            padding-left: 1;
            min-height: 2;
        }
        & > Panel.-alert { border-title-color: $text-warning; }
        & > ThroughputPanel, & > AcceptancePanel, & > RoundPanel { height: 4fr; }
        & > MemoryPanel, & > TrafficPanel, & > ExpectationPanel { height: 3fr; }

        &.-framed > Panel { border: round $foreground 30%; padding: 0 1; }
        &.-framed > ThroughputPanel { height: 5fr; }
        &.-framed > AcceptancePanel { height: 7fr; }
        &.-framed > RoundPanel { height: 9fr; }
        &.-framed > MemoryPanel { height: 6fr; }
        &.-framed > TrafficPanel { height: 6fr; }
        &.-framed > ExpectationPanel { height: 5fr; }

        &.-two-columns { layout: grid; grid-size: 2 3; }
        &.-two-columns > Panel { height: 1fr; }

        &.-ascii > Panel { border-top: ascii $foreground 30%; }
        &.-ascii.-framed > Panel { border: ascii $foreground 30%; }
    }
    """

    def compose(self) -> ComposeResult:
        """In the order of the questions: does it pay, why, and what of."""
        yield ThroughputPanel()
        yield AcceptancePanel()
        yield RoundPanel()
        yield MemoryPanel()
        yield TrafficPanel()
        yield ExpectationPanel()

    def on_mount(self) -> None:
        """Frames are characters too."""
        self.set_class(glyphs_of(self) is ASCII, "-ascii")

    def on_resize(self, event: Resize) -> None:
        """Choose columns and frames."""
        is_wide = event.size.width >= _TWO_COLUMNS
        lines = event.size.height * (2 if is_wide else 1)
        self.set_class(is_wide, "-two-columns")
        self.set_class(lines >= _FRAMED, "-framed")

    def show(self, state: LiveState) -> None:
        """Hand every panel its part."""
        self.query_one(ThroughputPanel).state = state.throughput
        self.query_one(AcceptancePanel).state = state.acceptance
        self.query_one(RoundPanel).state = state.rounds
        self.query_one(MemoryPanel).state = state.memory
        self.query_one(TrafficPanel).state = state.traffic
        self.query_one(ExpectationPanel).state = state.expectation
