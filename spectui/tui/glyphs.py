"""The characters that the screen is made of: Unicode, or ASCII for terminals that lack it."""

import re
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.command import CommandPalette, SearchIcon
from textual.filter import LineFilter
from textual.scrollbar import ScrollBarRender
from textual.widget import Widget

from spectui.tui.text.display import shown

_TYPOGRAPHIC = {"−": "-", "–": "-", "±": "+-", "×": "x", "…": "...", "α": "alpha"}
_PLAIN = {"…": "~", "─": "-", "━": "-", "│": "|", "┃": "|", "•": "*", "█": "#"}
_OTHER = re.compile(r"[^\x00-\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """One set. Strings of several characters go from empty to full."""

    spark: str
    """Levels of a history, the first one for nothing."""
    bar: str
    """Parts of a horizontal bar's last cell, the first one empty and the last one full."""
    segments: str
    """Fillings that tell the parts of a stacked bar apart without colour."""
    accepted: str
    rejected: str
    bonus: str
    """Marks of one token in the strip of rounds."""
    reject_open: str
    reject_close: str
    """Around a rejected draft inside the text."""
    up: str
    down: str
    warning: str
    none: str
    """In place of a number that is not there."""
    bullet: str
    ellipsis: str
    times: str


UNICODE = Glyphs(
    spark=" ▁▂▃▄▅▆▇█",
    bar=" ▏▎▍▌▋▊▉█",
    segments="█▓▒░▚▞",
    accepted="■",
    rejected="□",
    bonus="▪",
    reject_open="⟨",
    reject_close="⟩",
    up="↑",
    down="↓",
    warning="▲",
    none="–",
    bullet="•",
    ellipsis="…",
    times="×",
)
ASCII = Glyphs(
    spark=" .:-=+*#@",
    bar=" -=#",
    segments="#=+:%o",
    accepted="#",
    rejected="x",
    bonus="+",
    reject_open="[-",
    reject_close="-]",
    up="^",
    down="v",
    warning="!",
    none="-",
    bullet="*",
    ellipsis="...",
    times="x",
)


def glyphs_of(widget: Widget) -> Glyphs:
    """Glyphs that the widget's app is set to; Unicode in an app without the setting."""
    found = getattr(widget.app, "glyphs", UNICODE)
    return found if isinstance(found, Glyphs) else UNICODE


def one_line(text: str, glyphs: Glyphs) -> str:
    """Return foreign text on one line, with nothing in it that a terminal would obey."""
    flat = " ".join(text.split())
    if flat.isprintable():
        return flat
    return "".join(shown(character, ascii_only=glyphs.times.isascii()) for character in flat)


def own_line(text: str, glyphs: Glyphs) -> str:
    """Return a sentence of ours that may quote others, in characters that the terminal has."""
    if glyphs.times.isascii():
        for typographic, plain in _TYPOGRAPHIC.items():
            text = text.replace(typographic, plain)
    return one_line(text, glyphs)


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
