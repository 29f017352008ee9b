"""A section of a report: charts, a table, sentences; and the texts that sections share."""

from dataclasses import dataclass

from spectui.format import times_text
from spectui.measure.arm import Arm
from spectui.report.charts import Bar, Row
from spectui.report.document import ModelPart
from spectui.report.settings_map import SettingsMap

MOST = 24
"""Rows of a chart or a table."""
_LABEL = 120
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
    """A section of a report."""

    forest: tuple[Row, ...] = ()
    """A chart of speedups."""
    bars: tuple[Bar, ...] = ()
    """A chart of seconds."""
    map: SettingsMap | None = None
    table: Table | None = None
    notes: tuple[str, ...] = ()
    """Sentences below."""


def facts(rows: list[tuple[str, str]], n_words: int = 1) -> Table:
    """A table of names and values, which needs no head."""
    return Table(heads=("", ""), rows=tuple(rows), n_words=n_words)


def label_of(arm: Arm | None) -> str:
    """A setting in a label's length."""
    return "unknown setting" if arm is None else short(arm.label)


def short(text: str, most: int = _LABEL) -> str:
    """A text of others in a label's length."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def interval_text(interval: tuple[float, float] | None) -> str:
    """Ends of an interval of speedups, or that there is none."""
    return "no interval" if interval is None else " to ".join(map(times_text, interval))


def file_name(model: ModelPart) -> str:
    """Name of a model's file, without its folder."""
    return short(model.path.replace("\\", "/").rpartition("/")[2])
