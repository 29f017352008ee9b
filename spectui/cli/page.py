"""Pages for stdout: tables, paragraphs, and what to run next."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from io import StringIO
from itertools import chain, repeat
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.text import Text

from spectui.cli.output import filled, say, write_all, write_document
from spectui.documents import Json
from spectui.format import printable
from spectui.page import Cell, Excerpt, Paragraph, Part, Table, Words

if TYPE_CHECKING:
    import rich.table

_WIDTH = 100
"""Width where stdout is no terminal and COLUMNS is not set."""
_UNBOUNDED = 10_000
_AROUND = 30
"""Characters of a line that are shown before and behind an excerpt."""
_OBEYED = frozenset('"\\$`!')
"""Characters that a shell obeys between double quotes."""
_GAP = "\N{HORIZONTAL ELLIPSIS} "
_NAME = re.compile(r"\S{17,}")
"""A word that a column may be too narrow for."""
_JOINT = re.compile(r"(?<=[-_/\\])(?=\w)|(?<=[a-zA-Z]\.)(?=\w)")
"""Where such a word may be folded."""
_FOLD = "\x1f"
"""A blank for rich, without a width: it is not printed."""


class _Page(StringIO):
    """Buffer for drawn text, with the encoding of stdout; writes nothing to stdout."""

    @property
    def encoding(self) -> str:  # type: ignore[override] # read-only above as well
        """Encoding of stdout."""
        return getattr(sys.stdout, "encoding", None) or "utf-8"


def make_console() -> Console:
    """Make a console with the width and styles of stdout, which draws into a buffer."""
    on_terminal = is_terminal()
    is_asked = os.environ.get("COLUMNS", "").isdigit()
    return Console(
        file=_Page(),
        force_terminal=on_terminal or None,
        highlight=False,
        # Names of files are text, whatever brackets and colons are in them.
        markup=False,
        emoji=False,
        width=None if on_terminal or is_asked else _WIDTH,
    )


def is_terminal() -> bool:
    """Whether stdout is one."""
    return sys.stdout is not None and sys.stdout.isatty()


def drawn(*parts: RenderableType) -> str:
    """Draw for stdout, without spaces at the ends of lines."""
    console, page = make_console(), _Page()
    console.file = page
    # What must not be broken may be wider.
    console.print(Group(*parts), crop=False)
    lines = page.getvalue().replace(_FOLD, "").split("\n")
    return "\n".join(map(str.rstrip, lines)).removesuffix("\n")


def write_result(
    document: Json, page: Iterable[Part], json_path: str | None, *, quiet: bool = False
) -> None:
    """Print ``page`` on stdout, and write ``document`` to the file of ``--json``.

    ``--json -`` prints the document and nothing else.

    Args:
        document: the result for programs.
        page: the result for people.
        json_path: value of ``--json``.
        quiet: whether nothing is said of the file.

    Raises:
        BadInputError: the file or stdout cannot be written; the other one has been.
    """
    writers = list[Callable[[], None]]()
    if json_path != "-":
        writers.append(lambda: say(page_text(page).rstrip("\n")))
    if json_path is not None:
        writers.append(lambda: write_document(document, json_path, quiet=quiet))
    # A terminal that is gone must not cost the file.
    write_all(writers)


def page_text(page: Iterable[Part]) -> str:
    """A page as the text that stdout shows."""
    return "\n".join(map(_part_text, page))


def _part_text(part: Part) -> str:
    match part:
        case Paragraph(text=text, indent=indent, first=first, style=style):
            lines = filled(_shown(text), page_width(), indent=indent, first=first)
            return drawn(Text(lines, style, no_wrap=True, overflow="ignore")) if style else lines
        case Table():
            return _table_text(part)
        case Excerpt():
            return _excerpt(part)
        case _:
            return _shown(part)


def _shown(text: str) -> str:
    """Text without anything that a terminal would obey."""
    return printable(text, keep="\n\t")


def _table_text(one: Table) -> str:
    if one.narrow is not None and width_of(table(one)) > page_width():
        one = one.narrow
    return drawn(table(one))


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


def table(one: Table) -> "rich.table.Table":
    """A table to draw."""
    # Pages without tables need not wait for it.
    import rich.table

    found = rich.table.Table(
        box=None,
        pad_edge=False,
        collapse_padding=one.is_close,
        header_style="bold",
        title=_shown(one.title) or None,
        title_justify="left",
        title_style="bold",
    )
    for column, style in zip(one.columns, chain(one.column_styles, repeat("")), strict=False):
        words, heading = (column, column.head) if isinstance(column, Words) else (None, column)
        heading = _shown(heading)
        found.add_column(
            heading,
            style=style,
            justify="right" if words is None else "left",
            no_wrap=words is None or words.is_whole,
            overflow="ellipsis" if words is None else "fold",
            min_width=None if words is None else max(words.width, len(words.head)) or None,
        )
    for row, style in zip(one.rows, chain(one.row_styles, repeat("")), strict=False):
        found.add_row(*map(_cell, row, one.columns), style=style)
    return found


def _cell(cell: Cell, column: str | Words) -> Text:
    text, style = (cell, "") if isinstance(cell, str) else (cell.text, cell.style)
    text = _shown(text)
    if isinstance(column, Words) and not column.is_whole:
        text = _NAME.sub(lambda word: _JOINT.sub(_FOLD, word[0]), text)
    return Text(text, style)


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


def next_lines(does: str, words: Iterable[str]) -> list[Part]:
    """The next command, to be copied.

    Args:
        does: what it does.
        words: of the command.
    """
    return [Paragraph(f"Next: {does}:"), f"  {shell_line(words)}"]


def shell_line(words: Iterable[str]) -> str:
    """A command for a shell: a word is quoted so that quotes within it stay readable."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    is_plain = "'" in word and _OBEYED.isdisjoint(word)
    return f'"{word}"' if is_plain else shlex.quote(word)
