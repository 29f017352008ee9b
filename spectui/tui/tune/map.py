"""Every replayed setting over two of its numbers as a heat map, what was measured marked."""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Focus, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from spectui.live.replay import ChatReplay, replayed_value
from spectui.measure.arm import Arm
from spectui.options.drafters import DraftSimple, number_of
from spectui.tui import draw
from spectui.tui.tune.ledger import FORECAST, Ledger
from spectui.tui.widgets import hidden, key
from spectui.tune.space import MAX_DRAFT, P_MINS

_ACROSS = number_of(DraftSimple, "draft_max")
_UPWARDS = number_of(DraftSimple, "draft_p_min")
_ROUNDING = 1e-6
_GROUPS = (1, 2, 4, 5, 10, 20)
"""Steps of a parameter that may share a cell."""
_MIN_CELL = 5
"""Cells that a shade and a number need."""
_MAX_CELL = 8
_LABELS = len(_UPWARDS.text(0.0)) + 1
_FRAME = 4
"""Lines around the grid: its title, two for the axis, the legend."""
_WEAKEST, _STRONGEST = 0.2, 0.7
"""Range of the strength of a cell's colour."""
_CONTRAST = 0.9


class Source(IntEnum):
    """Where a number comes from; of several in a cell, the later source is shown."""

    REPLAYED = 0
    MEASURED = 1
    BEST = 2
    """The confirmed setting, else the one that would be raced."""


class Cell(NamedTuple):
    """A setting; of those that share a place the best by its latest source stands for it."""

    source: Source
    value: float
    """Speedup, or where that is not known tokens per round."""
    arm: Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """A grid of values; a cell that was neither replayed nor measured is missing."""

    columns: tuple[str, ...]
    """Smallest value of each column, ascending."""
    rows: tuple[str, ...]
    """Smallest value of each row, ascending."""
    per_column: int
    """Values that share a column."""
    per_row: int
    """Values that share a row."""
    cells: Mapping[tuple[int, int], Cell]
    """By (column, row)."""

    @property
    def best(self) -> tuple[int, int] | None:
        """Place of the best; None where no draft model is part of it."""
        found = (place for place, cell in self.cells.items() if cell.source is Source.BEST)
        return next(found, None)

    @property
    def low(self) -> float:
        """Smallest value; 1 if there is none."""
        return min((cell.value for cell in self.cells.values()), default=1.0)

    @property
    def high(self) -> float:
        """Largest value; 1 if there is none."""
        return max((cell.value for cell in self.cells.values()), default=1.0)


def landscape(known: Sequence[Cell], *, max_columns: int, max_rows: int) -> Landscape:
    """Put settings on a grid that has room for them.

    The best setting of a cell stands for it, whatever its other numbers and its draft are: that is
    the one that a search would choose there. What was measured hides what was forecast; of equal
    settings the first stands.
    """
    placed = [(place, cell) for cell in known if (place := _place(cell.arm)) is not None]
    lengths = {longest for (longest, _), _ in placed}
    if all(cell.source is not Source.REPLAYED for cell in known):
        lengths.add(MAX_DRAFT)
    n_longest = max(lengths, default=MAX_DRAFT)
    per_column, per_row = _group(n_longest, max_columns), _group(len(P_MINS), max_rows)
    cells = dict[tuple[int, int], Cell]()
    for (longest, step), cell in placed:
        place = (longest - 1) // per_column, step // per_row
        cells[place] = max(cells.get(place, cell), cell, key=lambda one: (one.source, one.value))
    return Landscape(
        columns=tuple(str(first) for first in range(1, n_longest + 1, per_column)),
        rows=tuple(map(_UPWARDS.text, P_MINS[::per_row])),
        per_column=per_column,
        per_row=per_row,
        cells=cells,
    )


def searched(ledger: Ledger) -> Iterator[Cell]:
    """Yield what a search has forecast, best first, and over it what it has measured."""
    for one in ledger.forecasts:
        yield Cell(Source.REPLAYED, one.speedup, one.arm)
    for row in ledger.rows:
        if row.is_known and row.speedup is not None:
            source = Source.REPLAYED if row.state == FORECAST else Source.MEASURED
            yield Cell(Source.BEST if row is ledger.best else source, row.speedup, row.arm)


def replayed(chat: ChatReplay) -> Iterator[Cell]:
    """Yield what was replayed on a chat; without costs there is no best."""
    for index, total in enumerate(chat.totals):
        is_best = index == 0 and chat.costs is not None
        arm = Arm(draft=chat.draft, speculation=total.speculation)
        yield Cell(Source.BEST if is_best else Source.REPLAYED, replayed_value(total), arm)


