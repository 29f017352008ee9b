"""The settings as a table that draws only the rows in view, so that its length does not matter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from spectui.measure.arm import Arm
from spectui.options.drafters import DraftSimple, NgramDrafter, numbers_of
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.text.display import aligned
from spectui.tui.tune.ledger import DONE, FORECAST, Ledger, Row
from spectui.tui.tune.words import measure
from spectui.tui.widgets import hidden

GAP = 2
"""Cells between columns."""
_MIN_DRAFT = 8
_HEADER = 1
"""Lines that stay in place above the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column of the table."""

    title: str
    value: Callable[[Row], float | str | None]
    """Value that the rows are sorted by."""
    form: Callable[[Any], str] = str
    """Text of a value."""
    narrow: str = ""
    """Title in narrow tables, where it is another one."""
    is_text: bool = False
    """Whether it is read from the left; numbers are aligned on the right."""
    is_best_first: bool = False
    """Whether its interesting end is its largest value."""


def _number(row: Row, *, name: str) -> float | None:
    """A number of a draft model; None for off."""
    speculation = row.arm.speculation
    return None if speculation is None else speculation.numbers[name]


def _drafter(row: Row) -> str:
    """Name of the drafter, with the numbers of n-gram drafters, which have no columns."""
    arm = row.arm
    chain = () if arm.speculation is None else arm.speculation.chain
    parts = [
        f"{one.kind} {one.summary}" if isinstance(one, NgramDrafter) else str(arm.draft)
        for one in chain
    ]
    return " + ".join(parts) or arm.drafter


TRIAL = Column("trial", lambda row: row.number, is_best_first=True)
DRAFT = Column("draft", lambda row: None if row.arm.is_off else row.arm.drafter, is_text=True)
SPEEDUP = Column("speedup", lambda row: row.speedup, is_best_first=True)
STATE = Column("state", lambda row: row.state, is_text=True)
COLUMNS = (
    TRIAL,
    *(
        Column(one.name, partial(_number, name=one.name), one.text, one.short)
        for one in numbers_of(DraftSimple)
    ),
    DRAFT,
    Column("tokens/s", lambda row: row.tokens_per_s, "{:.1f}".format, is_best_first=True),
    SPEEDUP,
    Column(
        "acceptance",
        lambda row: row.acceptance_rate,
        "{:.0%}".format,
        narrow="accept.",
        is_best_first=True,
    ),
    STATE,
)
"""All columns, from the left."""
_WIDEST = {DRAFT: 0, STATE: len("best, noisy")}
"""Cells of the columns that their titles do not tell; the draft's takes what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """An order of the table; the newest trial comes first by default."""

    column: Column = TRIAL
    descending: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A column's place in the table."""

    column: Column
    title: str
    x: int
    """First cell."""
    width: int


def ordered(rows: Sequence[Row], sort: Sort) -> list[Row]:
    """Return the rows as ``sort`` says; those without a value come last, either way."""
    value_of = sort.column.value
    present = [row for row in rows if value_of(row) is not None]
    missing = [row for row in rows if value_of(row) is None]
    # All values of a column are of one type, which their common type does not tell.
    present.sort(key=lambda row: cast("float", value_of(row)), reverse=sort.descending)
    return present + missing


def layout(rows: Sequence[Row], width: int, glyphs: Glyphs) -> tuple[Slot, ...]:
    """Return the columns for a table of ``width`` cells; wider where they do not fit."""
    names = set(map(_drafter, rows))
    longest = max([_MIN_DRAFT, *(cell_len(glyphs.one_line(name)) for name in names)])
    for is_narrow in (False, True):
        titles = {one: one.narrow if is_narrow and one.narrow else one.title for one in COLUMNS}
        full = {column: _WIDEST.get(column, len(title)) for column, title in titles.items()}
        draft = width - sum(full.values()) - GAP * len(full)
        if draft >= min(longest, 2 * _MIN_DRAFT):
            break
    full[DRAFT] = max(_MIN_DRAFT, min(draft, longest))
    slots, x = [], 1
    for column, title in titles.items():
        slots.append(Slot(column=column, title=title, x=x, width=full[column]))
        x += full[column] + GAP
    return tuple(slots)


def text(row: Row, column: Column, ledger: Ledger, glyphs: Glyphs) -> str:
    """Return the content of a cell."""
    if column is DRAFT:
        return glyphs.one_line(_drafter(row))
    if column is STATE:
        return _state(row, ledger)
    if column is SPEEDUP:
        return measure(row.speedup, "{:.2f}" + glyphs.times, glyphs)
    value = column.value(row)
    return glyphs.none if value is None else column.form(value)


