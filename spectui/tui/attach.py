"""The app over a running llama-server: its panels, in as many columns as fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Static

from spectui.live import machine as live
from spectui.live.devices import concerned
from spectui.monitor.readings import Reading, Snapshot
from spectui.server.watch.poller import Attachment, Poller
from spectui.server.watch.sample import Failure, ServerSample
from spectui.server.watch.tracker import AttachState, Tracker
from spectui.settings import Settings
from spectui.tui.base_app import BaseApp
from spectui.tui.panels.base import PanelStack
from spectui.tui.panels.machine import MemoryPanel
from spectui.tui.panels.server import (
    DraftsPanel,
    MachinePanel,
    ServedPanel,
    ServerPanel,
    SlotsPanel,
    model_name,
)
from spectui.tui.threads import Monitor, MonitorFailed
from spectui.tui.widgets import QUIT_DISPLAY, KeyBar, StatusBar, hidden, key

_NO_ESTIMATE = Reading(None, "it is only known of models that spectui runs itself")


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


class Machine:
    """The last readings of the server's machine."""

    def __init__(self) -> None:
        """Start without a reading."""
        self._snapshot: Snapshot | None = None
        self._history = live.TrafficHistory()
        self._reason: str | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Take a reading."""
        self._snapshot = snapshot
        self._history.add(snapshot, _NO_ESTIMATE)

    def fail(self, reason: str) -> None:
        """There are no readings any more."""
        self._snapshot, self._reason = None, reason

    @property
    def memory(self) -> live.MemoryState:
        """All memories, without a plan: whose they are is not known."""
        if self._reason is not None:
            return live.MemoryState(reason=self._reason)
        state = live.memory_state(self._snapshot, {}, is_decoding=False, swap_before_bytes=None)
        # The panel beside it has the GPUs.
        return replace(state, pools=tuple(map(_undivided, state.pools)), gpus=())

    @property
    def traffic(self) -> live.TrafficState:
        """Load of cores and GPUs, and what moves between them."""
        shown = None if self._snapshot is None else concerned(self._snapshot, {})
        state = live.traffic_state(shown, self._history, _NO_ESTIMATE, None)
        return state if self._reason is None else replace(state, reason=self._reason)


def _undivided(pool: live.MemoryPool) -> live.MemoryPool:
    used_bytes = sum(size_bytes for _use, size_bytes in pool.parts)
    return replace(pool, parts=((live.Use.OTHER, used_bytes),))


class AttachPanels(PanelStack):
    """Panels of the server, and of its machine if that is this one."""

    def compose(self) -> ComposeResult:
        """Compose the panels: the server's work first, then the server itself and its machine."""
        yield ServedPanel()
        yield DraftsPanel()
        yield SlotsPanel()
        yield ServerPanel()
        yield MemoryPanel()
        yield MachinePanel()

    def show(self, state: AttachState, machine: Machine) -> None:
        """Hand every panel its part."""
        self.set_class(not state.sample.host.is_here, "-remote")
        for kind in (ServedPanel, DraftsPanel, SlotsPanel, ServerPanel):
            self.query_one(kind).state = state
        if state.sample.host.is_here:
            self.query_one(MemoryPanel).state = machine.memory
            self.query_one(MachinePanel).state = machine.traffic


class AttachScreen(Screen[None]):
    """Shows what is known of the server and its machine; never asks either."""

    HORIZONTAL_BREAKPOINTS = [(0, "-one"), (72, "-two"), (150, "-three")]  # noqa: RUF012 - as Screen has it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall")]  # noqa: RUF012 - as Screen has it

    def __init__(self, url: str) -> None:
        """Show what is known before the first answer."""
        super().__init__()
        self._tracker = Tracker(url)
        self._machine = Machine()
        self._panels = AttachPanels()
        self._status = StatusBar()
        self._trouble = Static(markup=False, id="trouble")

    def compose(self) -> ComposeResult:
        """Status, what is wrong, panels, keys."""
        yield self._status
        yield self._trouble
        yield self._panels
        yield KeyBar()

    def on_mount(self) -> None:
        """Show the beginning."""
        self.show()

    @property
    def is_here(self) -> bool:
        """Whether the server runs on this machine."""
        return self._tracker.state.sample.host.is_here

    def take(self, event: object) -> None:
        """Take an answer of the server, or a reading of its machine."""
        match event:
            case ServerSample() | Failure():
                self._tracker.add(event)
            case Snapshot():
                self._machine.add(event)
            case MonitorFailed():
                self._machine.fail(event.reason)
            case BaseException():
                raise event

    def show(self) -> None:
        """Show all that was taken."""
        state = self._tracker.state
        facts = state.sample.facts.value
        address = state.url.removeprefix("http://")
        name = "" if facts is None else f"  {model_name(facts)}"
        self._status.left.update(f"{address}{name}")
        self._status.right.update(connection(state))
        wrong = trouble(state.failure)
        self._trouble.update(wrong)
        self._trouble.set_class(bool(wrong), "-shown")
        self._panels.show(state, self._machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachLaunch:
    """Options of the command line."""

    attachment: Attachment
    interval_s: float
    """Seconds between two looks at the server."""
    settings: Settings
    theme: str | None = None
    ascii: bool = False


class AttachApp(BaseApp):
    """Watches a server."""

    TITLE = "spectui attach"

    BINDINGS: ClassVar[list[BindingType]] = [
        key("f1", "app.help", "Help", "Keys and actions"),
        hidden("ctrl+c", "app.interrupt", "Copy or quit", "Copy what is selected, else quit"),
        key("ctrl+q", "app.quit", "Quit", "End spectui", display=QUIT_DISPLAY),
    ]

    def __init__(
        self,
        launch: AttachLaunch,
        make_poller: Callable[..., Poller] = Poller,
        make_monitor: Callable[[Callable[[object], None]], Monitor] = Monitor,
    ) -> None:
        """Prepare; the questions begin when the screen is on the terminal.

        Args:
            launch: options of the command line.
            make_poller: makes what asks the server, on a thread of its own.
            make_monitor: makes what reads this machine, if the server runs on it.
        """
        super().__init__(launch.settings, theme=launch.theme, ascii=launch.ascii)
        post = self._mailbox.put
        self.poller = make_poller(
            launch.attachment, post, interval_s=launch.interval_s, on_failure=post
        )
        self.monitor = make_monitor(post)
        self.watched = AttachScreen(launch.attachment.address.url)

    async def on_mount(self) -> None:
        """Show the screen, then ask."""
        self.handle_signals()
        await self.push_screen(self.watched)
        self.warn_of_theme()
        self.call_after_refresh(self.poller.start)

    def _show_events(self, events: Sequence[object]) -> None:
        for event in events:
            self.watched.take(event)
        if self.watched.is_here:
            self.monitor.start(1 / self.settings.monitor_hz)
        with self.batch_update():
            self.watched.show()

    def close(self) -> None:
        """End the threads."""
        self.poller.close()
        self.monitor.close()

    def action_interrupt(self) -> None:
        """Copy a selection, or quit."""
        if not self.copy_selection():
            self.exit()
