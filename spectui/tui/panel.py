"""The base of all panels: lines with looks, and blocks of them that compete for the height."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from textwrap import wrap
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from spectui.format import times_text
from spectui.tui import draw


class Look(StrEnum):
    """Component classes of every panel."""

    PLAIN = ""
    STRONG = "panel--strong"
    MUTED = "panel--muted"
    TARGET = "panel--target"
    DRAFT = "panel--draft"
    """The draft's tokens, as in the transcript."""
    CACHE = "panel--cache"
    COMPUTE = "panel--compute"
    REJECTED = "panel--rejected"
    WARNING = "panel--warning"
    GAIN = "panel--gain"
    LOSS = "panel--loss"


Part = tuple[str, str]
"""Text, and how it looks: a ``Look``, or an empty string for plain."""
Line = tuple[Part, ...]
Lines = tuple[Line, ...]

NOTABLE = 0.02
"""A speedup this near to 1 is neither good nor bad."""
_TALLEST = 12
"""Lines of a chart, at most."""
_COLUMN = 5
"""Cells of a position with its number under it: ``0.92`` and a gap."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a panel: as many of its lines as there is room for, or a chart that grows."""

    rank: int
    """Order in which blocks get room, 0 first."""
    lines: Lines = ()
    chart: Callable[[int], Lines] | None = None
    """Draws a history in so many lines; called only where it is shown."""
    is_whole: bool = False
    """Whether it is shown with all of its lines or not at all, as tables are."""


