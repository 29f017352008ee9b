"""Handles Ctrl-C, SIGTERM and SIGHUP: the first one interrupts, later ones are ignored.

So the result can still be printed. Two more Ctrl-C end the program at once.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from spectui.errors import CancelledError

_INTERRUPTED = CancelledError.exit_code
_STDERR = 2
_SHOW_CURSOR = b"\x1b[?25h"
"""A display of progress has hidden it."""
_FINISHING = b"\nfinishing, to keep what was measured; Ctrl-C once more ends spectui at once\n"
_ENDED_BY: dict[int, int] = {signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Exit codes for signals, as shells give them."""


class Interrupts:
    """Raises ``KeyboardInterrupt`` once.

    After the first signal, or once there is a result to report, further ones are ignored: a second
    Ctrl-C must not cost what the first one kept. It is answered, and the next one ends the process.
    """

    def __init__(self) -> None:
        """Start without signal handlers."""
        self._held = self._is_warned = False
        self._waits = self._is_waiting = False
        self._code = _INTERRUPTED

    def install(self) -> None:
        """Handle these signals from now on."""
        self._held = self._is_warned = self._is_waiting = False
        self._code = _INTERRUPTED
        # SIGTERM counts as an interrupt as well, so that measurements are kept.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        # Under nohup it stays ignored.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._handle)

    def hold(self) -> None:
        """Ignore signals from now on: models are being freed, and results printed."""
        self._held = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Delay an interrupt until the end of the block, for output that must not be cut off.

        Raises:
            KeyboardInterrupt: there was one.
        """
        if threading.current_thread() is not threading.main_thread():
            # Python raises interrupts in the main thread alone.
            yield
            return
        before, self._waits = self._waits, True
        try:
            yield
        finally:
            self._waits = before
        if self._is_waiting and not before:
            self._is_waiting = False
            raise KeyboardInterrupt

    def exit_code(self, code: int) -> int:
        """Exit code of a run that ended with ``code``; the signal's own if one ended it."""
        # After SIGTERM or SIGHUP the signal's own code stands for any failure.
        was_ended = code != 0 and self._code != _INTERRUPTED
        return self._code if was_ended or code == _INTERRUPTED else code

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._held:
            self._held = True
            self._code = _ENDED_BY.get(number, _INTERRUPTED)
            if self._waits:
                self._is_waiting = True
                return
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            self._insist()

    def _insist(self) -> None:
        """Answer one more Ctrl-C, and end at the next."""
        if self._is_warned:
            # As if killed: a process of its own ends llama-servers, and studies are on disk.
            if os.isatty(_STDERR):
                os.write(_STDERR, _SHOW_CURSOR)
            os._exit(_INTERRUPTED)
        self._is_warned = True
        # Not by way of ``sys.stderr``, in the middle of whose writing this may be.
        with suppress(OSError):
            os.write(_STDERR, _FINISHING)


interrupts = Interrupts()


def raise_ended(ended: BaseException | None, interrupted: str) -> None:
    """Raise what ended a measurement early, once the results are printed; ``interrupted`` says so.

    Raises:
        CancelledError: it was interrupted.
    """
    if isinstance(ended, KeyboardInterrupt | CancelledError):
        raise CancelledError(interrupted)
    if ended is not None:
        raise ended
