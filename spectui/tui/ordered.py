"""Keys in the order in which they were pressed, each when the one before has had its effect."""

from collections import deque
from typing import Any

from textual._styles_cache import StylesCache
from textual.app import ReturnType
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from spectui.tui.look import ColouredApp

# Textual 8.2 means a method of the class. As one of each widget's painter its cache holds the last
# 1,024 of them, with all lines that they have painted, long after their screens were closed.
if not isinstance(vars(StylesCache)["get_inner_outer"], classmethod):
    StylesCache.get_inner_outer = classmethod(StylesCache.get_inner_outer)  # type: ignore[assignment, method-assign, arg-type]

_LOOK_AGAIN_S = 0.1
"""While a key waits: a widget that goes may take along the message that the last was handled."""


class KeyHandled(Message):
    """Follows a key on its way from the focused widget up to the app, and arrives after it."""

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

    def __init__(self, *, theme: str | None = None, ascii: bool = False) -> None:  # noqa: A002 - the option's name
        """Start with no key pressed; the arguments are those of ``ColouredApp``."""
        super().__init__(theme=theme, ascii=ascii)
        self._waiting: deque[Key | Paste] = deque()
        self._handling: Widget | None = None
        """The widget that handles the last key or its follow-up; None once that is done."""
        self._follower: KeyHandled | None = None
        """The follow-up of the last key. Others belong to keys whose widget was given up: they are
        too late."""
        self._looks_again = False
        self._is_drawn = False
        """Whether the first screen is there: a key before that would reach nobody."""

    def on_ready(self) -> None:
        """Take what was typed ahead once the first screen has its focus."""
        self.call_after_refresh(self._first_keys)

    async def _first_keys(self) -> None:
        self._is_drawn = True
        await self._pass_on()

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
        while self._is_drawn and self._waiting and self.screen_stack and not self._is_handling:
            event = self._waiting.popleft()
            await super().on_event(event)
            if event.is_forwarded:
                self._follow(self.focused or self.screen, KeyHandled())
            else:
                # A binding of the app's has had it already.
                self._follow(self.screen, KeyHandled(self.screen))
        if self._is_drawn and self._waiting and not self._looks_again:
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
        # A widget that is gone posts nothing any more.
        widget = self._handling
        return widget is not None and widget.is_attached and widget.screen in self.screen_stack
