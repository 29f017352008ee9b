"""What one study says in a section: charts, a table, sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spectui.known import Known
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one study says in a section."""

    forest: Forest | None = None
    bars: Bars | None = None
    map: SettingsMap | None = None
    table: Table | None = None
    notes: tuple[str, ...] = ()
    """Sentences below."""


def beside(sections: Sequence[Known[Section]]) -> tuple[Known[Section], ...]:
    """Sections of several studies, whose charts have one scale."""
    found = [known.value for known in sections if known.value is not None]
    rows = tuple(row for one in found if one.forest for row in one.forest.rows)
    bars = tuple(bar for one in found if one.bars for bar in one.bars.bars)
    ends = [end for one in found if one.map for end in (one.map.low, one.map.high)]

    def aligned(section: Section) -> Section:
        return replace(
            section,
            forest=section.forest and replace(section.forest, beside=rows),
            bars=section.bars and replace(section.bars, beside=bars),
            map=section.map and replace(section.map, low=min(ends), high=max(ends)),
        )

    return tuple(
        known if known.value is None else Known(aligned(known.value)) for known in sections
    )
