"""The output of a process, of which the beginning and the end are kept in memory."""

import os
import re
import threading
from collections.abc import Callable

from spectui.closing import Closing
from spectui.format import printable

HEAD_BYTES = 1 << 20
TAIL_BYTES = 1 << 20
"""Each a hundred times what llama-server says while it loads a model."""
_AT_ONCE_BYTES = 1 << 16
_LAST_BYTES = 4096
_N_LAST_LINES = 5
_MOST_CHARACTERS = 600
_UNREADABLE = re.compile(r"\?{3,}")
_PRINTED = bytes(code if code >= ord(" ") or code in b"\n\t" else ord("?") for code in range(256))
"""The byte that is kept of each byte: no terminal acts on a log."""
_JOIN_S = 1.0


class Output(Closing):
    """Reads what a process prints, and keeps the beginning and the end of it."""

    def __init__(self) -> None:
        """Make the pipe."""
        self.n_bytes = 0
        """Printed so far."""
        self._kept = bytearray()
        self._thread: threading.Thread | None = None
        self._pipe, self.descriptor = os.pipe()
        """``descriptor`` is the end of the pipe that the process is to write to."""

    def follow(self, words: bytes = b"", on_words: Callable[[], None] | None = None) -> None:
        """Begin to read: the process has its end of the pipe.

        Args:
            words: words to wait for.
            on_words: called once, on a thread, when they are printed.
        """
        os.close(self.descriptor)
        self.descriptor = -1
        self._thread = threading.Thread(
            target=self._read, args=(words, on_words), name="spectui-output", daemon=True
        )
        self._thread.start()

    @property
    def last_words(self) -> str:
        """Clause with the last lines that were printed so far."""
        lines = self._kept[-_LAST_BYTES:].decode("utf-8", "replace").splitlines()
        spoken = " / ".join([line.strip() for line in lines if line.strip()][-_N_LAST_LINES:])
        if not spoken:
            return "it printed nothing"
        words = _UNREADABLE.sub("??", printable(spoken))[-_MOST_CHARACTERS:]
        return f"its last words were {words!r}"

    @property
    def text(self) -> str:
        """All that is kept, with a line where bytes are left out; what is no UTF-8 is replaced."""
        kept = bytes(self._kept)
        n_left_out = self.n_bytes - len(kept)
        if n_left_out:
            note = f"\n[{n_left_out} bytes are left out here]\n".encode()
            kept = kept[:HEAD_BYTES] + note + kept[HEAD_BYTES:]
        return kept.decode("utf-8", "replace")

    def close(self) -> None:
        """Read the rest; the process has ended. May be called again."""
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        elif self.descriptor >= 0:
            os.close(self.descriptor)
            os.close(self._pipe)
            self.descriptor = -1

    def _read(self, words: bytes, on_words: Callable[[], None] | None) -> None:
        try:
            while data := os.read(self._pipe, _AT_ONCE_BYTES):
                self.n_bytes += len(data)
                self._kept += data.translate(_PRINTED)
                if len(self._kept) > HEAD_BYTES + 2 * TAIL_BYTES:
                    del self._kept[HEAD_BYTES:-TAIL_BYTES]
                if on_words is not None and words in self._kept[-len(words) - len(data) :]:
                    on_words()
                    on_words = None
        finally:
            os.close(self._pipe)