def _state(row: Row, ledger: Ledger) -> str:
    if row is not ledger.leader or row.state == FORECAST:
        return row.state
    return "best" if row.state == DONE else f"best, {row.state}"


def header(slots: Sequence[Slot], sort: Sort, glyphs: Glyphs, style: Style) -> Strip:
    """Return the titles; the one that rows are sorted by is reversed, with an arrow before it."""
    arrow = glyphs.down if sort.descending else glyphs.up
    segments, end = [], 0
    for slot in slots:
        is_sorted = slot.column is sort.column
        free = " " * (slot.width - len(slot.title))
        before = " " * (slot.x - end) + ("" if slot.column.is_text else free)
        # The arrow takes the last cell before the title: there always is one.
        segments.append(Segment(before[:-1] + arrow if is_sorted else before, style))
        segments.append(Segment(slot.title, style + Style(reverse=True) if is_sorted else style))
        segments.append(Segment(free if slot.column.is_text else "", style))
        end = slot.x + slot.width
    return Strip(segments)


def line(row: Row, slots: Sequence[Slot], ledger: Ledger, glyphs: Glyphs) -> str:
    """Return one setting's cells; the best one's line begins with a mark."""
    cells = glyphs.bullet if row is ledger.leader else " "
    for slot in slots:
        content = text(row, slot.column, ledger, glyphs)
        right = not slot.column.is_text
        cells += " " * (slot.x - cell_len(cells))
        cells += aligned(content, slot.width, right=right, ellipsis=glyphs.ellipsis)
    return cells


class TrialsTable(ScrollView, can_focus=True):
    """Selection and order stay when rows are added."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("up,k", "tune.row_up", "Row up", action="move(-1)"),
        hidden("down,j", "tune.row_down", "Row down", action="move(1)"),
        hidden("pageup", "tune.page_up", "Page up", action="move_page(-1)"),
        hidden("pagedown", "tune.page_down", "Page down", action="move_page(1)"),
        hidden("home", "tune.first_row", "First row", action="move_to_end(-1)"),
        hidden("end", "tune.last_row", "Last row", action="move_to_end(1)"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "trials--header",
        "trials--selected",
        "trials--best",
        "trials--muted",
    }

    class Selected(Message):
        """The user selected another row."""

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort()
        self._ledger = Ledger()
        self._order: list[Row] = []
        self._slots: tuple[Slot, ...] = ()
        self._selected: int | Arm | None = None
        """Key of the selected row."""

    @property
    def selected(self) -> Row | None:
        """The selected row, None until the user selects one."""
        index = self._index(self._selected)
        return None if index is None else self._order[index]

    @property
    def order(self) -> tuple[int | Arm, ...]:
        """Keys of the rows from top to bottom."""
        return tuple(row.key for row in self._order)

    def show(self, ledger: Ledger) -> None:
        """Show the rows of ``ledger``."""
        self._ledger = ledger
        self._arrange()

    def sort_by(self, column: Column, *, descending: bool) -> None:
        """Put the rows in another order; the selected one stays in view."""
        self.sort = Sort(column=column, descending=descending)
        self._arrange()
        self._reveal(self._index(self._selected) or 0)

    def sort_by_next(self) -> None:
        """Sort by the column to the right."""
        column = COLUMNS[(COLUMNS.index(self.sort.column) + 1) % len(COLUMNS)]
        self.sort_by(column, descending=column.is_best_first)

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
                if slot.column is self.sort.column:
                    self.reverse()
                else:
                    self.sort_by(slot.column, descending=slot.column.is_best_first)
                return

    def _arrange(self) -> None:
        self._order = ordered(self._ledger.rows, self.sort)
        self._slots = layout(self._order, self.size.width, glyphs_of(self))
        last = self._slots[-1]
        self.virtual_size = Size(last.x + last.width, len(self._order) + _HEADER)
        self.refresh()

    def _select(self, index: int) -> None:
        self._selected = self._order[index].key
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

    def _index(self, key: int | Arm | None) -> int | None:
        return next((i for i, row in enumerate(self._order) if row.key == key), None)

    def _row_style(self, row: Row) -> Style:
        if row.key == self._selected:
            return self.get_component_rich_style("trials--selected")
        if row is self._ledger.leader:
            return self.get_component_rich_style("trials--best")
        if row.is_known:
            return Style.null()
        return self.get_component_rich_style("trials--muted")
