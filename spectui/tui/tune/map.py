"""Speedups over two parameters: every replayed setting as a heat map, what was measured marked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.strip import Strip
from textual.widget import Widget

from spectui.measure.arm import Arm
from spectui.options.drafters import DraftSimple, number_of
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.tune.ledger import FORECAST, Ledger
from spectui.tune.space import MAX_DRAFT

_ACROSS = number_of(DraftSimple, "draft_max")
_UPWARDS = number_of(DraftSimple, "draft_p_min")
_STEPS = _UPWARDS.searched_values(MAX_DRAFT)
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
    """What was confirmed, else what would be raced."""


class Cell(NamedTuple):
    """The best speedup of the settings that share a place, by its latest source."""

    source: Source
    speedup: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """A grid of speedups; a cell that was neither replayed nor measured is missing."""

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
        """Smallest speedup; 1 if there is none."""
        return min((cell.speedup for cell in self.cells.values()), default=1.0)

    @property
    def high(self) -> float:
        """Largest speedup; 1 if there is none."""
        return max((cell.speedup for cell in self.cells.values()), default=1.0)


def landscape(ledger: Ledger, *, max_columns: int, max_rows: int) -> Landscape:
    """Put forecasts, and over them what was measured, on a grid that has room for them.

    The best setting of a cell stands for it, whatever its other numbers and its draft are: that is
    the one that a search would choose there. What was measured hides what was forecast.
    """
    known = [(place, cell) for arm, cell in _cells(ledger) if (place := _place(arm)) is not None]
    n_longest = max([MAX_DRAFT, *(longest for (longest, _), _ in known)])
    per_column, per_row = _group(n_longest, max_columns), _group(len(_STEPS), max_rows)
    cells = dict[tuple[int, int], Cell]()
    for (longest, step), cell in known:
        place = (longest - 1) // per_column, step // per_row
        cells[place] = max(cell, cells.get(place, cell))
    return Landscape(
        columns=tuple(str(first) for first in range(1, n_longest + 1, per_column)),
        rows=tuple(map(_UPWARDS.text, _STEPS[::per_row])),
        per_column=per_column,
        per_row=per_row,
        cells=cells,
    )


def _cells(ledger: Ledger) -> Iterator[tuple[Arm, Cell]]:
    for one in ledger.forecasts:
        yield one.arm, Cell(Source.REPLAYED, one.speedup)
    for row in ledger.rows:
        if row.is_known and row.speedup is not None:
            source = Source.REPLAYED if row.state == FORECAST else Source.MEASURED
            yield row.arm, Cell(Source.BEST if row is ledger.best else source, row.speedup)


def _place(arm: Arm) -> tuple[int, int] | None:
    """The value across and the step upwards; None of an arm that no draft model is part of."""
    model = None if arm.speculation is None else arm.speculation.model
    if model is None:
        return None
    step = min(round(model.numbers[_UPWARDS.name] / _UPWARDS.step), len(_STEPS) - 1)
    return max(1, model.numbers[_ACROSS.name]), step


def _group(n_values: int, n_cells: int) -> int:
    """Fewest values per cell with which all fit."""
    room = max(1, n_cells)
    return next((size for size in _GROUPS if -(-n_values // size) <= room), n_values)


class Heatmap(Widget):
    """Speedup over off by two numbers of a draft model."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "heatmap--gain",
        "heatmap--loss",
        "heatmap--label",
        "heatmap--empty",
    }
    DEFAULT_CSS = """
    Heatmap {
        & > .heatmap--gain { color: $text; background: $gain; }
        & > .heatmap--loss { color: $text; background: $loss; }
        & > .heatmap--label { color: $text-muted; }
        & > .heatmap--empty { color: $text-muted; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._ledger = Ledger()
        self._lines: list[Strip] | None = None
        """Lines drawn at the present size, worked out when they are needed."""

    def show(self, ledger: Ledger) -> None:
        """Show what was measured over the forecasts."""
        self._ledger, self._lines = ledger, None
        self.refresh()

    def on_resize(self, _event: Resize) -> None:
        """Fit the grid."""
        self._lines = None

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

    def _draw(self) -> list[Strip]:
        width, height = self.size
        land = landscape(
            self._ledger,
            max_columns=(width - _LABELS) // _MIN_CELL,
            max_rows=height - _FRAME,
        )
        label = self.rich_style + self.get_component_rich_style("heatmap--label")
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
        width = self._cell_width(land)
        segments = [Segment(land.rows[row].ljust(_LABELS), label)]
        glyphs = glyphs_of(self)
        empty = self.rich_style + self.get_component_rich_style("heatmap--empty")
        for column in range(len(land.columns)):
            cell = land.cells.get((column, row))
            if cell is None:
                segments.append(Segment(glyphs.none.rjust(width - 1) + " ", empty))
            else:
                segments.append(
                    Segment(_content(cell, width, land, glyphs), self._style(cell, land))
                )
        return Strip(segments)

    def _axis(self, land: Landscape, label: Style) -> Strip:
        width = self._cell_width(land)
        names = "".join(name.rjust(width - 1) + " " for name in land.columns)
        return Strip([Segment(" " * _LABELS + names, label)])

    def _style(self, cell: Cell, land: Landscape) -> Style:
        is_gain, is_marked = cell.speedup >= 1, cell.source > Source.REPLAYED
        full = self.get_component_styles(f"heatmap--{'gain' if is_gain else 'loss'}").background
        reach = land.high - 1 if is_gain else 1 - land.low
        share = abs(cell.speedup - 1) / reach if reach else 1.0
        if full.ansi is not None:
            # A terminal's own colours cannot be mixed, nor is it known what is readable on them.
            return self.rich_style + Style(color=full.rich_color, bold=is_marked)
        _, base = self.background_colors
        background = base.blend(full, _WEAKEST + (_STRONGEST - _WEAKEST) * share)
        color = background + background.get_contrast_text(_CONTRAST)
        return Style(color=color.rich_color, bgcolor=background.rich_color, bold=is_marked)

    def _legend(self, land: Landscape) -> str:
        glyphs = glyphs_of(self)
        if not land.cells:
            return f"{glyphs.none} not replayed yet"
        low, high = (f"{value:.2f}{glyphs.times}" for value in (land.low, land.high))
        sources = {cell.source for cell in land.cells.values()}
        best = self._ledger.best
        parts = [
            f"{low} to {high} of off" + (", replayed" if Source.REPLAYED in sources else ""),
            f"{glyphs.measured} measured" if Source.MEASURED in sources else "",
            f"{glyphs.bullet} best" if Source.BEST in sources else "",
            "" if Source.REPLAYED in sources else f"{glyphs.none} not tried",
        ]
        if best is not None and _place(best.arm) is None:
            drafter = glyphs.one_line(best.arm.drafter)
            parts.append(f"the best, {drafter}, has no place here")
        return "   ".join(part for part in parts if part)


def _content(cell: Cell, width: int, land: Landscape, glyphs: Glyphs) -> str:
    """Return a cell's text in ``width`` characters: a mark and a number, or a shade."""
    mark = {Source.MEASURED: glyphs.measured, Source.BEST: glyphs.bullet}.get(cell.source, " ")
    if width >= _MIN_CELL:
        number = f"{mark}{cell.speedup:.2f}"[:_MIN_CELL]
        return number.rjust(width - (width > _MIN_CELL)).ljust(width)
    span, ramp = land.high - land.low, glyphs.segments[3::-1]
    shade = ramp[round((cell.speedup - land.low) / span * (len(ramp) - 1)) if span else -1]
    return ((mark if mark.strip() else shade) + shade * width)[:width]


def _title(name: str, n_values: int, place: str) -> str:
    return name if n_values == 1 else f"{name}, the best of {n_values} values per {place}"
