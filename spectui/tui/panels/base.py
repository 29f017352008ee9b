"""The base of all panels: lines with looks, and blocks of them that compete for the height."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import zip_longest
from textwrap import wrap
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.geometry import Region
from textual.reactive import reactive
from textual.renderables.digits import DIGITS, DIGITS3X3_BOLD
from textual.strip import Strip
from textual.widget import Widget

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
_COLUMN = 5
"""Cells of a position with its number under it: ``0.92`` and a gap."""
_MAX_ROWS = 8
_FRAME = 3
"""Columns of the frame that stay visible around the heading."""


@dataclass(frozen=True, slots=True)
class Form:
    """One variant of a text."""

    rank: int
    """0 is what must be there first."""
    height: int
    draw: Callable[[], Lines]
    """Called only for forms that are shown: charts cost time."""


Block = tuple[Form, ...]
"""Something to say, in forms that replace each other; none if there is nothing."""


def block(*forms: tuple[int, Lines]) -> Block:
    """Return a block of forms, each given by its rank and its lines."""
    return tuple(Form(rank, len(lines), partial(tuple, lines)) for rank, lines in forms if lines)


def growing(rank: int, forms: Iterable[Lines], step: int = 1) -> Block:
    """Return a block of forms, each ranked ``step`` behind the one before."""
    return block(*((rank + step * index, lines) for index, lines in enumerate(forms)))


def charted(
    rank: int, step: int, heights: range, draw: Callable[[int], Lines], *, n_more: int = 0
) -> Block:
    """Return a block of charts of several heights, drawn when shown, with ``n_more`` lines each."""
    return tuple(
        Form(rank + step * index, height + n_more, partial(draw, height))
        for index, height in enumerate(heights)
    )


def fit(blocks: Sequence[Block], height: int) -> list[Line]:
    """Choose a form of each block, or none, for ``height`` lines.

    Forms are tried by rank; one takes the place of its block's form so far if there is room for it.
    The order on screen is that of ``blocks``.
    """
    tries = [(index, form) for index, forms in enumerate(blocks) for form in forms]
    chosen: dict[int, Form] = {}
    room = height
    for index, form in sorted(tries, key=lambda each: each[1].rank):
        spare = room + (chosen[index].height if index in chosen else 0)
        if form.height <= spare:
            chosen[index] = form
            room = spare - form.height
    return [line for index in sorted(chosen) for line in chosen[index].draw()]


def cells(line: Iterable[Part]) -> int:
    """Return a line's width. All that panels write is one cell wide per character."""
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
    has_digits: bool = True
    """Whether large digits can be read: not in ASCII."""

    def sentence(self, text: str, look: str = Look.MUTED) -> Lines:
        """Break a sentence into lines."""
        lines = wrap(text, max(self.width, 1), break_on_hyphens=False)
        return tuple(((line, look),) for line in lines)

    def prose(self, rank: int, text: str, *, look: str = Look.MUTED, step: int = 1) -> Block:
        """Return a block of a sentence: as one line, which is cropped to the panel, and in full."""
        lines = self.sentence(text, look)
        if len(lines) <= 1:
            return block((rank, lines))
        one = (((" ".join(line[0][0] for line in lines), look),),)
        return block((rank, one), (rank + step, lines))

    def spread(self, left: Line, right: Line) -> Line:
        """Return one line with ``right`` at the right end; without it where there is no room."""
        gap = self.width - cells(left) - cells(right)
        return (*left, (" " * gap, ""), *right) if gap > 0 else left

    def large(self, text: str, look: str) -> Lines:
        """Return a number as digits of three lines."""
        drawn = [
            DIGITS3X3_BOLD[3 * DIGITS.index(one) :][:3] if one in DIGITS else (" ", " ", one)
            for one in text
        ]
        return tuple((("".join(row), look),) for row in zip(*drawn, strict=True))

    def factor(self, value: float | None) -> Part:
        """Return a speedup, its direction as an arrow and as a colour."""
        text = draw.speedup(value)
        if value is None or abs(value - 1) < NOTABLE:
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
        if height < 1:
            return ()
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

    def positions(self, shares: Sequence[float | None], title: str) -> Block:
        """Return acceptance by position, as one line, two, or a row each.

        Args:
            shares: [draft_max], a share per position.
            title: what they are shares of.
        """
        if not shares:
            return ()
        label = "by position "
        n_beside = (self.width - len(label)) // _COLUMN
        beside = " ".join(map(draw.number, shares[:n_beside]))
        one: Line = ((label, Look.MUTED), (beside, ""))
        n_shown = self.width // _COLUMN
        more = f"+{len(shares) - n_shown + 1}" if len(shares) > n_shown else ""
        shown = shares[: max(n_shown - bool(more), 0)]
        levels = (draw.spark([rate], 1, maximum=1.0)[0] for rate in shown)
        bars = "".join(level * (_COLUMN - 1) + " " for level in levels)
        numbers = "".join(draw.number(rate).ljust(_COLUMN) for rate in shown)
        two: Lines = (((bars, Look.DRAFT),), ((f"{numbers}{more}", Look.MUTED),))
        rows = (
            self.gauge(f"{n:>2} ", rate or 0.0, draw.number(rate).rjust(_COLUMN), Look.DRAFT)
            for n, rate in enumerate(shares[:_MAX_ROWS], start=1)
        )
        return block((30, (one,)), (40, two), (60, (((title, Look.MUTED),), *rows)))

    def gauge(self, label: str, share: float, value: str, look: str = Look.PLAIN) -> Line:
        """Return a label, a bar that fills ``share`` of what is left, and a value."""
        room = max(self.width - len(label) - len(value), 0)
        return (label, Look.MUTED), (draw.bar(share, room), look), (value, Look.PLAIN)


