"""The map of all settings: predicted and measured speedups over two numbers of a drafter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spectui.format import counted, times_text
from spectui.measure.arm import Arm
from spectui.report.content import Content
from spectui.report.settings import arm_of

_MOST_COLUMNS, _MOST_ROWS = 20, 10
_MOST_PANELS = 4
_GAIN_SHADES, _LOSS_SHADES = 6, 4
_SHORT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Settings that share a place of the map: the best prediction and the best measurement."""

    predicted: float | None = None
    measured: float | None = None
    n_settings: int = 0
    is_best: bool = False
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The settings of one way of drafting."""

    title: str
    across: str
    """What the columns are."""
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
    n_predicted: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A setting's place: its panel, and its coordinates there."""

    panel: tuple[str, str, str]
    """Title, and what the axes are."""
    column: float
    row: float | str


def settings_map(content: Content) -> SettingsMap | None:
    """Lay the settings of a study out; None where nothing was predicted or measured."""
    measured = _measured(content)
    arms = list(dict.fromkeys((*content.predicted, *measured)))
    members: dict[tuple[str, str, str], list[tuple[_Place, Arm]]] = {}
    for arm in arms:
        place = _place(arm)
        if place is not None:
            members.setdefault(place.panel, []).append((place, arm))
    if not members:
        return None
    panels = [_panel(title, places, content, measured) for title, places in members.items()]
    panels.sort(key=lambda one: (not any(c.is_best for c in one.cells.values()), -one.best))
    speedups = [cell.speedup for one in panels for cell in one.cells.values() if cell.speedup > 0]
    return SettingsMap(
        panels=tuple(panels[:_MOST_PANELS]),
        n_left_out=max(0, len(panels) - _MOST_PANELS),
        low=min(speedups, default=1.0),
        high=max(speedups, default=1.0),
        n_predicted=len(content.predicted),
        n_measured=len(measured),
    )


def _measured(content: Content) -> dict[Arm, float]:
    """Measured speedups by setting: the race's where it took part, else its best trial's."""
    found: dict[Arm, float] = {}
    for standing in content.document.finalists or ():
        arm = arm_of(standing.params)
        if arm is not None and not arm.is_off and standing.speedup:
            found[arm] = standing.speedup
    for one in content.tried:
        if one.speedup is not None and not one.record.arm.is_off:
            found.setdefault(one.record.arm, one.speedup)
    return found


def _place(arm: Arm) -> _Place | None:
    how = arm.speculation
    if how is None:
        return None
    model = how.model
    if model is None:
        panel = "N-gram drafters, which need no model", "longest draft, in tokens", "drafter"
        return _Place(panel=panel, column=how.own.longest, row=arm.drafter)
    name = (arm.draft or how.own.kind)[:_SHORT]
    if how.ahead:
        panel = f"{name} behind n-gram drafters", "draft_max", "asked before it"
        return _Place(panel=panel, column=model.draft_max, row=how.ahead[0].kind)
    panel = f"{name}", "draft_max", "p_min"
    return _Place(panel=panel, column=model.draft_max, row=model.draft_p_min)


def _panel(
    titles: tuple[str, str, str],
    places: Sequence[tuple[_Place, Arm]],
    content: Content,
    measured: Mapping[Arm, float],
) -> Panel:
    title, across, upwards = titles
    columns = _groups([place.column for place, _ in places], _MOST_COLUMNS)
    rows = _groups([place.row for place, _ in places], _MOST_ROWS)
    cells: dict[tuple[int, int], Cell] = {}
    for place, arm in places:
        at = columns[place.column], rows[place.row]
        cells[at] = _joined(
            cells.get(at, Cell()),
            predicted=content.predicted.get(arm),
            measured=measured.get(arm),
            is_best=arm == content.best,
        )
    return Panel(
        title=title,
        across=across,
        upwards=upwards,
        columns=_labels(columns),
        rows=_labels(rows),
        cells=cells,
    )


def _joined(cell: Cell, *, predicted: float | None, measured: float | None, is_best: bool) -> Cell:
    return replace(
        cell,
        predicted=max(filter(None, (cell.predicted, predicted)), default=None),
        measured=max(filter(None, (cell.measured, measured)), default=None),
        n_settings=cell.n_settings + 1,
        is_best=cell.is_best or is_best,
    )


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
