"""The transcript: every token shows whether the draft or the target produced it."""

import time
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.geometry import Size
from textual.reactive import reactive, var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from spectui.tui.glyphs import UNICODE, Glyphs, glyphs_of
from spectui.tui.text.conversation import Conversation
from spectui.tui.text.layout import MIN_WIDTH, Kind, Layout, Span, Tape, continues, graphemes

SLICE_S = 0.012
"""Time for laying out a long text anew, before other events get their turn."""

_PAUSE_S = 0.001
_WIDTH_BEFORE_LAYOUT = 80
_KEPT_STRIPS = 512


class TapeView(ScrollView, can_focus=True):
    """Text that grows at its end. The view follows the end while that is visible.

    After a change of width the rows on screen are laid out at once and the rest in slices. The text
    at the top stays at the top.
    """

    # Its rows are not the text itself, which is copied whole instead.
    ALLOW_SELECT = False

    following: var[bool] = var(default=True)
    """Whether the view stays at the end as text arrives."""

    gutter_cells = 0
    """Cells at the left that no text is laid out in."""

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        """Create a view of nothing; ``clock`` gives seconds, to cut long work into slices."""
        super().__init__()
        self._clock = clock
        self._adjusting = False
        self._slice_is_due = False
        self._strips: LRUCache[tuple[int, int], Strip] = LRUCache(_KEPT_STRIPS)
        self._layout = Layout(Tape(), width=_WIDTH_BEFORE_LAYOUT, with_rejected=False)
        self._window: list[tuple[int, int]] | None = None
        self._kept_top: int | None = None

    @abstractmethod
    def paint(self, start: int, stop: int, width: int) -> Strip:
        """Paint the line between two offsets, over so many cells with the gutter."""

    @property
    def renewing(self) -> bool:
        """Whether a change of width is still being worked off."""
        return self._layout.renewing

    def show_tape(self, tape: Tape) -> None:
        """Show another tape from its end."""
        layout = self._layout
        self._layout = Layout(tape, width=layout.width, with_rejected=layout.with_rejected)
        self._window = self._kept_top = None
        self._strips.clear()
        self.following = True
        self._fit()
        self.refresh()

    def show_appended(self) -> None:
        """Show what the tape has got at its end."""
        first_changed = self._layout.extend()
        self._window = None
        self._fit()
        self.refresh_lines(first_changed, self._layout.line_count - first_changed + 1)

    def renew(self, *, width: int, with_rejected: bool) -> None:
        """Lay out anew, what is visible first."""
        self._kept_top = self._top()
        self._layout.renew(width=width, with_rejected=with_rejected)
        self._strips.clear()
        self._window = None
        if not self._slice_is_due:
            self._renew_slice()
        self.refresh()

    def _renew_slice(self) -> None:
        deadline = self._clock() + SLICE_S
        self._slice_is_due = not self._layout.step(lambda: self._clock() >= deadline)
        if self._slice_is_due:
            # A timer, because the message pump would go from one call to the next without a pause.
            self.set_timer(_PAUSE_S, self._renew_slice)
        else:
            self._window = None
            self._fit()
            if not self.following:
                self._put_at(self._layout.line_at(self._top()))
            self.refresh()

    def _fit(self) -> None:
        """Make the scrollable height that of the text; at its end, stay there."""
        if not self._layout.renewing:
            self.virtual_size = Size(self._layout.width, self._layout.line_count)
            if self.following and self.is_attached:
                self._put_at(self.max_scroll_y)

    def _put_at(self, line: int) -> None:
        self._adjusting = True
        self.scroll_to(y=line, animate=False, force=True)
        self._adjusting = False

    def _top(self) -> int:
        """Offset of the text at the top, the same one through several changes of width."""
        if self._kept_top is not None:
            return self._kept_top
        last = max(0, self._layout.line_count - 1)
        return self._layout.line(min(self.scroll_offset.y, last))[0]

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Show other lines."""
        super().watch_scroll_y(old_value, new_value)
        self._window = None

    def watch_scroll_target_y(self, target: float) -> None:
        """Follow the end once the user goes there, and no longer when the user leaves it."""
        # The target changes with the key, the position only with the animation's first frame.
        if not self._adjusting:
            self._kept_top = None
            self.following = target >= self.max_scroll_y

    def action_scroll_end(self) -> None:
        """Go to the end and stay there."""
        self.following = True
        self._put_at(self.max_scroll_y)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out anew if the width has changed."""
        event.stop()
        width = max(MIN_WIDTH, self.scrollable_content_region.width - self.gutter_cells)
        if self.size and width != self._layout.width:
            self.renew(width=width, with_rejected=self._layout.with_rejected)
        else:
            self._fit()

    def notify_style_update(self) -> None:
        """Paint anew in the new styles."""
        super().notify_style_update()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """Paint one row of the view; rows below the last line are blank."""
        width = self.scrollable_content_region.width
        line = self._line(y)
        if line is None:
            return Strip.blank(width, self.rich_style)
        if (strip := self._strips.get(line)) is None:
            strip = self._strips[line] = self.paint(*line, width)
        return strip

    def _line(self, y: int) -> tuple[int, int] | None:
        if not self._layout.renewing:
            index = self.scroll_offset.y + y
            return self._layout.line(index) if index < self._layout.line_count else None
        if self._window is None:
            height = self.size.height
            at_end = self.following
            layout = self._layout
            self._window = (
                layout.last_lines(height) if at_end else layout.lines_from(self._top(), height)
            )
        return self._window[y] if y < len(self._window) else None


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


