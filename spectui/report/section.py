"""Sections of a report: charts, a table, sentences; and the geometry of charts.

A chart is an inline SVG with places across in per cent, and heights and texts in pixels: so it fits
every width, and its texts stay as large as the page's. A library would draw for one width, in
hundreds of kilobytes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeVar

from spectui.format import time_text
from spectui.report.settings_map import SettingsMap

_LOG_TICKS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5),
    *(1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4, 1e5, 1e6),
)
_APART = 13.0
"""Least distance of two ticks, in per cent."""
_MARGIN = 0.06
_FARTHEST = 4.0
"""Factor beyond all estimates at which intervals are cut."""
_MOST_TICKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A scale of speedups along their logarithms: twice is as far from 1 as half."""

    low: float
    high: float

    def at(self, speedup: float) -> float:
        """Place of a speedup, in per cent."""
        span = math.log(self.high / self.low)
        share = math.log(max(speedup, 1e-9) / self.low) / span
        return round(100 * min(max(share, 0.0), 1.0), 2)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels, 1 always among them."""
        places = [(1.0, self.at(1.0))]
        inside = [one for one in _LOG_TICKS if self.low <= one <= self.high]
        for value in sorted(inside, key=lambda one: abs(math.log(one)), reverse=True):
            at = self.at(value)
            if all(abs(at - other) >= _APART for _, other in places):
                places.append((value, at))
        return tuple((at, f"{value:g}×") for value, at in sorted(places))


def scale_of(speedups: Iterable[float | None]) -> Scale:
    """A scale that holds 1 and all of ``speedups``."""
    known = [1.0, *(one for one in speedups if one is not None and one > 0)]
    low, high = min(0.95, *known), max(1.05, *known)
    room = _MARGIN * math.log(high / low)
    return Scale(low=low * math.exp(-room), high=high * math.exp(room))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """A scale of seconds, from 0."""

    most: float

    def at(self, seconds: float) -> float:
        """Place of a time, in per cent."""
        return round(100 * min(max(seconds / self.most, 0.0), 1.0), 2) if self.most > 0 else 0.0

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels."""
        if self.most <= 0:
            return ()
        rough = self.most / _MOST_TICKS
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= rough)
        n_ticks = math.floor(self.most / step + 1e-9)
        values = [step * index for index in range(n_ticks + 1)]
        return tuple((self.at(one), time_text(one)) for one in values)


class Row(NamedTuple):
    """A row of a chart of speedups: an estimate, with its interval where there is one."""

    label: str
    speedup: float
    interval: tuple[float, float] | None = None
    is_strong: bool = False


def forest_scale(rows: Sequence[Row]) -> Scale:
    """Scale of a chart of speedups."""
    speedups = [row.speedup for row in rows if row.speedup]
    ends = [end for row in rows for end in row.interval or () if end]
    # An interval of too few prompts may reach from nothing to a hundredfold.
    low, high = min(1.0, *speedups) / _FARTHEST, max(1.0, *speedups) * _FARTHEST
    return scale_of([*speedups, *(min(max(end, low), high) for end in ends)])


class Piece(NamedTuple):
    """A piece of a bar."""

    name: str
    """Meaning, which decides the colour."""
    start_s: float
    seconds: float


class Bar(NamedTuple):
    """A bar of pieces in seconds."""

    label: str
    pieces: tuple[Piece, ...]

    @property
    def end_s(self) -> float:
        """Where it ends."""
        return max((one.start_s + one.seconds for one in self.pieces), default=0.0)


def bar(label: str, *pieces: tuple[str, float], start_s: float = 0.0) -> Bar:
    """A bar of pieces (name, seconds), one behind the other."""
    starts = accumulate((seconds for _name, seconds in pieces), initial=start_s)
    both = zip(pieces, starts, strict=False)
    return Bar(label, tuple(Piece(name, start, seconds) for (name, seconds), start in both))


def bars_scale(bars: Sequence[Bar]) -> Seconds:
    """Scale of a chart of bars."""
    return Seconds(most=1.04 * max((one.end_s for one in bars), default=0.0))


MOST = 24
"""Rows of a chart or a table."""
Cells = tuple[str, ...]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts."""

    heads: Cells
    rows: tuple[Cells, ...]
    n_words: int = 1
    """Leading columns that hold words; the others hold numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a report."""

    forest: tuple[Row, ...] = ()
    """A chart of speedups."""
    bars: tuple[Bar, ...] = ()
    """A chart of seconds."""
    map: SettingsMap | None = None
    table: Table | None = None
    notes: tuple[str, ...] = ()
    """Sentences below."""


def table_of(items: Iterable[_Item], columns: Mapping[str, Callable[[_Item], str]]) -> Table:
    """A table with a row for each of ``items``, whose texts stand by the head of their column."""
    rows = (tuple(text(one) for text in columns.values()) for one in items)
    return Table(heads=tuple(columns), rows=tuple(rows))


def facts(rows: list[tuple[str, str]], n_words: int = 1) -> Table:
    """A table of names and values, which needs no head."""
    return Table(heads=("", ""), rows=tuple(rows), n_words=n_words)
