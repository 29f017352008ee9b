"""The app: screens, the actions that every screen has, and the loop that brings events to them."""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer

from spectui.errors import SpectuiError
from spectui.live.sessions import earlier_prompts
from spectui.live.setup import Activity
from spectui.models.ranking import ModelInspected
from spectui.tui.chat.loading import Load
from spectui.tui.chat.screen import LiveScreen
from spectui.tui.dialogs import HelpScreen, LogScreen, actions_of
from spectui.tui.launch import Launch
from spectui.tui.mailbox import EventsArrived, Mailbox, Pace
from spectui.tui.ordered import OrderedApp
from spectui.tui.threads import Threads
from spectui.tui.tune.controller import TuneController
from spectui.tui.widgets import QUIT_DISPLAY, hidden, key, key_name
from spectui.tune.progress import TuningState

if TYPE_CHECKING:
    from spectui.tui.attach import AttachScreen
    from spectui.tui.picker.screen import PickerScreen
    from spectui.tui.tune.screen import TuneScreen

_REPAINT_S = 0.1
"""Between two repaints, at least."""
_EAGER_S = 0.005
"""While the first word of an answer is waited for: other events come ahead of it."""
_QUIET_S = 1.0
"""While a trial is measured: what is measured under the screen is what a headless run gives."""
_IDLE_SAMPLE_S = 1.0
_SWITCH_S = 0.0005
"""Longest time that one Python thread keeps the others waiting; the default costs tokens/s."""


