"""The trials as a table that draws only the rows in view, so that its length does not matter."""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from spectui.tui.glyphs import glyphs_of
from spectui.tui.tune import bindings
from spectui.tui.tune.columns import GAP, Column, Slot, Sort, layout, ordered
from spectui.tui.tune.ledger import Ledger, Row
from spectui.tui.tune.lines import header, line
from spectui.tune.trials import TrialState

_HEADER = 1
"""Lines that stay in place above the rows."""


class TrialsTable(ScrollView, can_focus=True):
    """Selection, order and scroll position stay when trials are added."""

    BINDINGS = bindings.TABLE
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "trials--header",
        "trials--selected",
        "trials--best",
        "trials--muted",
    }
    DEFAULT_CSS = """
    TrialsTable {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
        & > .trials--header { color: $text-muted; text-style: bold; }
        & > .trials--selected { background: $primary-muted; color: $text; }
        & > .trials--best { color: $text-success; text-style: bold; }
        & > .trials--muted { color: $text-muted; }
        &:focus > .trials--selected { background: $block-cursor-background;
            color: $block-cursor-foreground; }
    }
    """

    class Selected(Message):
        """The user selected another trial."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.sort = Sort()
        self._ledger = Ledger()
        self._order: list[Row] = []
        self._slots: tuple[Slot, ...] = ()
        self._selected: int | None = None
        """Number of the selected trial."""

    @property
    def selected(self) -> Row | None:
        """The selected trial, None until the user selects one."""
        index = self._index(self._selected)
        return None if index is None else self._order[index]

    @property
    def order(self) -> tuple[int, ...]:
        """Numbers of the trials from top to bottom."""
        return tuple(row.number for row in self._order)

    def show(self, ledger: Ledger) -> None:
        """Show the trials of ``ledger``."""
        at_top = round(self.scroll_y)
        anchor = self._order[at_top].number if 0 < at_top < len(self._order) else None
        self._ledger = ledger
        self._arrange()
        # At the very top the reader follows what comes first; elsewhere the rows stay in place.
        index = self._index(anchor)
        if index is not None:
            self.scroll_to(y=index, animate=False)

    def sort_by(self, column: Column, *, descending: bool) -> None:
        """Put the rows in another order; the selected one stays in view."""
        self.sort = Sort(column=column, descending=descending)
        self._arrange()
        self._reveal(self._index(self._selected) or 0)

    def sort_by_next(self) -> None:
        """Sort by the column to the right."""
        columns = list(Column)
        column = columns[(columns.index(self.sort.column) + 1) % len(columns)]
        self.sort_by(column, descending=_best_first(column))

    def reverse(self) -> None:
        """Reverse the order."""
        self.sort_by(self.sort.column, descending=not self.sort.descending)

    def action_move(self, n_rows: int) -> None:
        """Move the selection; the first move selects what is on top."""
        if not self._order:
            return
        index = self._index(self._selected)
        to = round(self.scroll_y) if index is None else index + n_rows
        self._select(min(max(to, 0), len(self._order) - 1))

    def action_move_page(self, n_pages: int) -> None:
        """Move the selection by as many rows as are in view."""
        self.action_move(n_pages * max(1, self._n_visible - 1))

    def action_move_to_end(self, direction: int) -> None:
        """Move the selection to the first or the last row."""
        if self._order:
            self._select(0 if direction < 0 else len(self._order) - 1)

    def render_line(self, y: int) -> Strip:
        """Return the header or one row."""
        left, top = self.scroll_offset
        index, style = top + y - _HEADER, self.rich_style
        if y < _HEADER:
            look = style + self.get_component_rich_style("trials--header")
            strip = header(self._slots, self.sort, glyphs_of(self), look)
        elif index < len(self._order):
            row = self._order[index]
            style += self._row_style(row)
            strip = Strip([Segment(line(row, self._slots, self._ledger, glyphs_of(self)), style)])
        else:
            strip = Strip([])
        return strip.crop_extend(left, left + self.size.width, style)

    def on_resize(self, _event: Resize) -> None:
        """Fit the columns."""
        self._arrange()

    def on_click(self, event: Click) -> None:
        """Sort by the column whose title was clicked, or select a row."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y >= _HEADER:
            index = self.scroll_offset.y + offset.y - _HEADER
            if index < len(self._order):
                self._select(index)
            return
        x = offset.x + self.scroll_offset.x
        for slot in self._slots:
            if slot.x - GAP < x < slot.x + slot.width + 1:
                self._sort_clicked(slot.column)
                return

    def _sort_clicked(self, column: Column) -> None:
        again = column is self.sort.column
        self.sort_by(column, descending=not self.sort.descending if again else _best_first(column))

    def _arrange(self) -> None:
        self._order = ordered(self._ledger.rows, self.sort)
        self._slots = layout(self._order, self.size.width, glyphs_of(self))
        last = self._slots[-1]
        self.virtual_size = Size(last.x + last.width, len(self._order) + _HEADER)
        self.refresh()

    def _select(self, index: int) -> None:
        self._selected = self._order[index].number
        self._reveal(index)
        self.refresh()
        self.post_message(self.Selected())

    @property
    def _n_visible(self) -> int:
        return max(1, self.scrollable_content_region.height - _HEADER)

    def _reveal(self, index: int) -> None:
        top = round(self.scroll_y)
        if index < top:
            self.scroll_to(y=index, animate=False)
        elif index >= top + self._n_visible:
            self.scroll_to(y=index - self._n_visible + 1, animate=False)

    def _index(self, number: int | None) -> int | None:
        if number is None:
            return None
        return next((i for i, row in enumerate(self._order) if row.number == number), None)

    def _row_style(self, row: Row) -> Style:
        if row.number == self._selected:
            return self.get_component_rich_style("trials--selected")
        if row is self._ledger.best:
            return self.get_component_rich_style("trials--best")
        if row.record.state is TrialState.COMPLETE:
            return Style.null()
        return self.get_component_rich_style("trials--muted")


def _best_first(column: Column) -> bool:
    """Whether a column's interesting end is its largest value."""
    return column in {Column.TRIAL, Column.TOKENS_PER_S, Column.SPEEDUP, Column.ACCEPTANCE}
