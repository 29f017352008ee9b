"""A list of the picker: rows whose columns adapt to the width, headings and notes."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Spacing
from textual.strip import Strip
from textual.style import Style as TextStyle
from textual.visual import Padding, RenderOptions, Visual
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from spectui.display import aligned, clip, fit, visible
from spectui.tui.widgets import key

_HUB = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/[0-9a-f]{40}(/.*)?$")
MARK_CELLS = 2
"""Kept free on the left for the mark of the highlighted row."""
_GAP = "  "
_MIN_NAME_CELLS = 20
_NAME_SHARE = 2
_MARK = ">".ljust(MARK_CELLS)
_BRIGHT = Style(dim=False)


def short_folder(folder: Path) -> str:
    """Return a folder as people call it: the hub's repositories by their name, ``~`` for home."""
    text = str(folder)
    if match := _HUB.search(text):
        owner, repository, below = match.groups()
        return f"hub: {owner}/{repository}{below or ''}"
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.expanduser raises where there is no home
    if home != "/" and (text == home or text.startswith(home + "/")):
        return "~" + text[len(home) :]
    return text


@dataclass(frozen=True, slots=True)
class Cell:
    """A column beside the name."""

    text: str
    cells: int
    """Width, the least one if it grows."""
    share: int = 0
    """Part of the room that is left, against the name's 2."""
    to_right: bool = False
    is_prose: bool = False
    """Whether it is cut at its end, as sentences are, and not in its middle, as names are."""


class Row(Visual):
    """One line: a name and the columns for which there is room.

    Rows whose cells have equal widths stand exactly below each other.
    """

    def __init__(
        self,
        name: str,
        cells: Sequence[Cell] = (),
        *,
        style: str = "",
        indent: bool = True,
    ) -> None:
        """Show these texts, whatever they hold.

        Args:
            name: The first column.
            cells: The others, the more important first.
            style: As Textual writes styles.
            indent: Leave room for the mark of the highlighted row.
        """
        self.name = visible(name)
        self.cells = tuple(replace(cell, text=visible(cell.text)) for cell in cells)
        self._style = style
        self._indent = MARK_CELLS if indent else 0

    def text(self, width: int) -> str:
        """Lay the row out in ``width`` cells."""
        cells = list(self.cells)
        while cells and self._room(width, cells) < _MIN_NAME_CELLS:
            cells.pop()
        room = self._room(width, cells)
        n_shares = _NAME_SHARE + sum(cell.share for cell in cells)
        extra = max(0, room - _MIN_NAME_CELLS) // n_shares
        widths = [cell.cells + extra * cell.share for cell in cells]
        room -= extra * (n_shares - _NAME_SHARE)
        name_cells = room + MARK_CELLS - self._indent
        name = aligned(self.name, name_cells, cut=fit)
        texts = [
            aligned(
                cell.text,
                cells_,
                right=cell.to_right,
                cut=clip if cell.is_prose else fit,
            )
            for cell, cells_ in zip(cells, widths, strict=True)
        ]
        return " " * self._indent + _GAP.join([name, *texts])

    @staticmethod
    def _room(width: int, cells: Sequence[Cell]) -> int:
        return width - MARK_CELLS - sum(cell.cells + len(_GAP) for cell in cells)

    def render_strips(
        self, width: int, height: int | None, style: TextStyle, options: RenderOptions
    ) -> list[Strip]:
        """Draw the line."""
        del height
        style += options.get_style(self._style)
        return [Strip([Segment(self.text(width), style.rich_style)]).adjust_cell_length(width)]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """Take all the width there is."""
        del rules
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        """Take one line."""
        del rules, width
        return 1


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
        key(
            "enter",
            "picker.choose",
            "Choose",
            "Choose the highlighted row",
            action="select",
            display="enter",
        )
    ]

    @property
    def entry(self) -> Entry | None:
        """The highlighted row."""
        option = self.highlighted_option
        return option if isinstance(option, Entry) else None

    @property
    def value(self) -> object:
        """Value of the highlighted row; None without one."""
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


def heading(title: str, cells: Sequence[Cell]) -> Option:
    """Title of a section, and of the columns of its rows."""
    row = Row(title, cells, style="bold $text-accent", indent=False)
    return Option(row, disabled=True)


def note(text: str) -> Option:
    """Text between the rows, as many lines as it needs."""
    return Option(Padding(Content(text), Spacing(left=MARK_CELLS)), disabled=True)
