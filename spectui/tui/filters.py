"""Filters of all that is drawn: nothing a terminal would obey, and ASCII where it lacks more."""

import re
import unicodedata
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.scrollbar import ScrollBarRender

from spectui.format import printable

_OTHER = re.compile(r"[^\x00-\x7f]")
_IN_ASCII = {
    "▁▂▃▄▅▆▇█": ".:-=+**#",
    "▏▎▍▌▋▊▉▔": "||||||| ",
    "▓▒░▚▞": "=+:%o",
    # Ends of lines: the digits that are drawn of these stay apart.
    "╺╸╶╴": "    ",
    "■□▪•◆●": "#x+*=o",
    "⟨⟩↑↓▲": "[]^v!",
    "–−…×·±’°αγ": "--.x.~'oag",
}
_TABLE = {
    one: other
    for these, those in _IN_ASCII.items()
    for one, other in zip(these, those, strict=True)
} | {"🔎": "/ "}


class SanitisingFilter(LineFilter):
    """Takes out what a terminal would obey: models, servers and logs may hold it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same line, as wide as before."""
        del background
        return [
            one
            if one.control or one.text.isprintable()
            else one._replace(text="".join(map(_neutralised, one.text)))
            for one in segments
        ]


def _neutralised(character: str) -> str:
    # Most of them take no cell.
    return printable(character, mark="?" * cell_len(character))


class AsciiFilter(LineFilter):
    """Replaces what an ASCII terminal lacks."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same line, as wide as before, in ASCII."""
        del background
        return [segment._replace(text=plain(segment.text)) for segment in segments]


def plain(text: str) -> str:
    """Return ``text`` in ASCII, as many cells wide."""
    return text if text.isascii() else _OTHER.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    character = match[0]
    if character in _TABLE:
        return _TABLE[character]
    words = unicodedata.name(character, "").split()
    if words[:2] != ["BOX", "DRAWINGS"]:
        return "?" * cell_len(character)
    is_upright = not {"VERTICAL", "UP", "DOWN"}.isdisjoint(words)
    is_level = not {"HORIZONTAL", "LEFT", "RIGHT"}.isdisjoint(words)
    return "|" if not is_level else "+" if is_upright else "-"


class AsciiScrollBars(ScrollBarRender):
    """Scroll bars of whole cells, for terminals without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]
