"""The what-if chart's scale of values: every tick in the middle of a row of characters."""

from dataclasses import dataclass
from math import ceil, floor, log10

_NICE = (1, 2, 5)
"""Ticks are these apart, times a power of ten."""
_MOST_TICKS = 8
_FAR = 4
"""Rows between ticks that are no reason for coarser rows; it takes more where there are many."""
_LEAST_SPAN = 0.01
"""Of the largest value: what differs by less is drawn as flat as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values over rows of characters, counted from below."""

    low: float
    """At the lower edge of the lowest row."""
    high: float
    """At the upper edge of the highest row."""
    n_rows: int
    ticks: tuple[tuple[float, str], ...]
    """(value, label), from below."""

    def row(self, value: float) -> int:
        """Return the row that ``value`` stands in."""
        share = (value - self.low) / (self.high - self.low)
        return min(max(floor(share * self.n_rows), 0), self.n_rows - 1)


@dataclass(frozen=True, slots=True, order=True)
class _Step:
    """How much a row is; the least that fits is the best, with as many ticks as there can be."""

    value: float
    rows_per_tick: int
    nice: int
    power: int

    def first(self, low: float) -> int:
        """Return the row of ``low`` if 0 is in the middle of row 0."""
        return floor(low / self.value + 0.5)

    def fits(self, low: float, high: float, n_rows: int) -> bool:
        """Whether ``n_rows`` hold both values."""
        return self.first(high) < self.first(low) + n_rows

    def tick(self, row: int) -> tuple[float, str] | None:
        """Return the tick of a row, if it has one."""
        n, between = divmod(row, self.rows_per_tick)
        if between:
            return None
        # A division by a power of ten is exact to the last digit; a product with 0.1 is not.
        value = (
            n * self.nice / 10**-self.power if self.power < 0 else n * self.nice * 10**self.power
        )
        return float(value), f"{value:.{max(0, -self.power)}f}"


def axis(low: float, high: float, n_rows: int) -> Axis:
    """Return a scale of ``n_rows`` rows on which ``low`` to ``high`` have room."""
    n_rows = max(1, n_rows)
    room = max(0.0, (_LEAST_SPAN * abs(high) or 1.0) - (high - low)) / 2
    low, high = low - room, high + room
    step = min(one for one in _steps(high - low, n_rows) if one.fits(low, high, n_rows))
    first = step.first(low)
    # What is left over goes below and above alike, but not below zero.
    spare = first + n_rows - 1 - step.first(high)
    first = max(first - spare // 2, min(first, 0))
    bottom = (first - 0.5) * step.value
    ticks = (step.tick(row) for row in range(first, first + n_rows))
    return Axis(
        low=bottom,
        high=bottom + n_rows * step.value,
        n_rows=n_rows,
        ticks=tuple(tick for tick in ticks if tick is not None),
    )


def _steps(span: float, n_rows: int) -> list[_Step]:
    fewest = ceil(n_rows / _MOST_TICKS)
    # Two ticks have room in any case.
    most = max(fewest, min(n_rows // 2, max(_FAR, n_rows // 3)))
    powers = range(floor(log10(span / n_rows)), floor(log10(span)) + 3)
    return [
        _Step(nice * 10.0**power / per_tick, per_tick, nice, power)
        for power in powers
        for nice in _NICE
        for per_tick in range(fewest, most + 1)
    ]
