"""The app: screens, the actions that every screen has, and the loop that brings events to them."""

import sys
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from spectui.live.sessions import earlier_prompts
from spectui.live.setup import Activity, ChatRecorded, Launch, TuningChanged
from spectui.models.files import FoundModel
from spectui.models.ranking import ModelInspected
from spectui.tui.base_app import REPAINT_S, BaseApp
from spectui.tui.chat.screen import LiveScreen
from spectui.tui.chat.session import Takers
from spectui.tui.dialogs import LogScreen
from spectui.tui.mailbox import Mailbox
from spectui.tui.picker.controller import PickerController
from spectui.tui.threads import EngineStarted, ScanFinished, ServersFound, SessionsRead, Threads
from spectui.tui.tune.controller import TuneController
from spectui.tui.widgets import QUIT_DISPLAY, hidden, key

_EAGER_S = 0.005
"""While the first word of an answer is waited for: other events come ahead of it."""
_QUIET_S = 1.0
"""While a trial is measured: what is measured under the screen is what a headless run gives."""
_IDLE_SAMPLE_S = 1.0
_SWITCH_S = 0.0005
"""Longest time that one Python thread keeps the others waiting; the default costs tokens/s."""


class SpectuiApp(BaseApp):
    """The interactive cockpit."""

    TITLE = "spectui"

    BINDINGS: ClassVar[list[BindingType]] = [
        # All with priority: a text field would select with f6 and f7.
        key("f1", "app.help", "Help", "Keys and actions"),
        key("f5", "app.tune", "Tune", "Tune the pair in the background"),
        key("f6", "app.export", "Export", "The flags for your llama-server"),
        key("f7", "app.models", "Models", "Choose another pair"),
        key("f8", "app.log", "Log", "llama.cpp's own log"),
        key(
            "f10",
            "app.what_if",
            "What if",
            "What other settings would have done on this session's answers",
        ),
        hidden(
            "ctrl+c",
            "app.interrupt",
            "Stop or quit",
            "Stop the answer or the load, else the search; empty the prompt; quit",
        ),
        key("ctrl+q", "app.quit", "Quit", "End spectui", display=QUIT_DISPLAY),
    ]

    def __init__(
        self, launch: Launch, make_threads: Callable[[Mailbox[object]], Threads] = Threads
    ) -> None:
        """Prepare; the engine starts when the first screen is on the terminal.

        Args:
            launch: options of the command line.
            make_threads: makes what works behind the screens and posts into the mailbox.
        """
        super().__init__(launch.settings)
        self._launch = launch
        self.threads = make_threads(self._mailbox)
        self.live = LiveScreen(
            launch,
            self.threads,
            choose_models=self.choose_models,
            warn=self.warn,
        )
        self.session = self.live.session
        self.picker = PickerController(self, self.session, self.threads)
        self.tune = TuneController(self, self.session)
        self._takers: Takers = {
            **self.session.takers,
            **dict.fromkeys(
                (FoundModel, ScanFinished, ServersFound, ModelInspected), self.picker.take
            ),
            EngineStarted: self.session.start,
            TuningChanged: lambda event: self.tune.take(event.state),
            ChatRecorded: self.tune.take_recording,
            SessionsRead: self._take_sessions,
        }

    async def on_mount(self) -> None:
        """Show the live screen, then start what is heavy."""
        sys.setswitchinterval(_SWITCH_S)
        self.handle_signals()
        await self.push_screen(self.live)
        self.watch(self.live, "activity", self._set_pace)
        self.call_after_refresh(self._start)

    def on_unmount(self) -> None:
        """Close the session, with every event that has arrived."""
        self.session.close(self._mailbox.collect())

    def _start(self) -> None:
        if self._launch.notice is not None:
            self.warn(self._launch.notice)
        self.warn_of_theme()
        self.threads.read_sessions()
        self.threads.start(1 / self.settings.monitor_hz)

    def _show_events(self, events: Sequence[object]) -> None:
        with self.batch_update():
            for event in events:
                if (take := self._takers.get(type(event))) is not None:
                    take(event)
            self.session.flush()
        self._set_pace()
        self.tune.look_at_chat()

    def _take_sessions(self, event: SessionsRead) -> None:
        self.live.prompt.remember(earlier_prompts(event.sessions))
        self.picker.offer(event.sessions)

    def _set_pace(self) -> None:
        activity = self.live.activity
        if self.session.conversation.chat.awaits_first_word:
            self._repaint_every(_EAGER_S)
        elif activity is Activity.READY and self.tune.is_measuring:
            self._repaint_every(_QUIET_S)
        else:
            self._repaint_every(REPAINT_S)
        busy = activity in {Activity.ANSWERING, Activity.LOADING}
        sample_s = 1 / self.settings.monitor_hz
        self.threads.monitor.sample_every(sample_s if busy else max(sample_s, _IDLE_SAMPLE_S))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer no way to where one is."""
        del parameters
        is_open = {
            "tune": self.tune.is_open(replay=False),
            "what_if": self.tune.is_open(replay=True),
            "models": self.picker.is_open,
        }
        return not is_open.get(action, False)

    def action_tune(self) -> None:
        """Show the search."""
        self.tune.open()

    def action_what_if(self) -> None:
        """Ask what other settings would have done."""
        self.tune.open(replay=True)

    def action_export(self) -> None:
        """Show the flags."""
        from spectui.tui.export import ExportScreen, export_choices  # noqa: PLC0415 - as needed

        setup = self.session.setup
        if self.is_open(ExportScreen):
            return
        if setup is None:
            self.warn("There is nothing to export before a pair is chosen.")
            return
        choices = export_choices(setup, self.tune.state, has_gpu=self.session.tally.has_gpu)
        self.push_screen(ExportScreen(choices))

    def choose_models(self, reason: str | None) -> None:
        """Have another pair chosen, with what went wrong if something did."""
        self.picker.open(reason)

    def action_models(self) -> None:
        """Choose another pair."""
        self.picker.open(None)

    def action_log(self) -> None:
        """Show llama.cpp's log."""
        if not self.is_open(LogScreen):
            self.push_screen(LogScreen(self.threads.log))

    def action_interrupt(self) -> None:
        """Copy a selection, stop what runs, empty the prompt, or quit."""
        if self.copy_selection():
            return
        if self.live.activity in {Activity.ANSWERING, Activity.LOADING}:
            self.session.stop()
        elif self.tune.can_stop:
            self.tune.stop()
        elif self.live.prompt.set_aside():
            self.notify("Up brings your text back; Ctrl+C again quits.")
        else:
            self.exit()
