"""Rows with columns that adapt to the width: the last columns go first."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from spectui.tui.text.names import clip, fit

MARK_CELLS = 2
"""Kept free on the left for the mark of the highlighted row."""

_GAP = "  "
_MIN_NAME_CELLS = 20
_NAME_SHARE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What stands beside the name."""

    text: str
    cells: int
    """Width, the least one if it grows."""
    share: int = 0
    """Part of the room that is left, against the name's 2."""
    to_right: bool = False
    is_prose: bool = False
    """Whether it is cut at its end, as sentences are, and not in its middle, as names are."""


class Row(Visual):
    """One line: a name and the columns for which there is room.

    Rows whose cells have equal widths stand exactly below each other.
    """

    def __init__(
        self,
        name: str,
        cells: Sequence[Cell] = (),
        *,
        ellipsis: str,
        style: str = "",
        indent: bool = True,
    ) -> None:
        """Show texts that are safe to show.

        Args:
            name: The first column.
            cells: The others, the more important first.
            ellipsis: In place of what is cut off.
            style: As Textual writes styles.
            indent: Leave room for the mark of the highlighted row.
        """
        self.name = name
        self.cells = tuple(cells)
        self._ellipsis = ellipsis
        self._style = style
        self._indent = MARK_CELLS if indent else 0

    def text(self, width: int) -> str:
        """Lay the row out in ``width`` cells."""
        cells = list(self.cells)
        while cells and self._room(width, cells) < _MIN_NAME_CELLS:
            cells.pop()
        room = self._room(width, cells)
        n_shares = _NAME_SHARE + sum(cell.share for cell in cells)
        extra = max(0, room - _MIN_NAME_CELLS) // n_shares
        widths = [cell.cells + extra * cell.share for cell in cells]
        room -= extra * (n_shares - _NAME_SHARE)
        name_cells = room + MARK_CELLS - self._indent
        name = _padded(fit(self.name, name_cells, self._ellipsis), name_cells)
        texts = [self._cell(cell, cells_) for cell, cells_ in zip(cells, widths, strict=True)]
        return " " * self._indent + _GAP.join([name, *texts])

    def _cell(self, cell: Cell, width: int) -> str:
        cut = clip if cell.is_prose else fit
        text = cut(cell.text, width, self._ellipsis)
        return _padded(text, width, to_right=cell.to_right)

    @staticmethod
    def _room(width: int, cells: Sequence[Cell]) -> int:
        return width - MARK_CELLS - sum(cell.cells + len(_GAP) for cell in cells)

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        """Draw the line."""
        del height
        style += options.get_style(self._style)
        return [Strip([Segment(self.text(width), style.rich_style)]).adjust_cell_length(width)]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """Take all the width there is."""
        del rules
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        """Take one line."""
        del rules, width
        return 1


def _padded(text: str, width: int, *, to_right: bool = False) -> str:
    padding = " " * (width - cell_len(text))
    return padding + text if to_right else text + padding
