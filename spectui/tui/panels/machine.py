"""Panels of the machine: who holds its memories; what moves over PCIe, from DRAM and disk."""

from collections.abc import Sequence
from functools import partial

from spectui.live.memory import MemoryPool, MemoryState, Use
from spectui.live.traffic import LinkState, TrafficState
from spectui.monitor.readings import Reading
from spectui.tui import units
from spectui.tui.charts import stacked
from spectui.tui.glyphs import Glyphs, glyphs_of
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, block, cells, charted, growing, spread
from spectui.tui.panels.paint import (
    CACHE,
    COMPUTE,
    DRAFT,
    MUTED,
    PLAIN,
    STRONG,
    TARGET,
    WARNING,
    chart,
    labelled,
    sentence,
    shortened,
    warned,
)

_STYLES = {
    Use.TARGET: TARGET,
    Use.DRAFT: DRAFT,
    Use.KV: CACHE,
    Use.COMPUTE: COMPUTE,
    Use.OTHER: MUTED,
}
_LABEL = len("# compute ")
_COLUMN = len(" 123.4 MB ")
_HEIGHTS = range(1, 4)


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


class TrafficPanel(Panel[TrafficState]):
    """Shows rates with their histories."""

    heading = "PCIe, DRAM, disk"

    def blocks(self, state: TrafficState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Links, or why there are none; DRAM; disk."""
        return (
            *link_blocks(state, width, glyphs),
            _dram(state, width, glyphs),
            disk_block(state, width, glyphs),
        )


def link_blocks(state: TrafficState, width: int, glyphs: Glyphs) -> list[Block]:
    """Return the links, or why there are none."""
    blocks: list[Block] = []
    if state.gpu_reason is not None:
        reason = sentence(f"PCIe: {state.gpu_reason}", MUTED, width, glyphs)
        blocks.append(growing(15, shortened(reason), step=10))
    for link in state.links:
        name = "PCIe" if len(state.links) == 1 else f"PCIe {link.gpu}"
        blocks.append(_link(link, name, width, glyphs))
    return blocks


def _missing(rank: int, label: str, reading: Reading, width: int, glyphs: Glyphs) -> Block:
    lines = sentence(f"{label}: {reading.reason}", MUTED, width, glyphs)
    return growing(rank, shortened(lines), step=20)


def _link(link: LinkState, name: str, width: int, glyphs: Glyphs) -> Block:
    rx, tx = link.rx_bytes_per_s, link.tx_bytes_per_s
    if rx.value is None and tx.value is None:
        return _missing(0, name, rx, width, glyphs)
    received, sent = units.rate(rx.value, glyphs), units.rate(tx.value, glyphs)
    use, limit = units.percent(link.use, glyphs), link.limit_bytes_per_s.value
    into = spread(
        labelled(f"{name} {glyphs.down} received", received), ((f"{use} used", STRONG),), width
    )
    out = spread(
        labelled(f"{name} {glyphs.up} sent", sent), ((_limit(link, glyphs), MUTED),), width
    )

    def draw(height: int) -> Lines:
        above = chart(link.rx_history, width, height, glyphs, TARGET, maximum=limit)
        below = chart(link.tx_history, width, height, glyphs, COMPUTE, maximum=limit)
        return (into, *above, out, *below)

    one = _one_line(name, f"{glyphs.down}{received} {glyphs.up}{sent}", use, width)
    charts = ((2 + 2 * height, partial(draw, height)) for height in _HEIGHTS)
    return block((0, (one,)), (22, (into, out))) + charted(44, 22, charts)


def _one_line(name: str, rates: str, use: str, width: int) -> Line:
    line: Line = ((f"{name} ", MUTED), (rates, ""))
    if cells(line) + len(f" {use}") > width:
        # The panel's title names it too.
        line = line[1:]
    return spread(line, ((use, STRONG),), width)


def _limit(link: LinkState, glyphs: Glyphs) -> str:
    limit = units.rate(link.limit_bytes_per_s.value, glyphs)
    generation, width = link.generation.value, link.width.value
    if generation is None or width is None:
        return f"of {limit}"
    return f"gen {generation:.0f} x{width:.0f} {limit}"


def _dram(state: TrafficState, width: int, glyphs: Glyphs) -> Block:
    reading, best = state.dram_bytes_per_s, state.dram_best_bytes_per_s
    if reading.value is None:
        return _missing(5, "DRAM", reading, width, glyphs)
    left: Line = (*labelled("DRAM", units.rate(reading.value, glyphs)), (" estimated", MUTED))
    line = spread(left, ((f"best {units.rate(best, glyphs)}", MUTED),), width)

    def draw(height: int) -> Lines:
        history = state.dram_history
        return (line, *chart(history, width, height, glyphs, TARGET, maximum=best))

    charts = ((1 + height, partial(draw, height)) for height in _HEIGHTS)
    return block((5, (line,))) + charted(30, 25, charts)


def disk_block(state: TrafficState, width: int, glyphs: Glyphs) -> Block:
    """Return the block of reads from disk, or the reason why they are unknown."""
    reading, faults = state.disk_bytes_per_s, state.major_faults_per_s.value
    if reading.value is None:
        return _missing(10, "disk", reading, width, glyphs)
    line: Line = labelled("disk reads", units.rate(reading.value, glyphs))
    if faults is not None:
        line = spread(line, ((f"{faults:.0f} major faults/s", MUTED),), width)

    def draw(height: int) -> Lines:
        return (line, *chart(state.disk_history, width, height, glyphs, WARNING))

    charts = ((1 + height, partial(draw, height)) for height in _HEIGHTS)
    return block((10, (line,))) + (charted(40, 30, charts) if any(state.disk_history) else ())
