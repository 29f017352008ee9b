"""Speedups over two parameters, as a map of shades, colours and, where there is room, numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.strip import Strip
from textual.widget import Widget

from spectui.options.drafters import DraftSimple, number_of
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.tune.ledger import Ledger
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """A grid of mean speedups; a cell that was not tried is missing."""

    columns: tuple[str, ...]
    """Smallest value of each column, ascending."""
    rows: tuple[str, ...]
    """Smallest value of each row, ascending."""
    per_column: int
    """Values that share a column."""
    per_row: int
    """Values that share a row."""
    cells: Mapping[tuple[int, int], float]
    """Mean speedup by (column, row)."""
    best: tuple[int, int] | None

    @property
    def low(self) -> float:
        """Smallest mean; 1 if there is none."""
        return min(self.cells.values(), default=1.0)

    @property
    def high(self) -> float:
        """Largest mean; 1 if there is none."""
        return max(self.cells.values(), default=1.0)


def landscape(ledger: Ledger, *, max_columns: int, max_rows: int) -> Landscape:
    """Average the measured trials of all drafts over a grid that has room for them."""
    speedups = _speedups(ledger)
    n_longest = max([MAX_DRAFT, *(longest for longest, _ in speedups)])
    per_column, per_row = _group(n_longest, max_columns), _group(len(_STEPS), max_rows)
    found: dict[tuple[int, int], list[float]] = {}
    for (longest, step), values in speedups.items():
        found.setdefault(((longest - 1) // per_column, step // per_row), []).extend(values)
    cells = {place: sum(values) / len(values) for place, values in found.items()}
    return Landscape(
        columns=tuple(str(first) for first in range(1, n_longest + 1, per_column)),
        rows=tuple(map(_UPWARDS.text, _STEPS[::per_row])),
        per_column=per_column,
        per_row=per_row,
        cells=cells,
        best=max(cells, key=lambda place: cells[place], default=None),
    )


def _speedups(ledger: Ledger) -> dict[tuple[int, int], list[float]]:
    """Measured speedups by values across and steps upwards."""
    found: dict[tuple[int, int], list[float]] = {}
    for row in ledger.rows:
        speculation, speedup = row.record.arm.speculation, ledger.speedup(row)
        model = None if speculation is None or speculation.ahead else speculation.model
        if model is not None and speedup is not None and row.is_measured:
            step = min(round(model.numbers[_UPWARDS.name] / _UPWARDS.step), len(_STEPS) - 1)
            found.setdefault((max(1, model.numbers[_ACROSS.name]), step), []).append(speedup)
    return found


def _group(n_values: int, n_cells: int) -> int:
    """Fewest values per cell with which all fit."""
    room = max(1, n_cells)
    return next((size for size in _GROUPS if -(-n_values // size) <= room), n_values)


class Heatmap(Widget):
    """Mean speedup against off by two numbers of a draft model."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "heatmap--gain",
        "heatmap--loss",
        "heatmap--label",
        "heatmap--empty",
    }
    DEFAULT_CSS = """
    Heatmap {
        & > .heatmap--gain { color: $text; background: $success; }
        & > .heatmap--loss { color: $text; background: $error; }
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
        """Show the trials of ``ledger``."""
        self._ledger = ledger
        self._lines = None
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
            self._ledger, max_columns=(width - _LABELS) // _MIN_CELL, max_rows=height - _FRAME
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
            mean = land.cells.get((column, row))
            if mean is None:
                segments.append(Segment(glyphs.none.rjust(width - 1) + " ", empty))
                continue
            is_best = land.best == (column, row)
            content = _content(mean, width, land, glyphs, is_best=is_best)
            segments.append(Segment(content, self._style(mean, land, is_best=is_best)))
        return Strip(segments)

    def _axis(self, land: Landscape, label: Style) -> Strip:
        width = self._cell_width(land)
        names = "".join(name.rjust(width - 1) + " " for name in land.columns)
        return Strip([Segment(" " * _LABELS + names, label)])

    def _style(self, mean: float, land: Landscape, *, is_best: bool) -> Style:
        name = "heatmap--gain" if mean >= 1 else "heatmap--loss"
        full = self.get_component_styles(name).background
        reach = land.high - 1 if mean >= 1 else 1 - land.low
        share = abs(mean - 1) / reach if reach else 1.0
        if full.ansi is not None:
            # A terminal's own colours cannot be mixed, nor is it known what is readable on them.
            return self.rich_style + Style(color=full.rich_color, bold=is_best)
        _, base = self.background_colors
        background = base.blend(full, _WEAKEST + (_STRONGEST - _WEAKEST) * share)
        color = background + background.get_contrast_text(_CONTRAST)
        return Style(color=color.rich_color, bgcolor=background.rich_color, bold=is_best)

    def _legend(self, land: Landscape) -> str:
        glyphs = glyphs_of(self)
        if not land.cells:
            return f"{glyphs.none} not tried yet"
        low, high = (f"{value:.2f}{glyphs.times}" for value in (land.low, land.high))
        ramp = _ramp(glyphs)
        scale = f"{ramp[0]} {low} to {ramp[-1]} {high} of off"
        return f"{scale}   {glyphs.none} not tried   {glyphs.bullet} best"


def _content(mean: float, width: int, land: Landscape, glyphs: Glyphs, *, is_best: bool) -> str:
    """Return a cell's text in ``width`` characters; the best one's shade gives way to a mark."""
    ramp = _ramp(glyphs)
    span = land.high - land.low
    shade = ramp[round((mean - land.low) / span * (len(ramp) - 1)) if span else -1]
    first = glyphs.bullet if is_best else shade
    if width < _MIN_CELL:
        return (first + shade * width)[:width]
    return f"{first}{mean:.2f}"[:_MIN_CELL].rjust(width - (width > _MIN_CELL)).ljust(width)


def _title(name: str, n_values: int, place: str) -> str:
    return name if n_values == 1 else f"{name}, {n_values} values per {place}"


def _ramp(glyphs: Glyphs) -> str:
    """Return shades from light to dark."""
    return glyphs.segments[3::-1]
