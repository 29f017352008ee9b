"""A gate before each load and measurement, which is closed while RAM is short.

RAM is short where next to nothing is left of it within all cgroup limits: then the kernel ends
somebody soon. What takes memory for a while, such as a compiler or a backup, is through within
minutes. So the gate opens once there is clearly more than what closed it, for some looks in a row,
and gives up after ten minutes: then something stays, and a person has to choose.

What waiting for memory does to a measurement says the watch over the machine
(``monitor/disturbance.py``).
"""

import time
from collections.abc import Callable

from spectui.engine.host_memory import HostMemory, host_memory
from spectui.errors import CancelledError, MemoryShortError
from spectui.format import bytes_text

MOST_S = 600.0
"""Seconds for which memory may stay short."""
_FLOOR_BYTES = 256 << 20
"""Bytes below which RAM is short."""
_PLENTY = 1.5
"""Times as much opens the gate."""
_LOOK_S = 1.0
_STEADY_LOOKS = 3


class MemoryGate:
    """Lets loads and measurements through while there is memory. Used by one thread."""

    def __init__(
        self,
        read: Callable[[], HostMemory] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open the gate.

        Args:
            read: reads what is free; None for ``host_memory``.
            clock: seconds.
            sleep: waits for so many seconds.
        """
        self._read = host_memory if read is None else read
        self._clock = clock
        self._sleep = sleep
        self.waited_s = 0.0
        """Seconds for which it was closed."""
        self.settle()

    def settle(self) -> None:
        """Take what is free now, after a load, for what there is: a pair may leave little."""
        self._floor_bytes = min(_FLOOR_BYTES, self._read().free_bytes // 2)

    def wait(self, tell: Callable[[str | None], None], is_over: Callable[[], bool]) -> None:
        """Wait while memory is short.

        Args:
            tell: told why nothing goes on now, and None once it does.
            is_over: whether nobody waits for it any more.

        Raises:
            CancelledError: nobody does.
            MemoryShortError: memory stays short.
        """
        began_s = self._clock()
        reason = self._shortage(self._floor_bytes)
        if reason is None:
            return
        tell(f"paused, because {reason}; it goes on once there is memory again")
        try:
            n_well = 0
            while n_well < _STEADY_LOOKS:
                if is_over():
                    raise CancelledError("cancelled while memory was short")
                if self._clock() - began_s > MOST_S:
                    raise MemoryShortError(
                        f"memory stayed short for {MOST_S / 60:.0f} min ({reason}); close other "
                        "programs, or choose a shorter -c, and start the command again"
                    )
                self._sleep(_LOOK_S)
                shortage = self._shortage(_PLENTY * self._floor_bytes)
                reason = shortage or reason
                n_well = 0 if shortage else n_well + 1
        finally:
            self.waited_s += self._clock() - began_s
        tell(None)

    def _shortage(self, least_bytes: float) -> str | None:
        """What is left of RAM where that is less; None where it is not."""
        now = self._read()
        if now.free_bytes >= least_bytes:
            return None
        return (
            f"RAM has {bytes_text(now.free_bytes)} left{f' below {now.limit}' if now.limit else ''}"
        )
