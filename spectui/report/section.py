"""A section of a report: charts, a table, sentences."""

from dataclasses import dataclass

from spectui.report.charts import Bars, Forest
from spectui.report.settings_map import SettingsMap

MOST = 24
"""Rows of a chart or a table."""
Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts."""

    heads: Cells
    rows: tuple[Cells, ...]
    n_words: int = 1
    """Leading columns that hold words; the others hold numbers."""


def facts(rows: list[tuple[str, str]], n_words: int = 1) -> Table:
    """A table of names and values, which needs no head."""
    return Table(heads=("", ""), rows=tuple(rows), n_words=n_words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a report."""

    forest: Forest | None = None
    bars: Bars | None = None
    map: SettingsMap | None = None
    table: Table | None = None
    notes: tuple[str, ...] = ()
    """Sentences below."""
