"""The app over a running llama-server."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual.app import SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from spectui.monitor.readings import Snapshot
from spectui.server.watch.poller import Attachment, Poller
from spectui.server.watch.sample import FailedSample, ServerSample, WaitingSample
from spectui.server.watch.tracker import Tracker
from spectui.settings import Settings
from spectui.tui.attach.machine import Machine
from spectui.tui.attach.screen import AttachScreen
from spectui.tui.base_app import BaseApp
from spectui.tui.help import HelpScreen, attach_actions, system_commands
from spectui.tui.threads import Monitor, MonitorFailed
from spectui.tui.widgets import hidden, key

_OURS = frozenset({"Quit"})
"""Textual's commands that this app has under its own keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerFailed:
    """A defect has ended the questions."""

    error: BaseException


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
        hidden("ctrl+q", "app.quit", "Quit", "End spectui"),
        hidden("ctrl+c", "app.interrupt", "Copy or quit", "Copy what is selected, else quit"),
        key("q", "attach.quit", "Quit", "End spectui; the server goes on"),
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
            launch.attachment,
            post,
            interval_s=launch.interval_s,
            on_failure=lambda error: post(PollerFailed(error=error)),
        )
        self.monitor = make_monitor(post)
        self._tracker = Tracker(launch.attachment.address.url)
        self._machine = Machine()
        self.watched = AttachScreen(self._tracker.state())

    async def on_mount(self) -> None:
        """Show the screen, then ask."""
        self.handle_signals()
        await self.push_screen(self.watched)
        self.warn_of_theme()
        self.call_after_refresh(self.poller.start)

    def _collect(self) -> None:
        events = self._mailbox.collect() if self.is_running else ()
        if not events:
            return
        self._pace.begin()
        for event in events:
            self._take(event)
        state = self._tracker.state()
        if state.host.is_here:
            self.monitor.start(1 / self.settings.monitor_hz)
        with self.batch_update():
            self.watched.show(state, self._machine)

    def _take(self, event: object) -> None:
        match event:
            case ServerSample() | FailedSample() | WaitingSample():
                self._tracker.add(event)
            case Snapshot():
                self._machine.add(event, self._tracker.state().host)
            case MonitorFailed():
                self._machine.fail(event.reason)
            case PollerFailed():
                raise event.error

    def on_attach_screen_retry_requested(self) -> None:
        """Ask at once."""
        self.poller.try_now()

    def close(self) -> None:
        """End the threads."""
        self.poller.close()
        self.monitor.close()

    def action_help(self) -> None:
        """Show keys and actions."""
        if not self.is_open(HelpScreen):
            self.push_screen(HelpScreen(attach_actions(self)))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer every action."""
        yield from (each for each in super().get_system_commands(screen) if each.title not in _OURS)
        yield from system_commands(self, screen)

    def action_interrupt(self) -> None:
        """Copy a selection, or quit."""
        selection = self.screen.get_selected_text()
        if selection:
            self.copy_to_clipboard(selection)
        else:
            self.exit()
