"""Lines of the table of trials."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from spectui.tui.glyphs import Glyphs
from spectui.tui.tune.cells import aligned
from spectui.tui.tune.columns import Slot, Sort, text
from spectui.tui.tune.ledger import Ledger, Row


def header(slots: Sequence[Slot], sort: Sort, glyphs: Glyphs, style: Style) -> Strip:
    """Return the titles; the one that rows are sorted by is reversed, with an arrow before it."""
    arrow = glyphs.down if sort.descending else glyphs.up
    segments, end = [], 0
    for slot in slots:
        is_sorted = slot.column is sort.column
        free = " " * (slot.width - len(slot.title))
        before = " " * (slot.x - end) + ("" if slot.column.is_text else free)
        # The arrow takes the last cell before the title: there always is one.
        segments.append(Segment(before[:-1] + arrow if is_sorted else before, style))
        segments.append(Segment(slot.title, style + Style(reverse=True) if is_sorted else style))
        segments.append(Segment(free if slot.column.is_text else "", style))
        end = slot.x + slot.width
    return Strip(segments)


def line(row: Row, slots: Sequence[Slot], ledger: Ledger, glyphs: Glyphs) -> str:
    """Return one trial's cells; the best one's line begins with a mark."""
    cells = glyphs.bullet if row is ledger.best else " "
    for slot in slots:
        content = text(row, slot.column, ledger, glyphs)
        right = not slot.column.is_text
        cells += " " * (slot.x - cell_len(cells))
        cells += aligned(content, slot.width, right=right, ellipsis=glyphs.ellipsis)
    return cells
