"""The settings of a study as a table, to be sorted and chosen from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, cast

from rich.style import Style
from rich.text import Text
from textual.binding import BindingType
from textual.events import MouseDown
from textual.widgets import DataTable

from spectui.options.drafters import DraftSimple, NgramDrafter, numbers_of
from spectui.tui import draw
from spectui.tui.tune.ledger import DONE, FORECAST, Ledger, Row
from spectui.tui.tune.words import measure
from spectui.tui.widgets import hidden, key

_MIN_DRAFT = 8
_PADDING = 2
"""Cells between columns."""


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
    width: int = 0
    """Cells of its longest text, where that is longer than the title."""
    is_text: bool = False
    """Whether it is read from the left; numbers are aligned on the right."""
    is_best_first: bool = False
    """Whether its interesting end is its largest value."""

    @property
    def justify(self) -> Literal["left", "right"]:
        """Side that its texts begin or end at."""
        return "left" if self.is_text else "right"


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
STATE = Column("state", lambda row: row.state, width=len("best, old way"), is_text=True)
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


def ordered(rows: Sequence[Row], column: Column, *, descending: bool) -> list[Row]:
    """Return the rows by the values of ``column``; those without a value come last, either way."""
    present = [row for row in rows if column.value(row) is not None]
    missing = [row for row in rows if column.value(row) is None]
    # All values of a column are of one type, which their common type does not tell.
    present.sort(key=lambda row: cast("float", column.value(row)), reverse=descending)
    return present + missing


def text(row: Row, column: Column, ledger: Ledger) -> str:
    """Return the content of a cell."""
    if column is TRIAL:
        number = draw.NONE if row.number is None else str(row.number)
        return f"• {number}" if row is ledger.leader else number
    if column is DRAFT:
        return draw.one_line(_drafter(row))
    if column is STATE:
        return _state(row, ledger)
    if column is SPEEDUP:
        return measure(row.speedup, "{:.2f}×")
    value = column.value(row)
    return draw.NONE if value is None else column.form(value)


def _state(row: Row, ledger: Ledger) -> str:
    if row is not ledger.leader or row.state == FORECAST:
        return row.state
    return "best" if row.state == DONE else f"best, {row.state}"


class TrialsTable(DataTable[Text]):
    """Selection and order stay when rows are added. No row is selected until the user moves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hidden("up,k", "tune.row_up", "Row up", action="move('cursor_up')"),
        hidden("down,j", "tune.row_down", "Row down", action="move('cursor_down')"),
        hidden("pageup", "tune.page_up", "Page up", action="move('page_up')"),
        hidden("pagedown", "tune.page_down", "Page down", action="move('page_down')"),
        hidden("home", "tune.first_row", "First row", action="move('scroll_top')"),
        hidden("end", "tune.last_row", "Last row", action="move('scroll_bottom')"),
        key(
            "enter",
            "tune.apply_selected",
            "Apply row",
            "Use the selected setting in the chat",
            action="screen.apply_selected",
            display="enter",
        ),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"trials--best", "trials--muted"}

    def __init__(self) -> None:
        super().__init__(cursor_type="row", show_cursor=False)
        self.column, self.descending = TRIAL, True
        """The order: the newest trial comes first by default."""
        self._ledger = Ledger()
        self._rows: list[Row] = []

    @property
    def selected(self) -> Row | None:
        """The selected row, None until the user selects one."""
        return self._rows[self.cursor_row] if self.show_cursor and self._rows else None

    @property
    def order(self) -> tuple[object, ...]:
        """Keys of the rows from top to bottom."""
        return tuple(row.key for row in self._rows)

    def show(self, ledger: Ledger) -> None:
        """Show the rows of ``ledger``."""
        self._ledger = ledger
        self._fill()

    def sort_by(self, column: Column, *, descending: bool) -> None:
        """Put the rows in another order; the selected one stays in view."""
        self.column, self.descending = column, descending
        self._fill()
        self.move_cursor(row=self.cursor_row)

    def sort_by_next(self) -> None:
        """Sort by the column to the right."""
        column = COLUMNS[(COLUMNS.index(self.column) + 1) % len(COLUMNS)]
        self.sort_by(column, descending=column.is_best_first)

    def reverse(self) -> None:
        """Reverse the order."""
        self.sort_by(self.column, descending=not self.descending)

    def action_move(self, how: str) -> None:
        """Move the selection by an action of Textual's; the first step selects what is on top."""
        is_first, is_step = not self.show_cursor, how.startswith("cursor")
        if is_first:
            self._select(round(self.scroll_y))
        if not (is_first and is_step):
            getattr(self, f"action_{how}")()

    def _select(self, index: int) -> None:
        self.move_cursor(row=index)
        self.show_cursor = True

    def on_mouse_down(self, event: MouseDown) -> None:
        """Let a click on a row select it, the first one too."""
        if event.style.meta.get("row", -1) >= 0:
            self._select(event.style.meta["row"])

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column whose title was clicked, or the other way round."""
        column = COLUMNS[event.column_index]
        if column is self.column:
            self.reverse()
        else:
            self.sort_by(column, descending=column.is_best_first)

    def on_resize(self) -> None:
        """Fit the columns."""
        self._fill()

    def _fill(self) -> None:
        """Show all rows anew, with the selection and the view where they were."""
        selected, at = self.selected, self.scroll_offset
        self._rows = ordered(self._ledger.rows, self.column, descending=self.descending)
        self.clear(columns=True)
        self._add_columns()
        for row in self._rows:
            self.add_row(*(self._cell(row, column) for column in COLUMNS))
        if selected is not None:
            keys = self.order
            self.move_cursor(row=keys.index(selected.key) if selected.key in keys else 0)
        # Below the cursor's own scrolling, which comes before.
        self.call_after_refresh(self.scroll_to, *at, animate=False, immediate=True)

    def _add_columns(self) -> None:
        arrow = "↓" if self.descending else "↑"
        longest = max([_MIN_DRAFT, *(len(text(one, DRAFT, self._ledger)) for one in self._rows)])
        for is_narrow in (False, True):
            titles = {one: one.narrow if is_narrow and one.narrow else one.title for one in COLUMNS}
            widths = {one: max(len(title), one.width) for one, title in titles.items()}
            widths[self.column] += len(arrow)
            room = (
                self.scrollable_content_region.width
                - sum(widths.values())
                + widths[DRAFT]
                - _PADDING * len(widths)
            )
            if room >= min(longest, 2 * _MIN_DRAFT):
                break
        widths[DRAFT] = max(_MIN_DRAFT, min(room, longest))
        for column, title in titles.items():
            label = Text(title, justify=column.justify)
            if column is self.column:
                label = Text.assemble(arrow, (title, "reverse"))
            self.add_column(label, width=widths[column])

    def _cell(self, row: Row, column: Column) -> Text:
        look = Style.null()
        if row is self._ledger.leader:
            look = self.get_component_rich_style("trials--best", partial=True)
        elif not row.is_known:
            look = self.get_component_rich_style("trials--muted", partial=True)
        content = text(row, column, self._ledger)
        return Text(content, look, justify=column.justify, overflow="ellipsis", no_wrap=True)
