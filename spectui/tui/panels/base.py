"""Base of all panels."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.events import Resize
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.panels import paint
from spectui.tui.panels.blocks import Block, Line, crop, fit

State = TypeVar("State")

_FRAME = 3
"""Columns of the frame that stay visible around the heading."""


class Panel(Widget, Generic[State]):
    """Draws one part of the live state for the size that it has.

    It paints lines itself, and only those that have changed: panels change ten times a second
    beside an engine that needs the cores.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = set(paint.LOOKS)
    DEFAULT_CSS = """
    Panel {
        & > .panel--strong { text-style: bold; }
        & > .panel--muted { text-style: dim; }
        & > .panel--target { color: $text-primary; }
        & > .panel--draft { color: $text-success; }
        & > .panel--cache { color: $text-secondary; }
        & > .panel--compute { color: $text-accent; }
        & > .panel--rejected { color: $text-error; }
        & > .panel--warning { color: $text-warning; }
        & > .panel--gain { color: $text-success; text-style: bold; }
        & > .panel--loss { color: $text-error; text-style: bold; }
    }
    """

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
        # Cropped here: Textual's ellipsis is not in every terminal.
        room = max(self.size.width - _FRAME, 0)
        parts = crop(((alert or self.heading, paint.PLAIN),), room, glyphs_of(self).ellipsis)
        title = "".join(text for text, _look in parts)
        if title != self._shown_title:
            self._shown_title = title
            self.border_title = Content(title)
            self.set_class(alert is not None, "-alert")

    def blocks(self, state: State, width: int, glyphs: Glyphs) -> Sequence[Block]:
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
            glyphs = glyphs_of(self)
            blocks = () if self.state is None else self.blocks(self.state, width, glyphs)
            self._lines = [crop(line, width, glyphs.ellipsis) for line in fit(blocks, height)]
        return self._lines

    def render_line(self, y: int) -> Strip:
        """Paint one line."""
        lines, width = self.lines(), self.size.width
        if y >= len(lines):
            return Strip.blank(width, self._style(paint.PLAIN))
        segments = [Segment(text, self._style(look)) for text, look in lines[y] if text]
        return Strip(segments).adjust_cell_length(width, self._style(paint.PLAIN))

    def _style(self, look: str) -> Style:
        # Kept, because Textual works styles out anew each time.
        style = self._styles_by_look.get(look)
        if style is None:
            style = self.rich_style
            if look:
                style += self.get_component_rich_style(look, partial=True)
            self._styles_by_look[look] = style
        return style
