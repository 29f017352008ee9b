"""Parts of a page of results: sentences and tables as data, which each format prints its way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text that is broken at its blanks into lines as wide as the page.

    A longer word, such as a path, stays whole, to be copied.
    """

    text: str
    indent: str = ""
    """Indent of its lines but the first."""
    first: str = ""
    """Indent of its first line."""
    style: str = ""
    """Such as ``bold``; empty for none."""


@dataclass(frozen=True, slots=True)
class Words:
    """A column of words: they stand on the left, and are folded where they do not fit.

    A name is folded behind a hyphen, a dot, a slash or an underscore.
    """

    head: str = ""
    is_whole: bool = False
    """Whether they are never folded."""
    width: int = 0
    """Least width; 0 for that of the head."""


Cell = str | Paragraph
"""A text, or one with a style."""


def text_of(cell: Cell) -> str:
    """The text of a cell."""
    return cell if isinstance(cell, str) else cell.text


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells without lines between them."""

    columns: Sequence[str | Words]
    """The head of each column: words, or numbers, which stand on the right in one piece."""
    rows: Sequence[Sequence[Cell]]
    row_styles: Sequence[str] = ()
    """By row; empty for none."""
    column_styles: Sequence[str] = ()
    """By column; empty for none."""
    title: str = ""
    is_close: bool = False
    """Whether columns share the blanks between them, where room is scarce."""
    narrow: "Table | None" = None
    """Printed in its place on a page that is too narrow for it."""

    def without(self, head: str) -> "Table":
        """The table without one of its columns."""
        at = heads(self).index(head)
        return replace(
            self,
            columns=[*self.columns[:at], *self.columns[at + 1 :]],
            rows=[[*row[:at], *row[at + 1 :]] for row in self.rows],
        )


def heads(table: Table) -> list[str]:
    """The heads of a table's columns."""
    return [one.head if isinstance(one, Words) else one for one in table.columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A part of a longer line, marked, with what stands around it as far as there is room."""

    before: str
    text: str
    after: str
    indent: str = ""
    style: str = ""
    """Style of the marks."""


Part = str | Paragraph | Table | Excerpt
"""A text stands as it is, as a command to be copied does; an empty one separates."""
Page = Sequence[Part]


def section(title: str, parts: Sequence[Part]) -> list[Part]:
    """Parts below a title, with an empty line behind them."""
    return [Paragraph(title, style="bold"), *parts, ""]