State = TypeVar("State")


class Panel(Widget, Generic[State]):
    """Draws one part of the live state for the size that it has.

    It paints lines itself, and only those that have changed: panels change ten times a second
    beside an engine that needs the cores.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {look for look in Look if look}
    heading = ""
    state: reactive[State | None] = reactive(None, repaint=False)

    def __init__(self) -> None:
        """Show nothing until there is a state."""
        super().__init__()
        self._shown_title: str | None = None
        self._lines: list[Line] | None = None
        self._styles_by_look: dict[str, Style] = {}

    def on_mount(self) -> None:
        """Name the panel."""
        self._entitle()

    def alert(self) -> str | None:
        """Return a message that must be shown even without a line, in place of the heading."""
        return None

    def _entitle(self) -> None:
        alert = self.alert()
        room = max(self.size.width - _FRAME, 0)
        parts = crop(((alert or self.heading, Look.PLAIN),), room)
        title = "".join(text for text, _look in parts)
        if title != self._shown_title:
            self._shown_title = title
            self.border_title = Content(title)
            self.set_class(alert is not None, "-alert")

    def blocks(self, state: State, pen: Pen) -> Sequence[Block]:
        """Return all there is to say, in the order on screen."""
        raise NotImplementedError

    def watch_state(self) -> None:
        """Repaint the lines that differ."""
        self._entitle()
        before, self._lines = self._lines, None
        width = self.size.width
        if before is None or not width:
            self.refresh()
            return
        pairs = enumerate(zip_longest(before, self.lines()))
        changed = [Region(0, y, width, 1) for y, (old, new) in pairs if old != new]
        if changed:
            self.refresh(*changed)

    def on_resize(self, _event: Resize) -> None:
        """Lay out anew."""
        self._entitle()
        self._lines = None

    def notify_style_update(self) -> None:
        """Paint in the new styles."""
        super().notify_style_update()
        self._styles_by_look.clear()

    def lines(self) -> list[Line]:
        """Return the lines to show, in the details that fit."""
        if self._lines is None:
            width, height = self.size
            pen = Pen(width, has_digits=not self.app.has_class("-ascii"))
            blocks = () if self.state is None else self.blocks(self.state, pen)
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
