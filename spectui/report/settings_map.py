"""The map of all settings: predicted and measured speedups over two numbers of a drafter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spectui.format import counted, times_text
from spectui.measure.arm import Arm
from spectui.options.speculation import Speculation
from spectui.report.content import Content
from spectui.report.document import arm_of

_MOST_COLUMNS, _MOST_ROWS = 20, 10
_MOST_PANELS = 4
_GAIN_SHADES, _LOSS_SHADES = 6, 4
_SHORT = 60


class Cell(NamedTuple):
    """Settings that share a place of the map: the best prediction and the best measurement."""

    predicted: float | None
    measured: float | None
    n_settings: int
    is_best: bool
    """Whether the setting of the verdict is among them."""

    @property
    def speedup(self) -> float:
        """Number that the cell shows: what was predicted, as its neighbours have no other one."""
        return self.predicted if self.predicted is not None else self.measured or 0.0

    def text(self, column: str, row: str) -> str:
        """The cell in words."""
        told = [counted(self.n_settings, "setting")]
        if self.predicted is not None:
            told.append(f"predicted {times_text(self.predicted)}")
        if self.measured is not None:
            told.append(f"measured {times_text(self.measured)}")
        return f"{column}, {row}: {', '.join(told)}"


class Panel(NamedTuple):
    """The settings of one way of drafting."""

    title: str
    across: str
    """Meaning of the columns."""
    upwards: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    """From the bottom to the top."""
    cells: Mapping[tuple[int, int], Cell]
    """By column and row."""

    @property
    def best(self) -> float:
        """Highest speedup of any cell."""
        return max((cell.speedup for cell in self.cells.values()), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsMap:
    """All panels, the one with the best setting first."""

    panels: tuple[Panel, ...]
    n_left_out: int
    low: float
    high: float
    n_measured: int

    def shade(self, speedup: float) -> str:
        """Name of a cell's shade: ``g1`` to ``g6`` for gains, ``l1`` to ``l4`` for losses."""
        if speedup >= 1:
            return f"g{_step(speedup, self.high, _GAIN_SHADES)}"
        return f"l{_step(speedup, self.low, _LOSS_SHADES)}"


def _step(speedup: float, end: float, n_shades: int) -> int:
    reach = abs(math.log(end)) if end > 0 else 0.0
    share = abs(math.log(speedup)) / reach if reach and speedup > 0 else 1.0
    return min(max(math.ceil(share * n_shades), 1), n_shades)


def settings_map(content: Content) -> SettingsMap | None:
    """Lay the settings of a study out; None where nothing was predicted or measured."""
    measured = _measured(content)
    members: dict[_Titles, list[_Place]] = {}
    for arm in dict.fromkeys((*content.predicted, *measured)):
        if arm.speculation is not None:
            titles, column, row = _place(arm, arm.speculation)
            members.setdefault(titles, []).append((column, row, arm))
    if not members:
        return None
    panels = [_panel(titles, places, content, measured) for titles, places in members.items()]
    panels.sort(key=lambda one: (not any(c.is_best for c in one.cells.values()), -one.best))
    speedups = [cell.speedup for one in panels for cell in one.cells.values() if cell.speedup > 0]
    return SettingsMap(
        panels=tuple(panels[:_MOST_PANELS]),
        n_left_out=max(0, len(panels) - _MOST_PANELS),
        low=min(speedups, default=1.0),
        high=max(speedups, default=1.0),
        n_measured=len(measured),
    )


def _measured(content: Content) -> dict[Arm, float]:
    """Measured speedups by setting: the race's where it took part, else its best trial's."""
    found: dict[Arm, float] = {}
    for standing in content.document.finalists or ():
        arm = arm_of(standing.params)
        is_timed = standing.n_timed != 0
        if arm is not None and not arm.is_off and standing.speedup and is_timed:
            found[arm] = standing.speedup
    for one in content.tried:
        if one.speedup is not None and not one.record.arm.is_off:
            found.setdefault(one.record.arm, one.speedup)
    return found


_Titles = tuple[str, str, str]
"""Titles of a panel, of its columns and of its rows."""
_Place = tuple[float, float | str, Arm]
"""Column and row of a setting."""


def _place(arm: Arm, how: Speculation) -> tuple[_Titles, float, float | str]:
    model = how.model
    if model is None:
        titles = "N-gram drafters, which need no model", "longest draft, in tokens", "drafter"
        return titles, how.own.longest, arm.drafter
    name = (arm.draft or how.own.kind)[:_SHORT]
    if how.ahead:
        titles = f"{name} behind n-gram drafters", "draft_max", "asked before it"
        return titles, model.draft_max, how.ahead[0].kind
    return (name, "draft_max", "p_min"), model.draft_max, model.draft_p_min


def _panel(
    titles: _Titles, places: Sequence[_Place], content: Content, measured: Mapping[Arm, float]
) -> Panel:
    columns = _groups([column for column, _row, _arm in places], _MOST_COLUMNS)
    rows = _groups([row for _column, row, _arm in places], _MOST_ROWS)
    arms: dict[tuple[int, int], list[Arm]] = {}
    for column, row, arm in places:
        arms.setdefault((columns[column], rows[row]), []).append(arm)
    cells = {
        at: Cell(
            predicted=_highest(content.predicted, members),
            measured=_highest(measured, members),
            n_settings=len(members),
            is_best=content.best in members,
        )
        for at, members in arms.items()
    }
    return Panel(*titles, columns=_labels(columns), rows=_labels(rows), cells=cells)


def _highest(speedups: Mapping[Arm, float], arms: Sequence[Arm]) -> float | None:
    return max((speedups[one] for one in arms if one in speedups), default=None)


def _groups(values: Sequence[float | str], most: int) -> dict[float | str, int]:
    """Index by value: neighbours share one where there are too many."""
    ordered = sorted(set(values), key=lambda one: (isinstance(one, str), one))
    share = -(-len(ordered) // most)
    return {value: index // share for index, value in enumerate(ordered)}


def _labels(groups: Mapping[float | str, int]) -> tuple[str, ...]:
    """Smallest value of each group."""
    first: dict[int, str] = {}
    for value, index in groups.items():
        first.setdefault(index, value[:_SHORT] if isinstance(value, str) else f"{value:g}")
    return tuple(first.values())
