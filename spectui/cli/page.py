"""Pages for stdout: tables, paragraphs, and what to run next."""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from io import StringIO
from itertools import chain, repeat
from typing import Any

import rich.table
from rich.cells import cell_len
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
from rich.padding import Padding
from rich.text import Text

from spectui.cli.output import filled
from spectui.commands.sources.reading import read_command
from spectui.display import fit
from spectui.format import printable
from spectui.page import Cell, Command, Excerpt, Line, Paragraph, Part, Table, Words, heads, text_of

_WIDTH = 100
"""Width where stdout is no terminal and COLUMNS is not set."""
_UNBOUNDED = 10_000
_AROUND = 30
"""Characters of a line that are shown before and behind an excerpt."""
_GAP = "\N{HORIZONTAL ELLIPSIS} "


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


def page_text(page: Iterable[Part]) -> str:
    """A page as the text that stdout shows."""
    return "\n".join(map(_text, page))


def _text(part: Part) -> str:
    match part:
        case Line(text=text, indent=indent):
            return sentence(_shown(text), indent=indent)
        case Paragraph(text=text, first=first, style=style, breaks_words=True):
            folded = Text(filled(_shown(text), page_width() - len(first)), style)
            return drawn(Padding(folded, (0, 0, 0, len(first))))
        case Paragraph(text=text, indent=indent, first=first, style=style):
            lines = filled(_shown(text), page_width(), indent=indent, first=first)
            return drawn(Text(lines, style)) if style else lines
        case Command(text=text, does=does):
            line = f"  {text}  {does}"
            return line if sentence(line) == line else f"  {text}\n      {does}"
        case Table():
            return _table_text(part)
        case Excerpt():
            return _excerpt(part)
        case _:
            return _shown(part)


def _shown(text: str) -> str:
    """Text without anything that a terminal would obey."""
    return printable(text, keep="\n\t")


def _table_text(whole: Table) -> str:
    one = whole
    if whole.narrow is not None and width_of(table(whole)) > page_width():
        one = whole.narrow
    for head, least in whole.leaving.items():
        if _has_room(one, least):
            break
        one = one.without(head) if head in heads(one) else one
    kept = heads(one)
    texts = [text for head, text in whole.captions.items() if head in kept]
    gone = [head for head in heads(whole) if head in whole.leaving and head not in kept]
    if gone and whole.left_out:
        texts.insert(0, f"Left out for want of room: {', '.join(gone)}; {whole.left_out}")
    return "\n".join((drawn(table(_cut(one))), *map(wrapped, texts)))


def _has_room(one: Table, least: int) -> bool:
    """Whether a table fits where its first column is no wider than ``least``, and says as much."""
    first = [text_of(row[0]) for row in one.rows]
    longest = max(map(cell_len, (heads(one)[0], *first)))
    if width_of(table(one)) - max(0, longest - least) > page_width():
        return False
    return len({text_of(row[0]) for row in _cut(one).rows}) == len(set(first))


def _cut(one: Table) -> Table:
    """The table with its first column as wide as there is room, if that is one that is cut."""
    column = one.columns[0]
    if not (isinstance(column, Words) and column.is_cut):
        return one
    bare = replace(one, rows=[["", *row[1:]] for row in one.rows])
    room = page_width() - width_of(table(bare)) + len(column.head)
    ellipsis = "..." if is_ascii_only() else "…"
    return replace(one, rows=[[fit(text_of(row[0]), room, ellipsis), *row[1:]] for row in one.rows])


def _excerpt(part: Excerpt) -> str:
    own, before, after = map(printable, (part.text, part.before, part.after))
    room = page_width() - len(part.indent) - 2 * len(_GAP)
    own = own if cell_len(own) <= room else f"{own[: room - 1]}…"
    side = max(0, min(_AROUND, (room - cell_len(own)) // 2))
    before = f"{before} " if before else ""
    before = before if len(before) <= side else f"{_GAP}{before[len(before) - side :]}"
    after = f" {after}" if after else ""
    after = after if len(after) <= side else f"{after[:side]}{_GAP.rstrip()}"
    marks = f"{part.indent}{' ' * cell_len(before)}{'^' * cell_len(own)}"
    marked = Text(marks, part.style, no_wrap=True, overflow="ignore")
    return f"{part.indent}{before}{own}{after}".rstrip() + f"\n{drawn(marked)}"


def table(one: Table) -> rich.table.Table:
    """A table to draw."""
    found = rich.table.Table(
        box=None,
        pad_edge=one.has_margin,
        collapse_padding=one.is_close,
        header_style="bold",
        title=one.title or None,
        title_justify="left",
        title_style="bold",
    )
    for column, style in zip(one.columns, chain(one.column_styles, repeat("")), strict=False):
        words, heading = (column, column.head) if isinstance(column, Words) else (None, column)
        found.add_column(
            heading,
            style=style,
            justify="right" if words is None else "left",
            no_wrap=words is None or words.is_whole or words.is_cut,
            overflow="ellipsis" if words is None else "fold",
            min_width=None if words is None else max(words.width, len(words.head)) or None,
        )
    for row, style in zip(one.rows, chain(one.row_styles, repeat("")), strict=False):
        found.add_row(*map(_cell, row), style=style)
    return found


def _cell(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else Text(cell.text, cell.style)


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


_OF_THIS_RUN = frozenset({"json_path", "quiet", "verbose", "repeats", "spec_type"})
"""Options that another command would not take over: ``bench`` has other words behind the last."""


def next_lines(does: str, words: Iterable[str]) -> list[Part]:
    """The next command, to be copied.

    Args:
        does: what it does.
        words: of the command.
    """
    return [Line(f"Next: {does}:"), f"  {shlex.join(words)}"]


def tune_words(given: Mapping[str, Any], **changed: object) -> list[str]:
    """The search with the models and options that were typed for a command, but for these."""
    # It loads every option.
    from spectui.cli.tune import command

    return ["spectui", "tune", *command.words({**_taken_over(given), **changed})]


def _taken_over(given: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in given.items() if name not in _OF_THIS_RUN}
    # A search has one temperature.
    if "," in str(own.get("temp", "")):
        del own["temp"]
    # What is pasted may hold secrets; a file or a process is named.
    if " " in (pasted := str(own.get("command_line", ""))):
        own["command_line"] = read_command(pasted).text
    return own