def _place(arm: Arm) -> tuple[int, int] | None:
    """The value across and the step upwards; None of an arm that no draft model is part of."""
    model = None if arm.speculation is None else arm.speculation.model
    if model is None:
        return None
    step = bisect_right(P_MINS, model.numbers[_UPWARDS.name] + _ROUNDING) - 1
    return max(1, model.numbers[_ACROSS.name]), step


def _group(n_values: int, n_cells: int) -> int:
    """Fewest values per cell with which all fit."""
    room = max(1, n_cells)
    return next((size for size in _GROUPS if -(-n_values // size) <= room), n_values)


class Heatmap(Widget, can_focus=True):
    """Speedup over off by two numbers of a draft model, with a cursor on the settings."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("left,h", "map.shorter", "Shorter drafts", action="move(-1, 0)"),
        key(
            "right,l",
            "map.longer",
            "Look",
            "Look at another setting of the map",
            action="move(1, 0)",
            display="arrows",
        ),
        hidden("down,j", "map.less_sure", "Smaller p_min", action="move(0, -1)"),
        hidden("up,k", "map.surer", "Larger p_min", action="move(0, 1)"),
        key("b", "map.best", "Best", "Go to the best setting of the map", action="best"),
        key(
            "enter",
            "map.use",
            "Use",
            "Use in the chat the setting that the map's cursor is on",
            action="screen.use",
            display="enter",
        ),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "heatmap--gain",
        "heatmap--loss",
        "heatmap--count",
        "heatmap--label",
        "heatmap--empty",
        "heatmap--cursor",
    }

    class Moved(Message):
        """The cursor is on another setting, or there are others."""

    def __init__(self) -> None:
        super().__init__()
        self._known: tuple[Cell, ...] = ()
        self._is_speedup = True
        self._cursor: tuple[int, int] | None = None
        """Column and row, were there room for all of them; None until somebody looks."""
        self._lines: list[Strip] | None = None
        """Lines drawn at the present size, worked out when they are needed."""

    @property
    def selected(self) -> Arm | None:
        """The setting that the cursor is on."""
        cell = None if self._cursor is None else self._whole.cells.get(self._cursor)
        return None if cell is None else cell.arm

    @property
    def _whole(self) -> Landscape:
        return landscape(self._known, max_columns=sys.maxsize, max_rows=sys.maxsize)

    def show(self, known: Iterable[Cell], *, is_speedup: bool = True) -> None:
        """Show settings; their values are tokens per round where they are no speedups."""
        self._known, self._is_speedup = tuple(known), is_speedup
        self._redraw()

    def select(self, arm: Arm | None) -> None:
        """Put the cursor on a setting; None takes it away."""
        place = None if arm is None else _place(arm)
        self._cursor = None if place is None else (place[0] - 1, place[1])
        self._redraw()

    def action_move(self, right: int, up: int) -> None:
        """Move the cursor."""
        if self._cursor is not None:
            whole, (column, row) = self._whole, self._cursor
            self._cursor = (
                min(max(column + right, 0), len(whole.columns) - 1),
                min(max(row + up, 0), len(whole.rows) - 1),
            )
            self._redraw()

    def action_best(self) -> None:
        """Put the cursor on the best."""
        cells = self._whole.cells.values()
        best = max(cells, key=lambda one: (one.source, one.value), default=None)
        self.select(None if best is None else best.arm)

    def on_focus(self, _event: Focus) -> None:
        """Begin at the best."""
        if self._cursor is None:
            self.action_best()

    def on_click(self, event: Click) -> None:
        """Put the cursor where the pointer is."""
        land = self._fitted()
        column, row = (event.x - _LABELS) // self._cell_width(land), len(land.rows) - event.y
        cell = land.cells.get((column, row))
        if cell is not None:
            self.select(cell.arm)

    def _redraw(self) -> None:
        self._lines = None
        self.refresh()
        self.post_message(self.Moved())

    def on_resize(self, _event: Resize) -> None:
        """Fit the grid."""
        self._lines = None
        self.refresh()

    def notify_style_update(self) -> None:
        """Take the colours of another theme."""
        super().notify_style_update()
        self._lines = None

    def render_line(self, y: int) -> Strip:
        """Return one line: the grid from top to bottom, its axis, the legend."""
        if self._lines is None:
            self._lines = self._draw()
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.crop_extend(0, self.size.width, self.rich_style)

    def _fitted(self) -> Landscape:
        width, height = self.size
        max_columns = (width - _LABELS) // _MIN_CELL
        return landscape(self._known, max_columns=max_columns, max_rows=height - _FRAME)

    def _draw(self) -> list[Strip]:
        land = self._fitted()
        label = self._part("label")
        middle = self._cell_width(land) * len(land.columns)
        across = " " * _LABELS + _title(_ACROSS.name, land.per_column, "column").center(middle)
        return [
            Strip([Segment(_title(_UPWARDS.name, land.per_row, "row"), label)]),
            *(self._grid_line(land, row, label) for row in reversed(range(len(land.rows)))),
            self._axis(land, label),
            Strip([Segment(across, label)]),
            Strip([Segment(self._legend(land), label)]),
        ]

    def _cell_width(self, land: Landscape) -> int:
        room = (self.size.width - _LABELS) // len(land.columns)
        return max(1, min(_MAX_CELL, room))

    def _grid_line(self, land: Landscape, row: int, label: Style) -> Strip:
        width, at = self._cell_width(land), self._cursor
        here = None if at is None else (at[0] // land.per_column, at[1] // land.per_row)
        segments = [Segment(land.rows[row].ljust(_LABELS), label)]
        for column in range(len(land.columns)):
            cell = land.cells.get((column, row))
            if cell is None:
                text, style = draw.NONE.rjust(width - 1) + " ", self._part("empty")
            else:
                text, style = _content(cell, width, land), self._style(cell, land)
            is_here = here == (column, row)
            segments.append(Segment(text, self._part("cursor") if is_here else style))
        return Strip(segments)

    def _part(self, name: str) -> Style:
        return self.rich_style + self.get_component_rich_style(f"heatmap--{name}")

    def _axis(self, land: Landscape, label: Style) -> Strip:
        width = self._cell_width(land)
        names = "".join(name.rjust(width - 1) + " " for name in land.columns)
        return Strip([Segment(" " * _LABELS + names, label)])

    def _style(self, cell: Cell, land: Landscape) -> Style:
        is_gain, is_marked = cell.value >= 1, cell.source > Source.REPLAYED
        part = ("gain" if is_gain else "loss") if self._is_speedup else "count"
        full = self.get_component_styles(f"heatmap--{part}").background
        reach = land.high - 1 if is_gain else 1 - land.low
        share = abs(cell.value - 1) / reach if reach else 1.0
        if full.ansi is not None:
            # A terminal's own colours cannot be mixed, nor is it known what is readable on them.
            return self.rich_style + Style(color=full.rich_color, bold=is_marked)
        _, base = self.background_colors
        background = base.blend(full, _WEAKEST + (_STRONGEST - _WEAKEST) * share)
        color = background + background.get_contrast_text(_CONTRAST)
        return Style(color=color.rich_color, bgcolor=background.rich_color, bold=is_marked)

    def _legend(self, land: Landscape) -> str:
        if not land.cells:
            return f"{draw.NONE} not replayed yet"
        times, unit = ("×", "of off") if self._is_speedup else ("", "tokens/round")
        sources = {cell.source for cell in land.cells.values()}
        parts = [
            f"{land.low:.2f}{times} to {land.high:.2f}{times} {unit}"
            + (", replayed" if Source.REPLAYED in sources else ""),
            "◆ measured" if Source.MEASURED in sources else "",
            "• best" if Source.BEST in sources else "",
            "" if Source.REPLAYED in sources else f"{draw.NONE} not tried",
        ]
        best = next((cell.arm for cell in self._known if cell.source is Source.BEST), None)
        if best is not None and _place(best) is None:
            parts.append(f"the best, {draw.one_line(best.drafter)}, has no place here")
        return "   ".join(part for part in parts if part)


def _content(cell: Cell, width: int, land: Landscape) -> str:
    """Return a cell's text in ``width`` characters: a mark and a number, or a shade."""
    mark = {Source.MEASURED: "◆", Source.BEST: "•"}.get(cell.source, " ")
    if width >= _MIN_CELL:
        number = f"{mark}{cell.value:.2f}"[:_MIN_CELL]
        return number.rjust(width - (width > _MIN_CELL)).ljust(width)
    span, ramp = land.high - land.low, draw.SEGMENTS[3::-1]
    shade = ramp[round((cell.value - land.low) / span * (len(ramp) - 1)) if span else -1]
    return ((mark if mark.strip() else shade) + shade * width)[:width]


def _title(name: str, n_values: int, place: str) -> str:
    return name if n_values == 1 else f"{name}, the best of {n_values} values per {place}"
