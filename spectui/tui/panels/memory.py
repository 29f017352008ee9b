"""VRAM and RAM: who holds them, what is free, and warnings before it runs out."""

from collections.abc import Sequence

from spectui.live.memory import MemoryState
from spectui.live.plan import Use
from spectui.live.pools import MemoryPool
from spectui.tui import units
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, block, growing
from spectui.tui.panels.paint import (
    CACHE,
    COMPUTE,
    DRAFT,
    MUTED,
    PLAIN,
    TARGET,
    sentence,
    shortened,
    warned,
)
from spectui.tui.widgets.charts import stacked

_STYLES = {
    Use.TARGET: TARGET,
    Use.DRAFT: DRAFT,
    Use.KV: CACHE,
    Use.COMPUTE: COMPUTE,
    Use.OTHER: MUTED,
}
_LABEL = len("# compute ")
_COLUMN = len(" 123.4 MB ")


class MemoryPanel(Panel[MemoryState]):
    """Shows a bar per memory."""

    heading = "VRAM and RAM"

    def blocks(self, state: MemoryState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Bars, each with its warning and its parts; a legend; why there is no GPU."""
        blocks = pool_blocks(state, width, glyphs)
        if state.reason is not None:
            return blocks
        table = _table(state.pools[: (width - _LABEL) // _COLUMN], glyphs)
        blocks.append(block((20, (_legend(glyphs),)), (40, table)))
        return blocks

    def alert(self) -> str | None:
        """Return the first warning, where all lines are needed for the bars."""
        pools = self.state.pools if self.state is not None else ()
        warnings = [pool.warning for pool in pools if pool.warning is not None]
        if not warnings or self.size.height > len(pools):
            return None
        return f"{glyphs_of(self).warning} {warnings[0]}"


def pool_blocks(state: MemoryState, width: int, glyphs: Glyphs) -> list[Block]:
    """Return the bars with what must be said of them."""
    if state.reason is not None:
        return [block((0, sentence(state.reason, MUTED, width, glyphs)))]
    blocks: list[Block] = []
    for pool in state.pools:
        blocks.append(block((0, (_bar(pool, width, glyphs),))))
        if pool.warning is not None:
            blocks.append(growing(10, shortened(warned(pool.warning, width, glyphs)), step=20))
        if pool.reason is not None:
            blocks.append(growing(25, shortened(sentence(pool.reason, MUTED, width, glyphs))))
    if state.gpu_reason is not None:
        blocks.append(growing(25, shortened(sentence(state.gpu_reason, MUTED, width, glyphs))))
    return blocks


def _bar(pool: MemoryPool, width: int, glyphs: Glyphs) -> Line:
    label = f"{pool.name} ".ljust(len("VRAM "))
    numbers = " " + units.used_of(pool.used_bytes, pool.total_bytes, glyphs)
    room = max(width - len(label) - len(numbers), 0)
    sizes = [size_bytes for _use, size_bytes in pool.parts]
    bars = stacked(sizes, pool.total_bytes or sum(sizes), room, glyphs)
    rest = room - sum(map(len, bars))
    filled = ((text, _STYLES[use]) for text, (use, _size) in zip(bars, pool.parts, strict=True))
    return (label, MUTED), *filled, (" " * rest, ""), (numbers, "")


def _legend(glyphs: Glyphs) -> Line:
    return tuple(
        part
        for use, filling in zip(Use, glyphs.segments, strict=False)
        for part in ((filling, _STYLES[use]), (f"{use} ", MUTED))
    )


def _table(pools: Sequence[MemoryPool], glyphs: Glyphs) -> Lines:
    """Bytes by use, a column per memory."""
    names = "".join(pool.name.rjust(_COLUMN) for pool in pools)
    rows: list[Line] = [(("".ljust(_LABEL) + names, MUTED),)]
    for index, (use, filling) in enumerate(zip(Use, glyphs.segments, strict=False)):
        sizes = (units.size(pool.parts[index][1], glyphs).rjust(_COLUMN) for pool in pools)
        rows.append(
            (
                (f"{filling} ", _STYLES[use]),
                (str(use).ljust(_LABEL - 2), MUTED),
                ("".join(sizes), PLAIN),
            )
        )
    free = (units.size(pool.free_bytes, glyphs).rjust(_COLUMN) for pool in pools)
    rows.append((("  free".ljust(_LABEL), MUTED), ("".join(free), PLAIN)))
    return tuple(rows)