class Transcript(TapeView):
    """The conversation, each token in the style of its author."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "transcript--role",
        *(f"transcript--{kind.name.lower()}" for kind in Kind),
    }

    show_rejected: reactive[bool] = reactive(default=False, init=False, repaint=False)
    """Whether draft tokens that the target refused are shown, where it refused them."""

    placeholder: reactive[str] = reactive("")
    """Text in an empty transcript."""

    gutter_cells = GUTTER_CELLS

    def __init__(
        self, *, placeholder: str = "", clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Create an empty transcript, with a text that stands in it while it is empty."""
        self._palette_in_use: Palette | None = None
        super().__init__(clock=clock)
        self.set_reactive(Transcript.placeholder, placeholder)
        self._begin(UNICODE)

    def _begin(self, glyphs: Glyphs) -> None:
        self.conversation = Conversation(glyphs, self.show_appended)
        """The shown text; to be written to."""
        self._marks = {"user": ">", "assistant": glyphs.bullet, "notice": glyphs.warning}
        self.show_tape(self.conversation.tape)

    def on_mount(self) -> None:
        """Take the app's characters, which only a mounted widget knows."""
        if not self.conversation.turns:
            self.clear()

    def clear(self) -> None:
        """Forget everything that was said."""
        self._begin(glyphs_of(self))

    def watch_show_rejected(self) -> None:
        """Lay out anew, with or without what was rejected."""
        self.renew(width=self._layout.width, with_rejected=self.show_rejected)

    def render_line(self, y: int) -> Strip:
        """Paint one row of the view."""
        if self.conversation.turns:
            return super().render_line(y)
        return self._placeholder_line(y - 1)

    def _placeholder_line(self, index: int) -> Strip:
        width = self.scrollable_content_region.width
        tape = Tape()
        tape.append(self.placeholder, Kind.NOTE)
        layout = Layout(tape, width=self._layout.width, with_rejected=False)
        if not 0 <= index < layout.line_count:
            return Strip.blank(width, self.rich_style)
        spans = tape.spans(*layout.line(index), with_rejected=False)
        return paint_line(spans, "", self._palette, width)

    def paint(self, start: int, stop: int, width: int) -> Strip:
        """Paint a line, on the first one of a turn with the speaker's mark."""
        turns = self.conversation.turns
        turn = turns[max(0, bisect_right(turns, start, key=lambda turn: turn.start) - 1)]
        mark = self._marks[turn.role] if turn.start == start else ""
        spans = self.conversation.tape.spans(start, stop, with_rejected=self.show_rejected)
        return paint_line(spans, mark, self._palette, width)

    def notify_style_update(self) -> None:
        """Paint anew in the new styles."""
        super().notify_style_update()
        self._palette_in_use = None

    @property
    def _palette(self) -> Palette:
        # Kept, because Textual works the base style out anew each time.
        if self._palette_in_use is None:
            style = self.get_component_rich_style
            self._palette_in_use = Palette(
                base=self.rich_style,
                role=style("transcript--role"),
                kinds={kind: style(f"transcript--{kind.name.lower()}") for kind in Kind},
            )
        return self._palette_in_use
