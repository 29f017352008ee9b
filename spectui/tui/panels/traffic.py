"""What moves over PCIe, out of DRAM and from the disk."""

from collections.abc import Sequence
from functools import partial

from spectui.live.traffic import LinkState, TrafficState
from spectui.monitor.readings import Reading
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, block, cells, charted, growing, spread
from spectui.tui.panels.paint import (
    COMPUTE,
    MUTED,
    STRONG,
    TARGET,
    WARNING,
    chart,
    labelled,
    sentence,
    shortened,
)

_HEIGHTS = range(1, 4)


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
    """Return what is read from disk, or why that is not known."""
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
