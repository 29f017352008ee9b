"""Building blocks of panels: looks by meaning, sentences, charts as lines."""

from collections.abc import Sequence
from textwrap import wrap

from spectui.tui import units
from spectui.tui.charts import bar, spark
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.blocks import Block, Line, Lines, Part, block

PLAIN = ""
STRONG = "panel--strong"
MUTED = "panel--muted"
TARGET = "panel--target"
DRAFT = "panel--draft"
"""Class of the draft's tokens, as in the transcript."""
CACHE = "panel--cache"
COMPUTE = "panel--compute"
REJECTED = "panel--rejected"
WARNING = "panel--warning"
GAIN = "panel--gain"
LOSS = "panel--loss"
LOOKS = (STRONG, MUTED, TARGET, DRAFT, CACHE, COMPUTE, REJECTED, WARNING, GAIN, LOSS)
"""Component classes of every panel."""

_SPELT = str.maketrans(
    {"α": "alpha", "γ": "gamma", "×": "x", "·": "*", "–": "-", "…": "...", "’": "'", "±": "+-"}
)
_NOTABLE = 0.02
"""A speedup this near to 1 is neither good nor bad."""
_COLUMN = 5
"""Cells of a position with its number under it: ``0.92`` and a gap."""
_MAX_ROWS = 8


def spelt(text: str, glyphs: Glyphs) -> str:
    """Return a text of ours, which may quote a driver, in characters that the terminal has."""
    if not glyphs.times.isascii():
        return text
    return text.translate(_SPELT).encode("ascii", "replace").decode()


def sentence(text: str, look: str, width: int, glyphs: Glyphs) -> Lines:
    """Break a sentence into lines."""
    lines = wrap(spelt(text, glyphs), max(width, 1), break_on_hyphens=False)
    return tuple(((line, look),) for line in lines)


def warned(text: str, width: int, glyphs: Glyphs) -> Lines:
    """Break a warning into lines, with a mark in front."""
    return sentence(f"{glyphs.warning} {text}", WARNING, width, glyphs)


def labelled(label: str, value: str, look: str = PLAIN) -> tuple[Part, Part]:
    """Return a muted label and a value."""
    return (f"{label} ", MUTED), (value, look)


def speedup(value: float | None, glyphs: Glyphs) -> Part:
    """Return a factor, its direction as an arrow and as a colour."""
    text = units.speedup(value, glyphs)
    if value is None or abs(value - 1) < _NOTABLE:
        return text, STRONG
    arrow, look = (glyphs.up, GAIN) if value > 1 else (glyphs.down, LOSS)
    return f"{arrow}{text}", look


def chart(
    values: Sequence[float | None],
    width: int,
    height: int,
    glyphs: Glyphs,
    look: str,
    *,
    maximum: float | None = None,
) -> Lines:
    """Return a history as columns, ``height`` lines high."""
    lines = spark(values, width, glyphs, maximum=maximum, height=height)
    return tuple(((line, look),) for line in lines)


def any_of(values: Sequence[float | None]) -> bool:
    """Whether a history holds a sample."""
    return any(value is not None for value in values)


def shortened(lines: Lines) -> tuple[Lines, ...]:
    """Return a sentence in two forms: as one line, which is cropped to the panel, and in full."""
    if len(lines) <= 1:
        return (lines,)
    look = lines[0][0][1]
    return (((" ".join(line[0][0] for line in lines), look),),), lines


def positions(shares: Sequence[float | None], title: str, width: int, glyphs: Glyphs) -> Block:
    """Return acceptance by position, as one line, two, or a row each.

    Args:
        shares: [draft_max], a share per position.
        title: what they are shares of.
        width: cells.
        glyphs: the characters.
    """
    if not shares:
        return ()
    one: Line = (
        ("by position ", MUTED),
        (spark(shares, len(shares), glyphs, maximum=1.0)[0], DRAFT),
    )
    n_shown = width // _COLUMN
    more = f"+{len(shares) - n_shown + 1}" if len(shares) > n_shown else ""
    shown = shares[: max(n_shown - bool(more), 0)]
    bars = "".join(spark([rate], 1, glyphs, maximum=1.0)[0] * (_COLUMN - 1) + " " for rate in shown)
    numbers = "".join(units.number(rate, glyphs).ljust(_COLUMN) for rate in shown)
    two: Lines = (((bars, DRAFT),), ((f"{numbers}{more}", MUTED),))
    rows = tuple(
        _row(position, rate, width, glyphs)
        for position, rate in enumerate(shares[:_MAX_ROWS], start=1)
    )
    return block((30, (one,)), (40, two), (60, (((title, MUTED),), *rows)))


def _row(position: int, rate: float | None, width: int, glyphs: Glyphs) -> Line:
    label, number = f"{position:>2} ", units.number(rate, glyphs).rjust(_COLUMN)
    room = max(width - len(label) - len(number), 0)
    return (label, MUTED), (bar(rate or 0.0, room, glyphs), DRAFT), (number, "")
