"""The app over a running llama-server."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from spectui.monitor.readings import Snapshot
from spectui.server.attached.poller import Attachment, Poller
from spectui.server.attached.sample import FailedSample, ServerSample, WaitingSample
from spectui.server.attached.tracker import Tracker
from spectui.settings import Settings
from spectui.tui import help as actions
from spectui.tui.attach.machine import Machine
from spectui.tui.attach.screen import AttachScreen
from spectui.tui.base_app import BaseApp
from spectui.tui.help import HelpScreen
from spectui.tui.mailbox import Mailbox
from spectui.tui.messages import MonitorFailed

if TYPE_CHECKING:
    from spectui.monitor.sampler import Sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerFailed:
    """A defect has ended the questions."""

    error: BaseException


class AttachBackstage:
    """Owns the threads. Nothing here touches a widget."""

    def __init__(self, mailbox: Mailbox[object], wanted: Attachment, interval_s: float) -> None:
        """Nothing works yet.

        Args:
            mailbox: takes every event, from any thread.
            wanted: the server.
            interval_s: from one look at it to the next.
        """
        self._post = mailbox.put
        self._interval_s = interval_s
        self._poller = Poller(
            wanted,
            self._post,
            interval_s=interval_s,
            on_failure=lambda error: self._post(PollerFailed(error=error)),
        )
        self._sampler: Sampler | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._poller.start()

    def watch_machine(self, interval_s: float) -> None:
        """Begin to read this machine, once."""
        from spectui.monitor.live import LiveSource  # noqa: PLC0415 - loads NVML's binding
        from spectui.monitor.sampler import Sampler  # noqa: PLC0415

        if self._sampler is not None:
            return
        self._sampler = Sampler(
            LiveSource,
            self._post,
            interval_s=interval_s,
            on_failure=lambda reason: self._post(MonitorFailed(reason=reason)),
        )
        self._sampler.start()

    def try_now(self) -> None:
        """Ask at once."""
        self._poller.try_now()

    def close(self) -> None:
        """End everything."""
        self._poller.close()
        if self._sampler is not None:
            self._sampler.close()


_OURS = frozenset({"Quit"})
"""Textual's commands that this app has under its own keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachLaunch:
    """What the command line asks for."""

    url: str
    settings: Settings
    theme: str | None = None
    ascii: bool = False


class AttachApp(BaseApp):
    """Watches a server."""

    TITLE = "spectui attach"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Help", id="app.help", priority=True, tooltip="Keys and actions"),
        Binding("ctrl+q", "quit", "Quit", id="app.quit", show=False, tooltip="End spectui"),
        Binding(
            "ctrl+c",
            "interrupt",
            "Copy or quit",
            id="app.interrupt",
            show=False,
            priority=True,
            tooltip="Copy what is selected, else quit",
        ),
        Binding("q", "quit", "Quit", id="attach.quit", tooltip="End spectui; the server goes on"),
    ]

    def __init__(
        self,
        launch: AttachLaunch,
        make_backstage: Callable[[Mailbox[object]], AttachBackstage],
    ) -> None:
        """Prepare; the questions begin when the screen is on the terminal.

        Args:
            launch: what the command line asks for.
            make_backstage: makes what works behind the screen and posts into the mailbox.
        """
        super().__init__(launch.settings, theme=launch.theme, ascii=launch.ascii)
        self._tracker = Tracker(launch.url)
        self._machine = Machine()
        self.backstage = make_backstage(self._mailbox)
        self.watched = AttachScreen(self._tracker.state())

    async def on_mount(self) -> None:
        """Show the screen, then ask."""
        self.handle_signals()
        await self.push_screen(self.watched)
        self.warn_of_theme()
        self.call_after_refresh(self.backstage.start)

    def _collect(self) -> None:
        events = self._mailbox.collect() if self.is_running else ()
        if not events:
            return
        self._pace.begin()
        for event in events:
            self._take(event)
        state = self._tracker.state()
        if state.host.is_here:
            self.backstage.watch_machine(1 / self.settings.monitor_hz)
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
        self.backstage.try_now()

    def action_help(self) -> None:
        """Show keys and actions."""
        if not self.is_open(HelpScreen):
            self.push_screen(HelpScreen(actions.attach_actions(self)))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer every action."""
        yield from (each for each in super().get_system_commands(screen) if each.title not in _OURS)
        yield from actions.system_commands(self, screen)

    def action_interrupt(self) -> None:
        """Copy a selection, or quit."""
        selection = self.screen.get_selected_text()
        if selection:
            self.copy_to_clipboard(selection)
        else:
            self.exit()