def fit(blocks: Iterable[Block], room: int) -> list[Line]:
    """Choose ``room`` lines by rank; charts share the lines that are left.

    The order on screen is that of ``blocks``.
    """
    given = list(blocks)
    by_rank = sorted(range(len(given)), key=lambda index: given[index].rank)
    shown: dict[int, int] = {}
    for index in by_rank:
        one = given[index]
        height = len(one.lines) + (one.chart is not None)
        shown[index] = 0 if one.is_whole and height > room else min(room, height)
        room -= shown[index]
    charts = [index for index in by_rank if given[index].chart is not None and shown[index]]
    for n_before, index in enumerate(charts):
        more = min(room // (len(charts) - n_before), _TALLEST - 1)
        shown[index] += more
        room -= more
    return [line for index, one in enumerate(given) for line in _drawn(one, shown[index])]


def _drawn(one: Block, height: int) -> Lines:
    return one.chart(height) if one.chart is not None and height else one.lines[:height]


def cells(line: Iterable[Part]) -> int:
    """Return a line's width. Every character that panels write is one cell wide."""
    return sum(len(text) for text, _look in line)


def crop(line: Line, width: int) -> Line:
    """Return ``line`` within ``width`` characters."""
    if cells(line) <= width:
        return line
    room = max(width - 1, 0)
    parts: list[Part] = []
    for text, look in line:
        parts.append((text[:room], look))
        room -= len(parts[-1][0])
    return (*parts, ("…"[:width], ""))


def labelled(label: str, value: str, look: str = Look.PLAIN) -> tuple[Part, Part]:
    """Return a muted label and a value."""
    return (f"{label} ", Look.MUTED), (value, look)


def any_of(values: Sequence[float | None]) -> bool:
    """Whether a history holds a sample."""
    return any(value is not None for value in values)


@dataclass(frozen=True, slots=True)
class Pen:
    """Lays text out in lines of a panel's width."""

    width: int

    def sentence(self, text: str, look: str = Look.MUTED) -> Lines:
        """Break a sentence into lines."""
        lines = wrap(text, max(self.width, 1), break_on_hyphens=False)
        return tuple(((line, look),) for line in lines)

    def wrapped(self, rank: int, text: str, look: str = Look.MUTED) -> tuple[Block, Block]:
        """Return a sentence: its first line, and its others where there is more room."""
        lines = self.sentence(text, look)
        return Block(rank, lines[:1]), Block(rank + 20, lines[1:])

    def spread(self, left: Line, right: Line) -> Line:
        """Return one line with ``right`` at the right end; without it where there is no room."""
        gap = self.width - cells(left) - cells(right)
        return (*left, (" " * gap, ""), *right) if gap > 0 else left

    def factor(self, value: float | None) -> Part:
        """Return a speedup, its direction as an arrow and as a colour."""
        if value is None:
            return draw.NONE, Look.MUTED
        text = times_text(value)
        if abs(value - 1) < NOTABLE:
            return text, Look.STRONG
        arrow, look = ("↑", Look.GAIN) if value > 1 else ("↓", Look.LOSS)
        return f"{arrow}{text}", look

    def chart(
        self,
        values: Sequence[float | None],
        height: int,
        scale: Callable[[float], str],
        *,
        maximum: float | None = None,
    ) -> Lines:
        """Return a history as columns, ``height`` lines high, with its ends at the right.

        Args:
            values: samples, oldest first.
            height: lines.
            scale: writes a value.
            maximum: value at the top, if no sample is larger.
        """
        shown = values[max(0, len(values) - self.width) :]
        top = max([maximum or 0.0, *(value for value in shown if value is not None)])
        ends = [scale(top), *[""] * (height - 1)]
        if height > 1:
            ends[-1] = "0"
        room = max(map(len, ends)) + 1
        lines = draw.spark(values, self.width - room, maximum=top, height=height)
        return tuple(
            ((line, Look.PLAIN), (end.rjust(room), Look.MUTED))
            for line, end in zip(lines, ends, strict=True)
        )

    def acceptance(self, label: str, rate: float | None, length: float | None, look: str) -> Line:
        """Return an acceptance rate and the tokens per round beside it."""
        beside = (f"{draw.number(length)} tokens/round", look or Look.MUTED)
        return self.spread(labelled(label, draw.number(rate), look), (beside,))

    def positions(self, shares: Sequence[float | None]) -> Lines:
        """Return acceptance by position: a bar and a number each, as many as there is room for."""
        shown = shares[: self.width // _COLUMN]
        levels = (draw.spark([rate], 1, maximum=1.0)[0] for rate in shown)
        bars = "".join(level * (_COLUMN - 1) + " " for level in levels)
        numbers = "".join(draw.number(rate).ljust(_COLUMN) for rate in shown)
        return (((bars, Look.DRAFT),), ((numbers, Look.MUTED),)) if shown else ()

    def gauge(self, label: str, share: float, value: str, look: str = Look.PLAIN) -> Line:
        """Return a label, a bar that fills ``share`` of what is left, and a value."""
        room = max(self.width - len(label) - len(value), 0)
        return (label, Look.MUTED), (draw.bar(share, room), look), (value, Look.PLAIN)


State = TypeVar("State")


class Panel(Widget, Generic[State]):
    """Draws one part of the live state in the size of the widget.

    A panel paints only the lines that have changed: it changes ten times a second beside an engine
    that needs the cores.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {look for look in Look if look}
    heading = ""
    state: reactive[State | None] = reactive(None, repaint=False)

    def __init__(self) -> None:
        """Show nothing until there is a state."""
        super().__init__()
        self._lines: list[Line] | None = None
        self._laid_out = Size(0, 0)
        self._styles_by_look: dict[str, Style] = {}

    def on_mount(self) -> None:
        """Name the panel."""
        self.border_title = Content(self.heading)

    def blocks(self, state: State, pen: Pen) -> Iterable[Block]:
        """Return all parts of the panel, in the order on screen."""
        raise NotImplementedError

    def watch_state(self) -> None:
        """Repaint the lines that differ."""
        before, self._lines = self._lines, None
        width = self.size.width
        if before is None or not width:
            self.refresh()
            return
        pairs = enumerate(zip_longest(before, self.lines()))
        changed = [Region(0, y, width, 1) for y, (old, new) in pairs if old != new]
        if changed:
            self.refresh(*changed)

    def notify_style_update(self) -> None:
        """Paint in the new styles."""
        super().notify_style_update()
        self._styles_by_look.clear()

    def lines(self) -> list[Line]:
        """Return the lines to show, in the details that fit."""
        # Textual may paint a new size before it announces that.
        if self._lines is None or self._laid_out != self.size:
            self._laid_out = width, height = self.size
            blocks = () if self.state is None else self.blocks(self.state, Pen(width))
            self._lines = [crop(line, width) for line in fit(blocks, height)]
        return self._lines

    def render_line(self, y: int) -> Strip:
        """Paint one line."""
        lines, width = self.lines(), self.size.width
        if y >= len(lines):
            return Strip.blank(width, self._style(Look.PLAIN))
        segments = [Segment(text, self._style(look)) for text, look in lines[y] if text]
        return Strip(segments).adjust_cell_length(width, self._style(Look.PLAIN))

    def _style(self, look: str) -> Style:
        # Kept, because Textual works styles out anew each time.
        style = self._styles_by_look.get(look)
        if style is None:
            style = self.rich_style
            if look:
                style += self.get_component_rich_style(look, partial=True)
            self._styles_by_look[look] = style
        return style


class PanelStack(VerticalScroll, can_focus=False):
    """Panels below each other, with frames where there is room."""
