"""Counters that only grow, as rates over the time between two reads."""

from spectui.monitor.readings import Reading

MEASURING = Reading(None, "measuring: a rate needs two samples")
_RESET = Reading(None, "the counter was reset; the next sample has a rate again")
_WRAP = 1 << 32


class CounterRate:
    """Turns a counter into a rate per second.

    A counter of 32 bits starts again at 0 after ``2**32 - 1``. Whether this one does is told by the
    caller, or learnt: a counter that falls from below ``2**32`` has wrapped.
    """

    def __init__(self, *, is_32_bit: bool = False) -> None:
        """Start without a sample."""
        self.is_32_bit = is_32_bit
        self._last: tuple[int, float] | None = None
        self._rate = MEASURING

    def elapsed_s(self, now_s: float) -> float:
        """Time since the last sample; 0 if there is none."""
        return 0.0 if self._last is None else now_s - self._last[1]

    def update(self, count: int, now_s: float) -> Reading:
        """Take a sample and return the rate since the one before.

        It is right as long as the counter wraps at most once between two samples.
        """
        elapsed_s = self.elapsed_s(now_s)
        if self._last is None or elapsed_s > 0:
            if self._last is not None:
                self._rate = self._since(self._last[0], count, elapsed_s)
            self._last = count, now_s
        return self._rate

    def _since(self, last: int, count: int, elapsed_s: float) -> Reading:
        if count < last:
            if last >= _WRAP:
                return _RESET
            self.is_32_bit = True
        difference = (count - last) % _WRAP if self.is_32_bit else count - last
        return Reading(difference / elapsed_s)
