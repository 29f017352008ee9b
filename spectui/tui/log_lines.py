"""The last lines of llama.cpp's log, written by native threads and read by the log screen."""

import threading
from collections import deque


class LogLines:
    """Keeps the last lines and counts all of them."""

    def __init__(self, capacity: int = 5_000) -> None:
        """Keep ``capacity`` lines."""
        self._lines: deque[str] = deque(maxlen=capacity)
        self._n_added = 0
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Add a line, from any thread."""
        with self._lock:
            self._lines.append(line)
            self._n_added += 1

    def since(self, n_seen: int) -> tuple[int, tuple[str, ...]]:
        """Return how many lines there have been, and those after the first ``n_seen``."""
        with self._lock:
            n_new = min(self._n_added - n_seen, len(self._lines))
            return self._n_added, tuple(self._lines)[len(self._lines) - n_new :]
