"""Ctrl-C and SIGTERM: the first one interrupts, the rest wait until the result is out."""

import signal
from types import FrameType


class Interrupts:
    """Raises ``KeyboardInterrupt`` once.

    After the first signal, or once there is a result to report, further ones are ignored: a second
    Ctrl-C must not cost what the first one kept.
    """

    def __init__(self) -> None:
        """Not yet installed."""
        self._held = False

    def install(self) -> None:
        """Handle both signals from now on."""
        self._held = False
        signal.signal(signal.SIGINT, self._handle)
        # Being told to end is being interrupted: what was measured is kept in both cases.
        signal.signal(signal.SIGTERM, self._handle)

    def hold(self) -> None:
        """Ignore signals from now on: what remains is to free the models and to report."""
        self._held = True

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if not self._held:
            self._held = True
            raise KeyboardInterrupt


interrupts = Interrupts()
