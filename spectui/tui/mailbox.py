"""Events of other threads on their way to the screen: many in, one wake-up out."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from textual.message import Message

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """A queue that wakes its reader at most once per collection.

    The engine emits several events per round. Waking the event loop for each would cost the engine
    its interpreter lock many times over; so the first event wakes it, and the rest wait until it
    comes to collect them.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` on the writer's thread when something has come in."""
        self._wake = wake
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._is_awake = False

    def put(self, item: Item) -> None:
        """Add ``item``, from any thread."""
        with self._lock:
            self._items.append(item)
            must_wake, self._is_awake = not self._is_awake, True
        if must_wake:
            self._wake()

    def discard(self, is_void: Callable[[Item], bool]) -> None:
        """Forget events that no longer count."""
        with self._lock:
            self._items = deque(item for item in self._items if not is_void(item))

    def collect(self) -> tuple[Item, ...]:
        """Take out everything; the next ``put`` wakes again."""
        with self._lock:
            items = tuple(self._items)
            self._items.clear()
            self._is_awake = False
            return items


class Pace:
    """Spaces the screen's repaints: at least ``interval_s`` between two."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing painted."""
        self.interval_s = interval_s
        self._clock = clock
        self._last: float | None = None

    def delay_s(self) -> float:
        """Seconds to wait until the next repaint may begin, 0 for at once."""
        if self._last is None:
            return 0.0
        return max(0.0, self._last + self.interval_s - self._clock())

    def begin(self) -> None:
        """Note that a repaint begins."""
        self._last = self._clock()


class EventsArrived(Message):
    """The mailbox is no longer empty."""

    def can_replace(self, message: Message) -> bool:
        """One wake-up is as good as many."""
        return isinstance(message, EventsArrived)
