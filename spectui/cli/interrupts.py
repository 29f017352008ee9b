"""Ctrl-C and SIGTERM: the first one interrupts, the rest wait until the result is out."""

import signal
from types import FrameType

_INTERRUPTED = 130
_TERMINATED = 143


class Interrupts:
    """Raises ``KeyboardInterrupt`` once.

    After the first signal, or once there is a result to report, further ones are ignored: a second
    Ctrl-C must not cost what the first one kept.
    """

    def __init__(self) -> None:
        """Not yet installed."""
        self._held = False
        self._terminated = False

    def install(self) -> None:
        """Handle both signals from now on."""
        self._held = self._terminated = False
        signal.signal(signal.SIGINT, self._handle)
        # Being told to end is being interrupted: what was measured is kept in both cases.
        signal.signal(signal.SIGTERM, self._handle)

    def hold(self) -> None:
        """Ignore signals from now on: what remains is to free the models and to report."""
        self._held = True

    def exit_code(self, code: int) -> int:
        """The code of a run that ended with ``code``, seen from who ended it."""
        return _TERMINATED if self._terminated and code == _INTERRUPTED else code

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._held:
            self._held = True
            self._terminated = number == signal.SIGTERM
            raise KeyboardInterrupt


interrupts = Interrupts()
