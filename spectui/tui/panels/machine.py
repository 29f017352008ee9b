"""Panels of the machine: who holds its memories; what moves over PCIe, from DRAM and disk."""

from collections.abc import Sequence

from spectui.live.machine import MemoryPool, MemoryState, Samples, TrafficState, Use, link_use
from spectui.monitor.readings import GpuReading
from spectui.tui.glyphs import glyphs_of
from spectui.tui.panels.base import (
    Block,
    Line,
    Lines,
    Look,
    Panel,
    Pen,
    block,
    cells,
    charted,
    labelled,
)

_STYLES = {
    Use.TARGET: Look.TARGET,
    Use.DRAFT: Look.DRAFT,
    Use.KV: Look.CACHE,
    Use.COMPUTE: Look.COMPUTE,
    Use.OTHER: Look.MUTED,
}
_LABEL = len("# compute ")
_COLUMN = len(" 123.4 MB ")
_HEIGHTS = range(1, 4)


class MemoryPanel(Panel[MemoryState]):
    """Shows a bar per memory."""

    heading = "VRAM and RAM"

    def blocks(self, state: MemoryState, pen: Pen) -> Sequence[Block]:
        """Bars, each with its warning; why there is no GPU; the parts, if they are known."""
        if state.reason is not None:
            return [block((0, pen.sentence(state.reason)))]
        blocks: list[Block] = []
        for pool in state.pools:
            blocks.append(block((0, (_bar(pool, pen),))))
            if pool.warning is not None:
                warning = f"{pen.warning} {pool.warning}"
                blocks.append(pen.prose(10, warning, look=Look.WARNING, step=20))
            if pool.reason is not None:
                blocks.append(pen.prose(25, pool.reason))
        if state.gpu_reason is not None:
            blocks.append(pen.prose(25, state.gpu_reason))
        if all(len(pool.parts) == len(Use) for pool in state.pools):
            table = _table(state.pools[: (pen.width - _LABEL) // _COLUMN], pen)
            blocks.append(block((20, (_legend(pen),)), (40, table)))
        return blocks

    def alert(self) -> str | None:
        """Return the first warning, where all lines are needed for the bars."""
        pools = self.state.pools if self.state is not None else ()
        warnings = [pool.warning for pool in pools if pool.warning is not None]
        if not warnings or self.size.height > len(pools):
            return None
        return f"{glyphs_of(self).warning} {warnings[0]}"


def _bar(pool: MemoryPool, pen: Pen) -> Line:
    label = f"{pool.name} ".ljust(len("VRAM "))
    numbers = " " + pen.used_of(pool.used_bytes, pool.total_bytes)
    room = max(pen.width - len(label) - len(numbers), 0)
    sizes = [size_bytes for _use, size_bytes in pool.parts]
    bars = pen.stacked(sizes, pool.total_bytes or sum(sizes), room)
    rest = room - sum(map(len, bars))
    filled = ((text, _STYLES[use]) for text, (use, _size) in zip(bars, pool.parts, strict=True))
    return (label, Look.MUTED), *filled, (" " * rest, ""), (numbers, "")


def _legend(pen: Pen) -> Line:
    return tuple(
        part
        for use, filling in zip(Use, pen.segments, strict=False)
        for part in ((filling, _STYLES[use]), (f"{use} ", Look.MUTED))
    )


def _table(pools: Sequence[MemoryPool], pen: Pen) -> Lines:
    """Bytes by use, a column per memory."""
    names = "".join(pool.name.rjust(_COLUMN) for pool in pools)
    rows: list[Line] = [(("".ljust(_LABEL) + names, Look.MUTED),)]
    for index, (use, filling) in enumerate(zip(Use, pen.segments, strict=False)):
        sizes = (pen.size(pool.parts[index][1]).rjust(_COLUMN) for pool in pools)
        rows.append(
            (
                (f"{filling} ", _STYLES[use]),
                (str(use).ljust(_LABEL - 2), Look.MUTED),
                ("".join(sizes), Look.PLAIN),
            )
        )
    free = (pen.size(pool.free_bytes).rjust(_COLUMN) for pool in pools)
    rows.append((("  free".ljust(_LABEL), Look.MUTED), ("".join(free), Look.PLAIN)))
    return tuple(rows)


class TrafficPanel(Panel[TrafficState]):
    """Shows rates with their histories."""

    heading = "PCIe, DRAM, disk"

    def blocks(self, state: TrafficState, pen: Pen) -> Sequence[Block]:
        """Links, or why there are none; DRAM; disk."""
        return (*link_blocks(state, pen), _dram(state, pen), disk_block(state, pen))


def link_blocks(state: TrafficState, pen: Pen) -> list[Block]:
    """Return the links, or why there are none."""
    blocks: list[Block] = []
    if state.gpu_reason is not None:
        blocks.append(pen.prose(15, f"PCIe: {state.gpu_reason}", step=10))
    for gpu, history in zip(state.links, state.link_history, strict=True):
        name = "PCIe" if len(state.links) == 1 else f"PCIe {gpu.index}"
        blocks.append(_link(gpu, history, name, pen))
    return blocks


def _link(gpu: GpuReading, history: tuple[Samples, Samples], name: str, pen: Pen) -> Block:
    rx, tx = gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s
    if rx.value is None and tx.value is None:
        return pen.prose(0, f"{name}: {rx.reason}", step=20)
    received, sent = pen.rate(rx.value), pen.rate(tx.value)
    use, limit = pen.percent(link_use(gpu)), gpu.pcie_limit_bytes_per_s.value
    into = pen.spread(
        labelled(f"{name} {pen.down} received", received), ((f"{use} used", Look.STRONG),)
    )
    out = pen.spread(labelled(f"{name} {pen.up} sent", sent), ((_limit(gpu, pen), Look.MUTED),))

    def draw(height: int) -> Lines:
        above = pen.chart(history[0], height // 2, Look.TARGET, maximum=limit)
        below = pen.chart(history[1], height // 2, Look.COMPUTE, maximum=limit)
        return (into, *above, out, *below)

    one = _one_line(name, f"{pen.down}{received} {pen.up}{sent}", use, pen)
    both = charted(44, 22, range(2, 7, 2), draw, n_more=2)
    return block((0, (one,)), (22, (into, out))) + both


def _one_line(name: str, rates: str, use: str, pen: Pen) -> Line:
    line: Line = ((f"{name} ", Look.MUTED), (rates, ""))
    if cells(line) + len(f" {use}") > pen.width:
        # The panel's title names it too.
        line = line[1:]
    return pen.spread(line, ((use, Look.STRONG),))


def _limit(gpu: GpuReading, pen: Pen) -> str:
    limit = pen.rate(gpu.pcie_limit_bytes_per_s.value)
    generation, lanes = gpu.pcie_generation.value, gpu.pcie_width.value
    if generation is None or lanes is None:
        return f"of {limit}"
    return f"gen {generation:.0f} x{lanes:.0f} {limit}"


def _dram(state: TrafficState, pen: Pen) -> Block:
    reading, best = state.dram_bytes_per_s, state.dram_best_bytes_per_s
    if reading.value is None:
        return pen.prose(5, f"DRAM: {reading.reason}", step=20)
    left: Line = (*labelled("DRAM", pen.rate(reading.value)), (" estimated", Look.MUTED))
    line = pen.spread(left, ((f"best {pen.rate(best)}", Look.MUTED),))

    def draw(height: int) -> Lines:
        return (line, *pen.chart(state.dram_history, height, Look.TARGET, maximum=best))

    return block((5, (line,))) + charted(30, 25, _HEIGHTS, draw, n_more=1)


def disk_block(state: TrafficState, pen: Pen) -> Block:
    """Return the block of reads from disk, or the reason why they are unknown."""
    reading, faults = state.disk_bytes_per_s, state.major_faults_per_s.value
    if reading.value is None:
        return pen.prose(10, f"disk: {reading.reason}", step=20)
    line: Line = labelled("disk reads", pen.rate(reading.value))
    if faults is not None:
        line = pen.spread(line, ((f"{faults:.0f} major faults/s", Look.MUTED),))

    def draw(height: int) -> Lines:
        return (line, *pen.chart(state.disk_history, height, Look.WARNING))

    charts = charted(40, 30, _HEIGHTS, draw, n_more=1) if any(state.disk_history) else ()
    return block((10, (line,))) + charts
