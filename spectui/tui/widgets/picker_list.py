"""A list of the picker: rows with a value each, headings and notes between them."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Spacing
from textual.strip import Strip
from textual.visual import Padding
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from spectui.tui.glyphs import Glyphs
from spectui.tui.widgets.picker_rows import MARK_CELLS, Cell, Row

_MARK = ">".ljust(MARK_CELLS)
_BRIGHT = Style(dim=False)


class Entry(Option):
    """A row that can be highlighted."""

    def __init__(self, value: object, row: Row, key: str, about: str = "") -> None:
        """Stand for ``value``.

        Args:
            value: What a choice of the row means.
            row: What is shown.
            key: Finds the same entry again after a change.
            about: What there is to say of it, where the value does not tell.
        """
        super().__init__(row, id=key)
        self.value = value
        self.about = about


class PickerList(OptionList):
    """Marks the highlighted row with a sign, and keeps it when the rows change.

    A click highlights, a second click chooses: looking at a row must not load a model.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter",
            "select",
            "Choose",
            id="picker.choose",
            key_display="enter",
            tooltip="Choose the highlighted row",
        ),
    ]
    DEFAULT_CSS = """
    PickerList {
        height: 1fr;
        border: none;
        padding: 0;
        background: transparent;
        scrollbar-gutter: stable;
        & > .option-list--option { padding: 0; }
        & > .option-list--option-disabled { color: $text-muted; }
        & > .option-list--option-highlighted { text-style: bold; }
        &:focus {
            border: none;
            background-tint: transparent;
            & > .option-list--option-highlighted { text-style: bold; }
        }
    }
    """

    @property
    def entry(self) -> Entry | None:
        """The highlighted row."""
        option = self.highlighted_option
        return option if isinstance(option, Entry) else None

    @property
    def value(self) -> object:
        """What the highlighted row stands for; None without one."""
        return None if self.entry is None else self.entry.value

    @property
    def key(self) -> str | None:
        """Key of the highlighted row."""
        return None if self.entry is None else self.entry.id

    @property
    def entries(self) -> Sequence[Entry]:
        """The rows that can be highlighted, in order."""
        return [option for option in self.options if isinstance(option, Entry)]

    def show_rows(self, options: Iterable[Option], key: str | None) -> None:
        """Show other rows; highlight ``key``, else the first one that can be."""
        scroll_y = self.scroll_y
        self.set_options(options)
        # Back to where it was, so that rows which come and go elsewhere move nothing.
        self.scroll_to(y=scroll_y, animate=False, immediate=True)
        if key is not None and any(entry.id == key for entry in self.entries):
            self.highlighted = self.get_option_index(key)
        else:
            self.action_first()

    def on_click(self, event: events.Click) -> None:
        """Highlight, or choose what is highlighted."""
        event.prevent_default()
        index = event.style.meta.get("option")
        if index is None or self.get_option_at_index(index).disabled:
            return
        if index == self.highlighted:
            self.action_select()
        self.highlighted = index

    def on_resize(self) -> None:
        """Keep the highlighted row in view."""
        self.call_after_refresh(self.scroll_to_highlight)

    def render_line(self, y: int) -> Strip:
        """Put the mark before the highlighted row, for eyes and terminals without colour."""
        strip = super().render_line(y)
        style = next(iter(strip), Segment("")).style
        if style is None or self.highlighted is None:
            return strip
        if style.meta.get("option") != self.highlighted:
            return strip
        # Dimmed text could not be read on the colour of the highlight.
        parts = [Segment(text, style + _BRIGHT) for text, _, _ in strip.crop(MARK_CELLS)]
        return Strip([Segment(_MARK, style + _BRIGHT), *parts])


def heading(title: str, cells: Sequence[Cell], glyphs: Glyphs) -> Option:
    """Title of a section, and of the columns of its rows."""
    row = Row(title, cells, ellipsis=glyphs.ellipsis, style="bold $text-accent", indent=False)
    return Option(row, disabled=True)


def note(text: str) -> Option:
    """Text between the rows, as many lines as it needs."""
    return Option(Padding(Content(text), Spacing(left=MARK_CELLS)), disabled=True)
