"""What spectui's apps have in common: look, characters, keys, and how they end."""

import asyncio
import signal
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

from textual.binding import Binding
from textual.filter import LineFilter
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender

from spectui.settings import Settings
from spectui.tui.ascii import AsciiFilter, AsciiPalette, AsciiScrollBars
from spectui.tui.glyphs import ASCII, UNICODE
from spectui.tui.key_order import OrderedApp
from spectui.tui.mailbox import Mailbox, Pace
from spectui.tui.messages import EventsArrived
from spectui.tui.theme import ASCII_CSS, THEMES

REPAINT_S = 0.1
"""Between two repaints, at least."""


class BaseApp(OrderedApp[None]):
    """An app in the user's look, with the user's keys."""

    CSS = ASCII_CSS
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        settings: Settings,
        *,
        theme: str | None,
        ascii: bool,  # noqa: A002 - the option's name
    ) -> None:
        """Take the look.

        Args:
            settings: the user's.
            theme: a look that was asked for on the command line.
            ascii: whether ASCII characters were asked for there.
        """
        super().__init__()
        self.settings = settings
        self.glyphs = ASCII if ascii or settings.ascii else UNICODE
        self.set_class(self.glyphs is ASCII, "-ascii")
        self._ascii = (AsciiFilter(),) if self.glyphs is ASCII else ()
        # A class attribute: there is one app in a process, but tests make several.
        ScrollBar.renderer = AsciiScrollBars if self.glyphs is ASCII else ScrollBarRender
        for each in THEMES:
            self.register_theme(each)
        wanted = theme or settings.theme
        self._unknown_theme = None if wanted in self.available_themes else wanted
        self.theme = THEMES[0].name if self._unknown_theme else wanted
        self.set_keymap(settings.keys)
        self._mailbox: Mailbox[object] = Mailbox(lambda: self.post_message(EventsArrived()))
        self._pace = Pace(REPAINT_S)

    def on_events_arrived(self) -> None:
        """Collect events now, or when the last repaint is long enough ago."""
        delay_s = self._pace.delay_s()
        if delay_s > 0:
            self.set_timer(delay_s, self._collect)
        else:
            self._collect()

    @abstractmethod
    def _collect(self) -> None:
        """Take what is in the mailbox to the screen."""

    @property
    def crash(self) -> Exception | None:
        """What ended the app, if it did not end by itself."""
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

    def action_command_palette(self) -> None:
        """Show the palette in characters that the terminal has."""
        if self.glyphs is UNICODE:
            super().action_command_palette()
        elif not self.is_open(AsciiPalette):
            self.push_screen(AsciiPalette())

    async def action_quit(self) -> None:
        """End at once; whatever runs is stopped."""
        self.exit()

    def get_key_display(self, binding: Binding) -> str:
        """Name a key with characters that the terminal has."""
        display = super().get_key_display(binding)
        return display if self.glyphs is UNICODE or display.isascii() else binding.key

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Draw in ASCII where the terminal has nothing else."""
        return (*super().get_line_filters(), *self._ascii)
