"""Acceptance by position, in the room that there is."""

from collections.abc import Sequence

from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.blocks import Block, Line, Lines, block
from spectui.tui.panels.paint import DRAFT, MUTED
from spectui.tui.widgets.charts import bar, spark

_COLUMN = 5
"""Cells of a position with its number under it: ``0.92`` and a gap."""
_MAX_ROWS = 8


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
