"""The log of llama.cpp in this process."""

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

LogListener = Callable[[str], None]
_DEBUG, _CONTINUED = 1, 5
"""``GGML_LOG_LEVEL_DEBUG`` and ``GGML_LOG_LEVEL_CONT``."""


class NativeLog:
    """llama.cpp's own log, line by line, kept off the terminal.

    The last lines stay in memory, for error messages; a listener may write all to a file. Native
    threads call in, hence the lock.
    """

    def __init__(self, capacity: int = 50_000) -> None:
        """Keep the last ``capacity`` lines."""
        self._lines: deque[str] = deque(maxlen=capacity)
        self._partial = ""
        self._lock = threading.Lock()
        self._listener: LogListener | None = None
        self._is_debug = False
        self._callback: object = None

    def install(self, binding: Any) -> None:  # noqa: ANN401 - ctypes
        """Route llama.cpp's and ggml's messages here."""
        # The C side keeps only a pointer: the callback object must live as long as the log.
        self._callback = binding.llama_log_callback(self._receive)
        binding.llama_log_set(self._callback, ctypes.c_void_p(0))

    def listen(self, listener: LogListener | None) -> None:
        """Pass every further line to ``listener`` as well; None for no listener."""
        self._listener = listener

    def tail(self, n_lines: int | None = None) -> tuple[str, ...]:
        """Return the last ``n_lines`` lines since the mark, oldest first; None for all."""
        with self._lock:
            return tuple(self._lines)[-(n_lines or 0) :]

    def mark(self) -> None:
        """Forget the lines so far, so that ``tail`` shows only what follows."""
        with self._lock:
            self._lines.clear()
            self._partial = ""

    def add(self, line: str) -> None:
        """Take in a line of another process."""
        with self._lock:
            self._lines.append(line)
        listener = self._listener
        if listener is not None:
            listener(line)

    def _receive(self, level: int, text: bytes, _user_data: object) -> None:
        if level != _CONTINUED:
            self._is_debug = level == _DEBUG
        with self._lock:
            *lines, self._partial = (self._partial + text.decode(errors="replace")).split("\n")
            self._lines.extend(lines)
        # Other threads may take it away meanwhile.
        listener = self._listener
        # More than a thousand debug lines per context say which tensor feeds which node.
        if listener is not None and not self._is_debug:
            for line in lines:
                listener(line)


native_log = NativeLog()
