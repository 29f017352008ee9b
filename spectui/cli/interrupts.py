"""Ctrl-C, SIGTERM, SIGHUP: the first one interrupts, the rest wait until the result is out."""

import signal
from types import FrameType

from spectui.errors import CancelledError

_INTERRUPTED = 130
_ENDED_BY: dict[int, int] = {signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Exit codes for signals, as shells give them."""


class Interrupts:
    """Raises ``KeyboardInterrupt`` once.

    After the first signal, or once there is a result to report, further ones are ignored: a second
    Ctrl-C must not cost what the first one kept.
    """

    def __init__(self) -> None:
        """Start without signal handlers."""
        self._held = False
        self._code = _INTERRUPTED

    def install(self) -> None:
        """Handle these signals from now on."""
        self._held = False
        self._code = _INTERRUPTED
        # Being told to end is being interrupted: what was measured is kept in all cases.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        # Under nohup it stays ignored.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._handle)

    def hold(self) -> None:
        """Ignore signals from now on: what remains is to free the models and to report."""
        self._held = True

    def exit_code(self, code: int) -> int:
        """Exit code of a run that ended with ``code``; the signal's own if one ended it."""
        # Who takes the terminal away cannot be told more than that.
        was_ended = code != 0 and self._code != _INTERRUPTED
        return self._code if was_ended or code == _INTERRUPTED else code

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._held:
            self._held = True
            self._code = _ENDED_BY.get(number, _INTERRUPTED)
            raise KeyboardInterrupt


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
