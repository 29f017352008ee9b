"""Speedups in the order of the trials, thinned out to what a plot can show."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.tui.tune.ledger import Ledger, Row

Points = tuple[tuple[int, float], ...]
"""(trial number, speedup) pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a plot of the search shows."""

    trials: Points = ()
    best: Points = ()
    """The largest speedup so far, at the trials that raised it and at the last one."""


def history(ledger: Ledger, *, max_points: int) -> History:
    """Return the speedups of the measured settings; the off arm is the line at 1 and no point.

    Args:
        ledger: the trials.
        max_points: where there are more, the slowest and fastest of neighbours stand for them.
    """
    rows = [row for row in ledger.rows if row.is_measured and not row.is_off]
    if not rows or not ledger.off_level:
        return History()
    best = _points(_records(rows), ledger.off_level)
    if best[-1][0] != rows[-1].number:
        best += ((rows[-1].number, best[-1][1]),)
    return History(trials=_points(_thin(rows, max_points), ledger.off_level), best=best)


def _records(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that were faster than all before them."""
    found = [rows[0]]
    for row in rows:
        if _relative(row) > _relative(found[-1]):
            found.append(row)
    return found


def _thin(rows: Sequence[Row], max_points: int) -> Sequence[Row]:
    if len(rows) <= max_points:
        return rows
    size = -(-2 * len(rows) // max(2, max_points))
    groups = (rows[i : i + size] for i in range(0, len(rows), size))
    ends = {
        end for group in groups for end in (min(group, key=_relative), max(group, key=_relative))
    }
    return sorted(ends, key=lambda row: row.number)


def _points(rows: Sequence[Row], off_level: float) -> Points:
    return tuple((row.number, _relative(row) / off_level) for row in rows)


def _relative(row: Row) -> float:
    return row.relative or 0.0
