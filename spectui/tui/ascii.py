"""Plain characters for terminals that have no others: the last step of drawing, for everything."""

import re
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.command import CommandPalette, SearchIcon
from textual.filter import LineFilter
from textual.scrollbar import ScrollBarRender

_PLAIN = {"…": "~", "─": "-", "━": "-", "│": "|", "┃": "|", "•": "*", "█": "#"}
_OTHER = re.compile(r"[^\x00-\x7f]")


class AsciiFilter(LineFilter):
    """Replaces what widgets draw without asking for glyphs, such as Textual's own ellipsis."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same line, as wide as before, in ASCII."""
        del background
        return [segment._replace(text=plain(segment.text)) for segment in segments]


def plain(text: str) -> str:
    """Return ``text`` in ASCII, as many cells wide."""
    return text if text.isascii() else _OTHER.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    character = match[0]
    return _PLAIN.get(character) or "?" * cell_len(character)


class AsciiScrollBars(ScrollBarRender):
    """Scroll bars of whole cells, for terminals without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]


class AsciiPalette(CommandPalette):
    """The command palette without a picture and an ellipsis."""

    def __init__(self) -> None:
        """Take the id by which the app knows that it is open."""
        super().__init__(placeholder="Search for commands", id="--command-palette")

    def on_mount(self) -> None:
        """Put a sign in place of the picture."""
        self.query_one(SearchIcon).icon = "/"
