"""The screen over a running llama-server: its panels, in one column or in two."""

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from spectui.server.watch.sample import Failure, Sample
from spectui.server.watch.tracker import AttachState, Tracker
from spectui.tui.panels.base import PanelStack
from spectui.tui.panels.server import (
    DraftsPanel,
    ServedPanel,
    ServerPanel,
    SlotsPanel,
    model_name,
)
from spectui.tui.widgets import KeyBar, StatusBar

_PANELS = (ServedPanel, DraftsPanel, SlotsPanel, ServerPanel)


def connection(state: AttachState) -> str:
    """Return how it stands, in a few words."""
    if state.failure is not None:
        return state.failure.trouble
    if state.sample.took_s is None:
        return "connecting"
    return "connected, answers late" if state.sample.is_late else "connected"


def trouble(failure: Failure | None) -> str:
    """Return the failure and the next step; empty if nothing is wrong."""
    if failure is None:
        return ""
    return f"{failure.reason}; it is asked again every second."


class AttachScreen(Screen[None]):
    """Shows what is known of the server; never asks it."""

    TITLE = "Attach"
    HORIZONTAL_BREAKPOINTS = [(0, "-one"), (72, "-two")]  # noqa: RUF012 - as Screen has it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall")]  # noqa: RUF012 - as Screen has it

    def __init__(self, url: str) -> None:
        """Show what is known before the first answer."""
        super().__init__()
        self._tracker = Tracker(url)
        self._status = StatusBar()
        self._trouble = Static(markup=False, id="trouble")

    def compose(self) -> ComposeResult:
        """Status, what is wrong, panels, keys."""
        yield self._status
        yield self._trouble
        with PanelStack(id="attached"):
            for kind in _PANELS:
                yield kind()
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the beginning."""
        self._show()

    @property
    def pid(self) -> int | None:
        """Id of the server's process; None where it runs elsewhere, or cannot be found."""
        process = self._tracker.state.sample.process.value
        return None if process is None else process.pid

    def take(self, sample: Sample) -> None:
        """Take an answer of the server, or why there is none."""
        could_tune = self.pid is not None
        self._tracker.add(sample)
        with self.app.batch_update():
            self._show()
        if could_tune is not (self.pid is not None):
            self.refresh_bindings()

    def _show(self) -> None:
        state = self._tracker.state
        facts = state.sample.facts.value
        address = state.url.removeprefix("http://")
        name = "" if facts is None else f"  {model_name(facts)}"
        self._status.left.update(f"{address}{name}")
        self._status.right.update(connection(state))
        wrong = trouble(state.failure)
        self._trouble.update(wrong)
        self._trouble.set_class(bool(wrong), "-shown")
        for kind in _PANELS:
            self.query_one(kind).state = state
