"""A list of the picker: rows of columns, headings and notes."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from spectui.display import aligned, fit, visible
from spectui.tui.widgets import key

_HUB = re.compile(r"models--([^/]+?)--([^/]+)/snapshots/[0-9a-f]{40}(/.*)?$")
_NOTE_CELLS = 60
"""Width of notes: either list is at least as wide."""


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


Cell = tuple[str, int]
"""A text and its width: negative to stand at the right, 0 for what is left of the line."""


def columns(*cells: Cell) -> str:
    """Lay texts out on a line, in columns that are the same in every row."""
    shown = ((visible(text), width) for text, width in cells)
    return "  ".join(
        aligned(text, abs(width), right=width < 0, cut=fit) if width else text
        for text, width in shown
    )


class Entry(Option):
    """A row that can be highlighted."""

    def __init__(
        self, value: object, line: str, key: str, *, about: str = "", is_dim: bool = False
    ) -> None:
        """Stand for ``value``.

        Args:
            value: what a choice of the row means.
            line: what is shown.
            key: finds the same entry again after a change.
            about: a description, where none follows from the value.
            is_dim: whether it cannot be chosen.
        """
        super().__init__(Content.styled(line, "dim" if is_dim else ""), id=key)
        self.value = value
        self.about = about


class PickerList(OptionList):
    """Keeps the highlighted row when the rows change."""

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


def heading(line: str) -> Option:
    """Title of a section, and of the columns of its rows."""
    return Option(Content.styled(line, "bold $text-accent"), disabled=True)


def notes(text: str) -> list[Option]:
    """Text between the rows, a line each."""
    return [Option(Content(line), disabled=True) for line in wrap(visible(text), _NOTE_CELLS)]