class SpectuiApp(OrderedApp[None]):
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
            make_threads: makes the threads behind the screens, which post into the mailbox.
        """
        settings = launch.settings
        super().__init__(theme=settings.theme, ascii=settings.ascii)
        self.settings = settings
        self.set_keymap(settings.keys)
        self._launch = launch
        self._mailbox: Mailbox[object] = Mailbox(lambda: self.post_message(EventsArrived()))
        self._pace = Pace(_REPAINT_S)
        self._next_repaint: Timer | None = None
        self.threads = make_threads(self._mailbox)
        self.live = LiveScreen(
            launch,
            self.threads,
            choose_models=self.choose_models,
            warn=self.warn,
        )
        self.session = self.live.session
        self.picker: PickerScreen | None = None
        self.tune = TuneController(self.live, self._refuse_search)
        self.tuning: TuneScreen | None = None
        self._takers: dict[type, Callable[[Any], None]] = {
            ModelInspected: self._take_inspection,
            TuningState: self.tune.take,
        }
        self.watched: AttachScreen | None = None
        """The screen over a server that runs, if one was named."""

    async def on_mount(self) -> None:
        """Show the live screen, then start what is heavy."""
        sys.setswitchinterval(_SWITCH_S)
        self._handle_signals()
        await self.push_screen(self.live)
        self.watch(self.live, "activity", self._set_pace)
        if self.unknown_theme is not None:
            self.warn(f"There is no look {self.unknown_theme}; Ctrl+P lists them.")
        if self._launch.watched is None:
            self.call_after_refresh(self._start)
            return
        # Imported here: few watch a server.
        from spectui.server.watch.sample import Failure, ServerSample  # noqa: PLC0415
        from spectui.tui.attach import AttachScreen  # noqa: PLC0415

        self.watched = AttachScreen(self._launch.watched.url, self.session.tally)
        # So it stays while its server's models are tuned.
        self.install_screen(self.watched, "attach")
        self._takers |= dict.fromkeys((ServerSample, Failure), self.watched.take)
        await self._watch_server()

    async def _watch_server(self) -> None:
        server, watched = self._launch.watched, self.watched
        if server is None or watched is None:
            return
        poller = self.threads.watch_server(server, self._launch.look_s, lambda: watched.pid)
        await self.push_screen(watched)
        self.call_after_refresh(poller.start)
        self.call_after_refresh(self.threads.start_monitor, _IDLE_SAMPLE_S, self.warn)

    def _handle_signals(self) -> None:
        """End on a signal, with the exit status that shells expect."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))

    def on_unmount(self) -> None:
        """Close the session, with every event that has arrived."""
        self.session.close(self._mailbox.collect())

    def _start(self) -> None:
        if self._launch.notice is not None:
            self.warn(self._launch.notice)
        self.threads.read_sessions(
            lambda sessions: self.live.prompt.remember(earlier_prompts(sessions))
        )
        loader = self.live.loader
        self.threads.start(
            1 / self.settings.monitor_hz, loader.start, loader.cannot_start, self.warn
        )

    def on_events_arrived(self) -> None:
        """Show events now, or when the last repaint is long enough ago."""
        delay_s = self._pace.delay_s()
        if delay_s > 0:
            self._next_repaint = self.set_timer(delay_s, self._collect)
        else:
            self._collect()

    def _repaint_every(self, interval_s: float) -> None:
        """Space repaints by ``interval_s``, the one that is waited for as well."""
        if interval_s == self._pace.interval_s:
            return
        self._pace.interval_s = interval_s
        if self._next_repaint is not None:
            self._next_repaint.stop()
            self._next_repaint = None
            self.post_message(EventsArrived())

    def _collect(self) -> None:
        self._next_repaint = None
        if not self.is_running:
            return
        self._pace.begin()
        if events := self._mailbox.collect():
            self._show_events(events)

    def _show_events(self, events: Sequence[object]) -> None:
        with self.batch_update():
            for event in events:
                if isinstance(event, BaseException):
                    raise event
                if isinstance(event, partial):
                    event()
                else:
                    self._takers.get(type(event), self.session.take)(event)
            self.live.flush()
        self._set_pace()
        if self.tuning is not None:
            self.tuning.look()

    def _take_inspection(self, event: ModelInspected) -> None:
        if self.picker is not None:
            self.picker.show_inspection(event)

    def _set_pace(self) -> None:
        activity = self.live.activity
        if self.session.chat.awaits_first_word:
            self._repaint_every(_EAGER_S)
        elif activity is Activity.READY and self.tune.is_measuring:
            self._repaint_every(_QUIET_S)
        else:
            self._repaint_every(_REPAINT_S)
        busy = activity in {Activity.ANSWERING, Activity.LOADING}
        sample_s = 1 / self.settings.monitor_hz
        self.threads.sample_every(sample_s if busy else max(sample_s, _IDLE_SAMPLE_S))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the keys of the view that is open."""
        del parameters
        if self.watched is not None and self.watched in self.screen_stack:
            # The models of a process on this machine can be taken over.
            if action == "tune":
                return self.screen is self.watched and self.watched.pid is not None
            return action not in {"what_if", "models", "export", "log"}
        if action == "models":
            return self.picker is None
        if self.live.activity is Activity.STARTING and action in {"tune", "what_if"}:
            # The engine's thread still imports what they need; two must not at once.
            return False
        if action in {"tune", "what_if"} and self.tuning is not None:
            is_other_view = self.tuning.shows_replay is (action == "tune")
            return is_other_view and self.screen is self.tuning
        return True

    def action_help(self) -> None:
        """Show keys and actions of what is open."""
        if not self.is_open(HelpScreen):
            nodes = (*self.screen.walk_children(), self.screen, self)
            kinds = dict.fromkeys(map(type, nodes))
            keys = self.settings.keys
            self.push_screen(HelpScreen([one for kind in kinds for one in actions_of(kind, keys)]))

    @property
    def crash(self) -> Exception | None:
        """The exception that ended the app, None if it ended by itself."""
        return self._exception

    def warn(self, reason: str) -> None:
        """Show a sentence that the user should read."""
        self.notify(reason, severity="warning", markup=False, timeout=8)

    def is_open(self, kind: type[Screen[Any]]) -> bool:
        """Whether a screen of that kind is open."""
        return any(isinstance(screen, kind) for screen in self.screen_stack)

    def get_key_display(self, binding: Binding) -> str:
        """Name a key as footers and helps do."""
        return key_name(binding.key_display or binding.key)

    def action_tune(self) -> None:
        """Show the search; the models and options of a watched server are taken over."""
        if self.watched is not None and self.watched in self.screen_stack:
            self._take_over(self.watched)
        elif self.session.setup is None:
            self.warn("There is nothing to tune before a pair is chosen.")
        else:
            self._open_tuning(replay=False)

    def _open_tuning(self, *, replay: bool) -> None:
        # Imported here: numpy is not needed to start.
        from spectui.tui.tune.screen import TuneScreen  # noqa: PLC0415

        if self.tuning is None:
            self.tuning = TuneScreen(self.tune, self.tune.state)
            self.push_screen(self.tuning, self._tuning_closed)
        self.tuning.shows_replay = replay
        self.tuning.look()

    def _tuning_closed(self, _result: None) -> None:
        self.tuning = None

    def _refuse_search(self, reason: str) -> None:
        """Show why no search was started: in the form, if that is still open."""
        if self.tuning is None:
            self.warn(reason)
        else:
            self.tuning.look()
            self.tuning.ask(reason)

    def _take_over(self, watched: "AttachScreen") -> None:
        """Load the models of a watched server, unless they are loaded, and open the search."""
        from spectui.commands.sources.source import PROCESS  # noqa: PLC0415 - as needed

        load, before = None, watched.loaded_pid
        if watched.pid != before or self.session.setup is None:
            try:
                load = self.live.loader.prepared(f"{PROCESS}{watched.pid}")
            except SpectuiError as error:
                self.warn(str(error))
                return
        watched.loaded_pid = watched.pid
        watched.dismiss()
        self.threads.stop_watching()
        self.live.watch_again = self._watch_server
        # It imports what the engine's thread will: two threads must not begin that together.
        self._open_tuning(replay=False)
        if before is None:
            self._start()
        if load is not None:
            self.notify(f"What process {watched.pid} runs is loaded again, to be tuned here.")
            load()

    def action_what_if(self) -> None:
        """Show what other settings would have done."""
        self._open_tuning(replay=True)

    def action_export(self) -> None:
        """Show the flags."""
        setup = self.session.setup
        if setup is None:
            self.warn("There is nothing to export before a pair is chosen.")
            return
        from spectui.tui.export import ExportScreen, export_choices  # noqa: PLC0415 - as needed

        if self.is_open(ExportScreen):
            return
        # They would cover the commands.
        self.clear_notifications()
        choices = export_choices(setup, self.tune.state)
        self.push_screen(ExportScreen(choices))

    def choose_models(self, reason: str | None) -> None:
        """Have another pair chosen, with what went wrong if something did."""
        # Imported here: most starts name their models.
        from spectui.tui.picker.screen import make_picker  # noqa: PLC0415

        if self.picker is None:
            self.picker = make_picker(self.live, self.threads, self.settings.model_folders)
            self.push_screen(self.picker, self._picked)
        if reason is not None:
            self.picker.show_problem(reason)

    def _picked(self, load: Load | None) -> None:
        self.picker = None
        self.clear_notifications()
        if load is not None:
            load()

    def action_models(self) -> None:
        """Choose another pair."""
        self.choose_models(None)

    def action_log(self) -> None:
        """Show llama.cpp's log."""
        if not self.is_open(LogScreen):
            self.push_screen(LogScreen())

    def action_interrupt(self) -> None:
        """Copy a selection, stop what runs, empty the prompt, or quit."""
        if selection := self.screen.get_selected_text():
            self.copy_to_clipboard(selection)
            # The key stops and quits as well: the next time it does.
            self.screen.clear_selection()
            self.notify("Copied what was selected.")
        elif self.live.activity in {Activity.ANSWERING, Activity.LOADING}:
            self.live.action_stop()
        elif self.tune.can_stop:
            self.tune.stop()
        elif self.live.prompt.set_aside():
            self.notify("Up brings your text back; Ctrl+C again quits.")
        else:
            self.exit()
