"""Tables for stdout, as text."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain, repeat
from typing import TYPE_CHECKING

from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    Group,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.measure import Measurement
from rich.text import Text

from spectui.cli.output import filled
from spectui.format import printable

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH = 100
"""Width where stdout is no terminal and COLUMNS is not set."""
_UNBOUNDED = 10_000


class _Page(StringIO):
    """Buffer for drawn text, with the encoding of stdout; writes nothing to stdout."""

    @property
    def encoding(self) -> str:  # type: ignore[override] # read-only above as well
        """Encoding of stdout."""
        return getattr(sys.stdout, "encoding", None) or "utf-8"


class Sanitised(RenderHook):
    """Has a console draw texts of others without what a terminal would obey."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Wrap what is drawn."""
        return [_Sanitised(one) for one in renderables]


class _Sanitised:
    def __init__(self, inner: ConsoleRenderable) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in console.render(self._inner, options):
            # Control segments are the console's own.
            yield part if part.control else part._replace(text=printable(part.text, keep="\n"))


def make_console() -> Console:
    """Make a console with the width and styles of stdout, which draws into a buffer."""
    on_terminal = is_terminal()
    is_asked = os.environ.get("COLUMNS", "").isdigit()
    console = Console(
        file=_Page(),
        force_terminal=on_terminal or None,
        highlight=False,
        # Names of files are text, whatever brackets and colons are in them.
        markup=False,
        emoji=False,
        width=None if on_terminal or is_asked else _WIDTH,
    )
    console.push_render_hook(Sanitised())
    return console


def is_terminal() -> bool:
    """Whether stdout is one."""
    return sys.stdout is not None and sys.stdout.isatty()


def drawn(*parts: RenderableType) -> str:
    """Draw for stdout, without spaces at the ends of lines."""
    console, page = make_console(), _Page()
    console.file = page
    # What must not be broken may be wider.
    console.print(Group(*parts), crop=False)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A column of words: they stand on the left, and are folded where they do not fit."""

    head: str = ""
    is_whole: bool = False
    """Whether they are never folded."""
    width: int = 0
    """Least width; 0 for that of the head."""


def table(
    columns: Sequence[str | Words],
    rows: Iterable[Sequence[str | Text]],
    *,
    styles: Iterable[str] = (),
    header_style: str = "bold",
) -> "Table":
    """A table without lines.

    Args:
        columns: heads; of a column of words with how it gives way, else of numbers.
        rows: cells.
        styles: of the rows; empty for none.
        header_style: of the heads.
    """
    from rich.table import Table

    drawn_table = Table(box=None, pad_edge=False, header_style=header_style)
    for one in columns:
        if isinstance(one, Words):
            drawn_table.add_column(
                one.head,
                no_wrap=one.is_whole,
                overflow="fold",
                min_width=max(one.width, len(one.head)) or None,
            )
        else:
            drawn_table.add_column(one, justify="right", no_wrap=True)
    for row, style in zip(rows, chain(styles, repeat("")), strict=False):
        drawn_table.add_row(*row, style=style)
    return drawn_table


def width_of(part: RenderableType) -> int:
    """Width in cells without wrapping or cutting."""
    console = make_console()
    unbounded = console.options.update(width=_UNBOUNDED)
    return Measurement.get(console, unbounded, part).maximum


def page_width() -> int:
    """Width of stdout in cells."""
    return make_console().width


def is_ascii_only() -> bool:
    """Whether stdout can encode ASCII only."""
    # As rich's ``ConsoleOptions.ascii_only``; a console for each cell of a table would take longer.
    return not _Page().encoding.lower().startswith("utf")


def fits(part: RenderableType) -> bool:
    """Whether the drawing fits on stdout without wrapping or cutting."""
    return width_of(part) <= page_width()


def wrapped(text: str, *, indent: str = "") -> str:
    """Wrap a paragraph for stdout; a number stays with its unit.

    Args:
        text: of the paragraph.
        indent: of its lines but the first.
    """
    return filled(text, page_width(), indent=indent)


def sentence(text: str, *, indent: str = "") -> str:
    """A line for stdout, wrapped on a terminal alone: whoever else reads it gets one line.

    Args:
        text: of the line.
        indent: of what does not fit on it.
    """
    return wrapped(text, indent=indent) if is_terminal() else text
