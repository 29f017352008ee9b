"""The app: screens, the actions that every screen has, and the loop that brings events to them."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from spectui.errors import SpectuiError
from spectui.live.events import ChatRecorded, TuningChanged
from spectui.live.setup import Launch, LiveSetup
from spectui.sessions import earlier_prompts
from spectui.tui import help as actions
from spectui.tui.backstage import Backstage
from spectui.tui.base_app import REPAINT_S, BaseApp
from spectui.tui.chat.screen import Activity, LiveScreen
from spectui.tui.chat.settings import SettingsScreen
from spectui.tui.director import Director
from spectui.tui.help import HelpScreen
from spectui.tui.log import LogScreen
from spectui.tui.mailbox import Mailbox
from spectui.tui.messages import EngineStarted, SessionsRead
from spectui.tui.picker.controller import Picking
from spectui.tui.tune.controller import Tuning
from spectui.tui.whatif.controller import WhatIfs

if TYPE_CHECKING:
    from spectui.tui.picker.screen import Chosen, FolderOpened, InspectionWanted
    from spectui.tui.tune.form import Applied, Started
    from spectui.tui.whatif.screen import WhatIfScreen

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
        Binding("f1", "help", "Help", id="app.help", priority=True, tooltip="Keys and actions"),
        Binding(
            "f5",
            "tune",
            "Tune",
            id="app.tune",
            priority=True,
            tooltip="Tune the pair in the background",
        ),
        Binding(
            "f6",
            "export",
            "Export",
            id="app.export",
            priority=True,
            tooltip="The flags for your llama-server",
        ),
        Binding(
            "f7",
            "models",
            "Models",
            id="app.models",
            show=False,
            priority=True,
            tooltip="Choose another pair",
        ),
        Binding(
            "f8",
            "log",
            "Log",
            id="app.log",
            show=False,
            priority=True,
            tooltip="llama.cpp's own log",
        ),
        Binding(
            "f10",
            "what_if",
            "What if",
            id="app.what_if",
            show=False,
            priority=True,
            tooltip="What other settings would have done on this session's answers",
        ),
        Binding(
            "ctrl+c",
            "interrupt",
            "Stop or quit",
            id="app.interrupt",
            show=False,
            priority=True,
            tooltip="Stop the answer or the load, else the search; empty the prompt; quit",
        ),
        Binding("ctrl+q", "quit", "Quit", id="app.quit", priority=True, tooltip="End spectui"),
    ]

    def __init__(
        self,
        launch: Launch,
        make_backstage: Callable[[Mailbox[object]], Backstage] = Backstage,
    ) -> None:
        """Prepare; the engine starts when the first screen is on the terminal.

        Args:
            launch: what the command line asks for.
            make_backstage: makes what works behind the screen and posts into the mailbox.
        """
        super().__init__(launch.settings, theme=launch.theme, ascii=launch.ascii)
        self.launch = launch
        self.backstage = make_backstage(self._mailbox)
        self.live = LiveScreen()
        self._director: Director | None = None
        self.picking = Picking(self)
        self.tuning = Tuning(self)
        self.what_ifs = WhatIfs(self)

    @property
    def director(self) -> Director:
        """Leads the session; there is one as soon as the live screen is mounted."""
        if self._director is None:
            raise RuntimeError("the live screen is not mounted yet")
        return self._director

    async def on_mount(self) -> None:
        """Show the live screen, then start what is heavy."""
        sys.setswitchinterval(_SWITCH_S)
        self.handle_signals()
        await self.push_screen(self.live)
        self._director = Director(
            self.launch,
            self.live,
            self.backstage,
            choose_models=self.picking.open,
            warn=self.warn,
        )
        self.call_after_refresh(self._start)

    def on_unmount(self) -> None:
        """Nothing that was said is lost."""
        if self._director is not None:
            self._director.close(self._mailbox.collect())

    def _start(self) -> None:
        if self.launch.notice is not None:
            self.warn(self.launch.notice)
        self.warn_of_theme()
        if self.launch.monitor_replay is not None:
            self.live.recorded = True
        self.backstage.read_sessions()
        self.backstage.start(self.launch.monitor_replay, 1 / self.launch.settings.monitor_hz)

    def _collect(self) -> None:
        if not self.is_running:
            return
        self._pace.begin()
        events = self._mailbox.collect()
        if not events:
            return
        with self.batch_update():
            for event in events:
                self._dispatch(event)
            self.director.flush()
        self._set_pace()
        self.tuning.look_at_chat()
        self.what_ifs.look_at_chat()

    def _dispatch(self, event: object) -> None:
        if isinstance(event, TuningChanged):
            self.tuning.show(event.state)
            self.what_ifs.take_tuning(event.state)
        elif isinstance(event, ChatRecorded):
            self.what_ifs.take(event.recording)
        elif isinstance(event, SessionsRead):
            self.live.remember(earlier_prompts(event.sessions))
            self.picking.offer(event.sessions)
        elif not self.director.handle(event):
            self.picking.handle(event)
        if isinstance(event, EngineStarted):
            self._check_keys()

    def _check_keys(self) -> None:
        """Say which actions of the user's keys there are not, once all screens are imported."""
        known = {action.id for action in actions.all_actions(self)}
        unknown = sorted(set(self.settings.keys) - known)
        if unknown:
            # Imported for who has set one of its keys, or has mistyped another's.
            elsewhere = {action.id for action in actions.attach_actions(self)}
            unknown = [each for each in unknown if each not in elsewhere]
        if unknown:
            self.warn(f"[keys] names {', '.join(unknown)}, which is no action; F1 lists the ids.")

    def _set_pace(self) -> None:
        activity = self.live.activity
        quiet = activity is Activity.READY and self.tuning.is_measuring
        self._pace.interval_s = _QUIET_S if quiet else REPAINT_S
        busy = activity in {Activity.ANSWERING, Activity.LOADING}
        sample_s = 1 / self.launch.settings.monitor_hz
        self.backstage.sample_every(sample_s if busy else max(sample_s, _IDLE_SAMPLE_S))

    def on_live_screen_asked(self, message: LiveScreen.Asked) -> None:
        """Send the prompt."""
        self.director.ask(message.text)
        self._set_pace()

    def on_live_screen_stop_requested(self) -> None:
        """Stop the answer or the load."""
        self.director.stop()

    def on_live_screen_draft_toggled(self) -> None:
        """Draft on or off."""
        self.director.toggle_draft()
        setup = self.director.setup
        if setup is not None and self.live.activity is Activity.ANSWERING:
            word = "off" if setup.speculation is None else "on"
            self.notify(f"The draft is {word} from the next answer on; this one goes on as it is.")

    def on_live_screen_new_chat_requested(self) -> None:
        """Begin another conversation."""
        self.director.new_chat()

    def on_live_screen_settings_requested(self) -> None:
        """Let the user change drafting and sampling."""
        setup, session = self.director.setup, self.backstage.session
        if setup is None or session is None:
            self.warn("There is nothing to set before a pair is chosen.")
            return

        def change(changed: LiveSetup | None) -> None:
            if changed is not None:
                self.director.adopt(changed)

        self.push_screen(SettingsScreen(setup, session.max_draft), change)

    def on_picker_screen_target_highlighted(self) -> None:
        """What was asked about the last target is void."""
        self.picking.forget_comparisons()

    def on_picker_screen_inspection_wanted(self, message: "InspectionWanted") -> None:
        """Find out which drafts fit."""
        self.picking.compare(message.target, message.drafts)

    def on_picker_screen_folder_opened(self, message: "FolderOpened") -> None:
        """Search another folder."""
        self.picking.look_in(message.path)

    def on_picker_screen_chosen(self, message: "Chosen") -> None:
        """Load what was chosen."""
        self.picking.choose(message.choice)

    def on_tune_screen_started(self, message: "Started") -> None:
        """Begin a search."""
        self.tuning.start(message.source, message.path, message.n_trials)

    def on_tune_screen_pause_toggled(self) -> None:
        """Pause or resume the search."""
        self.tuning.toggle_pause()

    def on_tune_screen_stopped(self) -> None:
        """End the search."""
        self.tuning.stop()

    def on_tune_screen_applied(self, message: "Applied") -> None:
        """Use a setting in the chat."""
        self.tuning.apply(message.arm)

    def on_what_if_screen_applied(self, message: "WhatIfScreen.Applied") -> None:
        """Use a setting in the chat."""
        self.what_ifs.apply(message.speculation)

    def on_what_if_screen_save_requested(self, message: "WhatIfScreen.SaveRequested") -> None:
        """Write a trace of the chat."""
        self.what_ifs.save(keep_text=message.keep_text)

    def on_tune_screen_export_requested(self) -> None:
        """Show the flags of the best."""
        self.action_export()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer no way to where one is."""
        del parameters
        is_open = {"tune": self.tuning.is_open, "what_if": self.what_ifs.is_open}
        return not is_open.get(action, False)

    def action_help(self) -> None:
        """Show keys and actions."""
        if not self.is_open(HelpScreen):
            self.push_screen(HelpScreen(actions.all_actions(self)))

    def action_tune(self) -> None:
        """Show the search."""
        self.tuning.open()

    def action_what_if(self) -> None:
        """Ask what other settings would have done."""
        self.what_ifs.open()

    def action_export(self) -> None:
        """Show the flags."""
        from spectui.tui.export.choices import export_choices  # noqa: PLC0415 - not before it is needed
        from spectui.tui.export.screen import ExportScreen  # noqa: PLC0415

        setup = self.director.setup
        if self.is_open(ExportScreen):
            return
        if setup is None:
            self.warn("There is nothing to export before a pair is chosen.")
            return
        has_gpu = self.director.has_gpu
        self.push_screen(ExportScreen(export_choices(setup, self.tuning.state, has_gpu=has_gpu)))

    def action_models(self) -> None:
        """Choose another pair."""
        self.picking.open(None)

    def action_log(self) -> None:
        """Show llama.cpp's log."""
        if not self.is_open(LogScreen):
            self.push_screen(LogScreen(self.backstage.log))

    def action_interrupt(self) -> None:
        """Copy a selection, stop what runs, empty the prompt, or quit."""
        selection = self.screen.get_selected_text()
        if selection:
            self.copy_to_clipboard(selection)
        elif self.live.activity in {Activity.ANSWERING, Activity.LOADING}:
            self.director.stop()
        elif self.tuning.can_stop:
            self.tuning.stop()
        elif self.live.set_aside():
            self.notify("Up brings your text back; Ctrl+C again quits.")
        else:
            self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Offer every action of the app and of the present screen."""
        yield from super().get_system_commands(screen)
        yield from actions.system_commands(self, screen)
        if self.director.can_measure:
            yield SystemCommand(
                "Measure the baseline again",
                "Find out how fast the target alone is now; a turn of yours goes first",
                self.director.measure_baseline,
            )

    def begin(self, launch: Launch) -> None:
        """Start again with other models or options."""
        self.launch = replace(launch, settings=self.launch.settings)
        self.director.begin(self.launch)

    def open_preset(self, name: str) -> None:
        """Start again with a preset."""
        try:
            self.begin(self.launch.with_preset(name))
        except SpectuiError as error:
            self.picking.open(str(error))
