"""Base of spectui's apps: the look, keys in the order in which they were pressed, signals."""

import asyncio
import signal
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from textual._styles_cache import StylesCache
from textual.app import ReturnType
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from spectui.settings import Settings
from spectui.tui.help import HelpScreen, actions_of
from spectui.tui.look import THEMES, AsciiFilter, ColouredApp, SanitisingFilter
from spectui.tui.mailbox import EventsArrived, Mailbox, Pace
from spectui.tui.terminal import StoppableDriver
from spectui.tui.widgets import hidden, key_name

# Textual 8.2 means a method of the class. As one of each widget's painter its cache holds the last
# 1,024 of them, with all lines that they have painted, long after their screens were closed.
if not isinstance(vars(StylesCache)["get_inner_outer"], classmethod):
    StylesCache.get_inner_outer = classmethod(StylesCache.get_inner_outer)  # type: ignore[assignment, method-assign, arg-type]

_LOOK_AGAIN_S = 0.1
"""While a key waits: a widget that goes may take with it the word that the last key was handled."""
REPAINT_S = 0.1
"""Between two repaints, at least."""


class KeyHandled(Message):
    """Follows a key on its way from the focused widget up to the app, so it comes after it."""

    def __init__(self, through: Screen[Any] | None = None) -> None:
        """Create the message.

        Args:
            through: the screen that has handled what the key led to, None for none yet.
        """
        super().__init__()
        self.through = through


class OrderedApp(ColouredApp[ReturnType]):
    """Passes a key on when the one before has been handled.

    Textual gives a key to the widget that has the focus when the key comes in, which may be before
    an earlier Tab has moved the focus, or before the screen that an earlier key opens is there.
    Keys that come in a burst would all go to one field.
    """

    def __init__(self) -> None:
        """Start with no key pressed."""
        super().__init__()
        self._waiting: deque[Key | Paste] = deque()
        self._handling: Widget | None = None
        """Has got the last key, or what follows it, and has not told yet that it was handled."""
        self._follower: KeyHandled | None = None
        """The follow-up of the last key. Others belong to keys whose widget was given up: they are
        too late."""
        self._looks_again = False

    async def on_event(self, event: Event) -> None:
        """Let what is typed wait for what was typed before."""
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            self._waiting.append(event)
            await self._pass_on()
        else:
            await super().on_event(event)

    async def on_key_handled(self, message: KeyHandled) -> None:
        """Go on with the next key, once the screen that has the keys now has handled the last."""
        if message is not self._follower:
            return
        if self.screen_stack and message.through is not self.screen:
            # A screen that was just opened handles this when it is mounted and has its focus.
            self._follow(self.screen, KeyHandled(self.screen))
        else:
            self._handling = None
        await self._pass_on()

    async def _pass_on(self) -> None:
        while self._waiting and self.screen_stack and not self._is_handling:
            event = self._waiting.popleft()
            await super().on_event(event)
            if event.is_forwarded:
                self._follow(self.focused or self.screen, KeyHandled())
            else:
                # A binding of the app's has had it already.
                self._follow(self.screen, KeyHandled(self.screen))
        if self._waiting and not self._looks_again:
            self._looks_again = True
            self.set_timer(_LOOK_AGAIN_S, self._look_again)

    async def _look_again(self) -> None:
        self._looks_again = False
        await self._pass_on()

    def _follow(self, target: Widget, message: KeyHandled) -> None:
        self._follower = message
        self._handling = target if target.post_message(message) else None

    @property
    def _is_handling(self) -> bool:
        # A widget that is gone tells nothing any more.
        widget = self._handling
        return widget is not None and widget.is_attached and widget.screen in self.screen_stack


class BaseApp(OrderedApp[None]):
    """An app in the user's look, with the user's keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden(
            "ctrl+z",
            "app.suspend",
            "Suspend",
            "Suspend spectui and go back to the shell, whose fg brings it back",
            action="suspend_process",
        ),
    ]

    def __init__(self, settings: Settings) -> None:
        """Take the look of the user's settings."""
        super().__init__()
        self.driver_class = StoppableDriver
        self.settings = settings
        self._own_filters = (SanitisingFilter(), *((AsciiFilter(),) if settings.ascii else ()))
        # Digits of box drawings, for one, are not told apart in ASCII.
        self.set_class(settings.ascii, "-ascii")
        wanted = settings.theme
        self._unknown_theme = None if wanted in self.available_themes else wanted
        self.theme = THEMES[0].name if self._unknown_theme else wanted
        self.set_keymap(settings.keys)
        self._mailbox: Mailbox[object] = Mailbox(lambda: self.post_message(EventsArrived()))
        self._pace = Pace(REPAINT_S)
        self._next_repaint: Timer | None = None

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

    @abstractmethod
    def _show_events(self, events: Sequence[object]) -> None:
        """Bring the mailbox's events, of which there is one at least, to the screen."""

    def action_help(self) -> None:
        """Show keys and actions of what is open."""
        if not self.is_open(HelpScreen):
            nodes = (*self.screen.walk_children(), self.screen, self)
            kinds = dict.fromkeys(map(type, nodes))
            keys = self.settings.keys
            self.push_screen(HelpScreen([one for kind in kinds for one in actions_of(kind, keys)]))

    def copy_selection(self) -> bool:
        """Copy what is selected; False if nothing is."""
        selection = self.screen.get_selected_text()
        if selection:
            self.copy_to_clipboard(selection)
            # The key stops and quits as well: the next time it does.
            self.screen.clear_selection()
            self.notify("Copied what was selected.")
        return bool(selection)

    @property
    def crash(self) -> Exception | None:
        """The exception that ended the app, None if it ended by itself."""
        return self._exception

    def handle_signals(self) -> None:
        """End when told to, as shells expect of what a signal ended."""
        if self.is_headless:
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))

    def warn(self, reason: str) -> None:
        """Show a sentence that the user should read."""
        self.notify(reason, severity="warning", markup=False, timeout=8)

    def warn_of_theme(self) -> None:
        """Say if the look that was asked for does not exist."""
        if self._unknown_theme is not None:
            self.warn(f"There is no look {self._unknown_theme}; Ctrl+P, Theme, lists them.")

    def is_open(self, kind: type[Screen[Any]]) -> bool:
        """Whether a screen of that kind is open."""
        return any(isinstance(screen, kind) for screen in self.screen_stack)

    async def action_quit(self) -> None:
        """End at once, and stop whatever runs."""
        self.exit()

    def get_key_display(self, binding: Binding) -> str:
        """Name a key as everywhere."""
        return key_name(binding.key_display or binding.key)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Draw what a terminal may be given, and ASCII where it has nothing else."""
        return (*super().get_line_filters(), *self._own_filters)
