"""A section of a report: charts, a table, sentences."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from spectui.report.charts import Bar, Row
from spectui.report.settings_map import SettingsMap

MOST = 24
"""Rows of a chart or a table."""
Cells = tuple[str, ...]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts."""

    heads: Cells
    rows: tuple[Cells, ...]
    n_words: int = 1
    """Leading columns that hold words; the others hold numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a report."""

    forest: tuple[Row, ...] = ()
    """A chart of speedups."""
    bars: tuple[Bar, ...] = ()
    """A chart of seconds."""
    map: SettingsMap | None = None
    table: Table | None = None
    notes: tuple[str, ...] = ()
    """Sentences below."""


def table_of(items: Iterable[_Item], columns: Mapping[str, Callable[[_Item], str]]) -> Table:
    """A table with a row for each of ``items``, whose texts stand by the head of their column."""
    rows = (tuple(text(one) for text in columns.values()) for one in items)
    return Table(heads=tuple(columns), rows=tuple(rows))


def facts(rows: list[tuple[str, str]], n_words: int = 1) -> Table:
    """A table of names and values, which needs no head."""
    return Table(heads=("", ""), rows=tuple(rows), n_words=n_words)
