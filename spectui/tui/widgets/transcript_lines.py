"""One line of the transcript, painted: the mark of the turn, then text in the style of its kind."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from spectui.tui.text.graphemes import continues, graphemes
from spectui.tui.text.store import Kind, Span

GUTTER_CELLS = 2
"""The mark of a turn and a space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Styles of one theme."""

    base: Style
    role: Style
    kinds: dict[Kind, Style]


def paint_line(spans: Iterable[Span], mark: str, palette: Palette, width: int) -> Strip:
    """Paint a line.

    Args:
        spans: What the line holds; the spaces that hang over its end are left out.
        mark: What stands in the gutter, at most one cell.
        palette: Styles.
        width: Cells, the gutter included.
    """
    gutter = mark + " " * (GUTTER_CELLS - cell_len(mark))
    segments = [Segment(gutter, palette.role)]
    for text, kind in _pieces(spans):
        words = text.lstrip(" ")
        if len(words) < len(text):
            # Indentation and the space before a word are no words to underline.
            segments.append(Segment(" " * (len(text) - len(words)), palette.base))
        segments.append(Segment(words, palette.kinds[kind]))
    return Strip(segments).adjust_cell_length(width, palette.base)


def _pieces(spans: Iterable[Span]) -> list[tuple[str, Kind]]:
    """Texts by kind, each starting with a whole character: it belongs to what completes it."""
    pieces: list[tuple[str, Kind]] = []
    for _, text, kind in spans:
        begun = ""
        if pieces and continues(pieces[-1][0][-1], text[0]):
            before, kind_before = pieces.pop()
            *_, (start, _, _) = graphemes(before, 0)
            begun = before[start:]
            if start:
                pieces.append((before[:start], kind_before))
        pieces.append((begun + text, kind))
    return _without_trailing_spaces(pieces)


def _without_trailing_spaces(pieces: list[tuple[str, Kind]]) -> list[tuple[str, Kind]]:
    while pieces:
        text, kind = pieces.pop()
        if text := text.rstrip(" \n"):
            return [*pieces, (text, kind)]
    return []
