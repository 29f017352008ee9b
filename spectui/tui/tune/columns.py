"""The columns of the table of trials: what stands in them, and in which order they put rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import cast

from rich.cells import cell_len

from spectui.tui.glyphs import Glyphs
from spectui.tui.tune.ledger import Ledger, Row
from spectui.tui.tune.words import measure, one_line
from spectui.tune.trials import TrialState

GAP = 2
"""Cells between columns."""
_MIN_DRAFT = 8


class Column(Enum):
    """A column; its value is the full title and the one for narrow tables."""

    TRIAL = ("trial", "trial")
    DRAFT_MAX = ("draft_max", "max")
    DRAFT_MIN = ("draft_min", "min")
    DRAFT_P_MIN = ("draft_p_min", "p_min")
    DRAFT = ("draft", "draft")
    TOKENS_PER_S = ("tokens/s", "tokens/s")
    SPEEDUP = ("speedup", "speedup")
    ACCEPTANCE = ("acceptance", "accept.")
    STATE = ("state", "state")

    @property
    def is_text(self) -> bool:
        """Whether it is read from the left; numbers are aligned on the right."""
        return self in {Column.DRAFT, Column.STATE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """An order of the table; the newest trial comes first by default."""

    column: Column = Column.TRIAL
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
    value_of = _VALUES[sort.column]
    present = [row for row in rows if value_of(row) is not None]
    missing = [row for row in rows if value_of(row) is None]
    # All values of a column are of one type, which their common type does not tell.
    present.sort(key=lambda row: cast("float", value_of(row)), reverse=sort.descending)
    return present + missing


def layout(rows: Sequence[Row], width: int, glyphs: Glyphs) -> tuple[Slot, ...]:
    """Return the columns for a table of ``width`` cells; wider where they do not fit."""
    names = {row.record.arm.drafter for row in rows}
    longest = max([_MIN_DRAFT, *(cell_len(one_line(name, glyphs)) for name in names)])
    full = _widths(0)
    draft = width - sum(full.values()) - GAP * len(full)
    if draft < min(longest, 2 * _MIN_DRAFT):
        full = _widths(1)
        draft = width - sum(full.values()) - GAP * len(full)
    full[Column.DRAFT] = max(_MIN_DRAFT, min(draft, longest))
    is_short = full[Column.DRAFT_MAX] < len(Column.DRAFT_MAX.value[0])
    slots, x = [], 1
    for column in Column:
        title = column.value[is_short]
        slots.append(Slot(column=column, title=title, x=x, width=full[column]))
        x += full[column] + GAP
    return tuple(slots)


def text(row: Row, column: Column, ledger: Ledger, glyphs: Glyphs) -> str:
    """Return what stands in a cell."""
    if column is Column.DRAFT:
        return one_line(row.record.arm.drafter, glyphs)
    if column is Column.STATE:
        return _state(row, ledger)
    if column is Column.SPEEDUP:
        return measure(ledger.speedup(row), "{:.2f}" + glyphs.times, glyphs)
    return measure(_VALUES[column](row), _FORMS.get(column, "{}"), glyphs)


def _widths(form: int) -> dict[Column, int]:
    """Cells per column, all but the draft's, with the full titles (0) or the narrow ones (1)."""
    least = {Column.TRIAL: 5, Column.DRAFT_P_MIN: 5, Column.STATE: 11}
    return {
        column: max(len(column.value[form]), least.get(column, 0))
        for column in Column
        if column is not Column.DRAFT
    } | {Column.DRAFT: 0}


def _state(row: Row, ledger: Ledger) -> str:
    if row.record.state is not TrialState.COMPLETE:
        return "failed" if row.record.state is TrialState.FAIL else row.record.state.value
    noisy = "noisy" if row.record.noisy else ""
    if row is ledger.best:
        return "best, noisy" if noisy else "best"
    return noisy or "done"


def _number(row: Row, name: str) -> float | None:
    """A number of who drafts; 0 for what an n-gram drafter does not have, None for off."""
    speculation = row.record.arm.speculation
    return None if speculation is None else speculation.own.numbers.get(name, 0)


def _longest(row: Row) -> int | None:
    speculation = row.record.arm.speculation
    return None if speculation is None else speculation.own.longest


_VALUES: dict[Column, Callable[[Row], float | str | None]] = {
    Column.TRIAL: lambda row: row.number,
    Column.DRAFT_MAX: _longest,
    Column.DRAFT_MIN: lambda row: _number(row, "draft_min"),
    Column.DRAFT_P_MIN: lambda row: _number(row, "draft_p_min"),
    Column.DRAFT: lambda row: None if row.is_off else row.record.arm.drafter,
    Column.TOKENS_PER_S: lambda row: row.tokens_per_s,
    # The off arm's level is common to all, so that it changes no order.
    Column.SPEEDUP: lambda row: row.relative,
    Column.ACCEPTANCE: lambda row: row.acceptance_rate,
    Column.STATE: lambda row: row.record.state.value + " noisy" * row.record.noisy,
}
"""What the rows are sorted by."""
_FORMS = {
    Column.DRAFT_P_MIN: "{:.2f}",
    Column.TOKENS_PER_S: "{:.1f}",
    Column.ACCEPTANCE: "{:.0%}",
}
