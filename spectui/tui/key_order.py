"""Keys act in the order in which they were pressed, however fast they come."""

from collections import deque

from textual.app import App, ReturnType
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.widget import Widget


class KeyHandled(Message):
    """Follows a key on its way from the focused widget up to the app, so it comes after it."""


class OrderedApp(App[ReturnType]):
    """Passes a key on when the one before has been handled.

    Textual gives a key to the widget that has the focus when the key comes in, which may be before
    an earlier Tab has moved the focus: keys that come in a burst would all go to one field.
    """

    def __init__(self) -> None:
        """Start with no key pressed."""
        super().__init__()
        self._waiting: deque[Key | Paste] = deque()
        self._handling: Widget | None = None
        """Has got the last key, and has not told yet that it was handled."""

    async def on_event(self, event: Event) -> None:
        """Let what is typed wait for what was typed before."""
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            self._waiting.append(event)
            await self._pass_on()
        else:
            await super().on_event(event)

    async def on_key_handled(self) -> None:
        """Go on with the next key."""
        self._handling = None
        await self._pass_on()

    async def _pass_on(self) -> None:
        while self._waiting and not self._is_handling:
            event = self._waiting.popleft()
            await super().on_event(event)
            if event.is_forwarded:
                target = self.focused or self.screen
                self._handling = target if target.post_message(KeyHandled()) else None

    @property
    def _is_handling(self) -> bool:
        # A widget that is gone tells nothing any more.
        return self._handling is not None and self._handling.is_attached
