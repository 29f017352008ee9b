"""Tables and bars for stdout, as text."""

import sys
import textwrap

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.text import Text

_WIDTH = 100
"""Where stdout is no terminal."""
_BAR_WIDTH = 32


def make_console() -> Console:
    """Measures and styles for stdout."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)


def drawn(*parts: RenderableType) -> str:
    """Draw for stdout, without spaces at the ends of lines."""
    console = make_console()
    with console.capture() as captured:
        console.print(Group(*parts))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def wrapped(text: str) -> str:
    """Wrap a paragraph for stdout; a number stays with its unit."""
    for unit in ("%", "ms"):
        text = text.replace(f" {unit}", f"\N{NO-BREAK SPACE}{unit}")
    lines = textwrap.fill(text, make_console().width, break_long_words=False)
    return lines.replace("\N{NO-BREAK SPACE}", " ")


def bar(value: float, largest: float) -> RenderableType:
    """A horizontal bar, as long as ``value`` is of ``largest``."""
    console = make_console()
    if console.options.ascii_only or console.is_dumb_terminal:
        return Text("#" * round(_BAR_WIDTH * value / largest))
    return Bar(size=largest, begin=0, end=value, width=_BAR_WIDTH)
