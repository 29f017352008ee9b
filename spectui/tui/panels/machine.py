"""Panels of the machine: who holds its memories; what moves over PCIe, from DRAM and disk."""

from collections.abc import Iterator, Sequence

from spectui.format import percent_text
from spectui.live.machine import (
    DramLimit,
    MemoryPool,
    MemoryState,
    TokenReads,
    TrafficState,
    Use,
    link_use,
)
from spectui.monitor.readings import GpuReading
from spectui.tui import draw
from spectui.tui.panels.base import Block, Line, Look, Panel, Pen, labelled

_LOOKS = {
    Use.TARGET: Look.TARGET,
    Use.DRAFT: Look.DRAFT,
    Use.KV: Look.CACHE,
    Use.COMPUTE: Look.COMPUTE,
    Use.OTHER: Look.MUTED,
}


class MemoryPanel(Panel[MemoryState]):
    """Shows a bar per memory, and beside it what else is known of the GPUs."""

    heading = "VRAM and RAM"

    def blocks(self, state: MemoryState, pen: Pen) -> Iterator[Block]:
        """Warnings, bars, GPUs, or why there is none, and the legend of the bars."""
        if state.reason is not None:
            yield from pen.told(0, state.reason)
            return
        for warning in _warnings(state):
            yield from pen.told(0, f"▲ {warning}", Look.WARNING)
        label = max(len(pool.name) for pool in state.pools)
        for index, pool in enumerate(state.pools):
            # RAM is the last one.
            yield Block(index and 1, (_bar(pool, label, pen),))
        yield from _gpus(state.gpus, pen)
        for reason in dict.fromkeys(pool.reason for pool in state.pools if pool.reason):
            yield from pen.told(25, reason)
        if state.gpu_reason is not None:
            # Doctor tells what is in brackets.
            yield Block(18, (((state.gpu_reason.partition(" (")[0], Look.MUTED),),))
        yield Block(20, (_legend(state.pools),))


def _warnings(state: MemoryState) -> Iterator[str]:
    yield from (pool.warning for pool in state.pools if pool.warning is not None)
    for gpu in state.gpus:
        faults = [str(one) for one in gpu.throttled_by.value or () if one.is_fault]
        if faults:
            name = "the GPU" if len(state.gpus) == 1 else _name(gpu)
            yield f"{name} is slowed by {' and '.join(faults)}"


def _bar(pool: MemoryPool, longest_name: int, pen: Pen) -> Line:
    label = f"{pool.name} ".ljust(max(longest_name, len("VRAM")) + 1)
    numbers = " " + draw.used_of(pool.used_bytes, pool.total_bytes)
    room = max(pen.width - len(label) - len(numbers), 0)
    sizes = [size_bytes for _use, size_bytes in pool.parts]
    bars = draw.stacked(sizes, pool.total_bytes or sum(sizes), room)
    rest = room - sum(map(len, bars))
    filled = ((text, _LOOKS[use]) for text, (use, _size) in zip(bars, pool.parts, strict=True))
    return (label, Look.MUTED), *filled, (draw.TRACK * rest, Look.MUTED), (numbers, "")


def _legend(pools: Sequence[MemoryPool]) -> Line:
    """Legend of the bars; parts that no memory has are left out."""
    used = {use for pool in pools for use, size_bytes in pool.parts if size_bytes}
    return tuple(
        part
        for use, filling in zip(Use, draw.SEGMENTS, strict=False)
        if use in used
        for part in ((filling, _LOOKS[use]), (f"{use} ", Look.MUTED))
    )


def _gpus(gpus: Sequence[GpuReading], pen: Pen) -> Iterator[Block]:
    """Yield how busy and hot each GPU is; nothing of one of which the driver tells none of it."""
    for gpu in gpus:
        readings = gpu.utilisation, gpu.power_w, gpu.temperature_c
        if all(reading.value is None for reading in readings):
            continue
        busy = f"{percent_text(gpu.utilisation.value)} busy"
        power, heat = gpu.power_w.value, gpu.temperature_c.value
        watts = [] if power is None else [f"{power:.0f} W"]
        taken = ", ".join([*watts, *([] if heat is None else [f"{heat:.0f} °C"])])
        name = "GPU" if len(gpus) == 1 else _name(gpu)
        yield Block(15, (pen.spread(labelled(name, busy), ((taken, Look.MUTED),)),))


def _name(gpu: GpuReading) -> str:
    return gpu.label if gpu.devices else f"GPU {gpu.label}"


class TrafficPanel(Panel[TrafficState]):
    """Shows rates with their histories."""

    heading = "PCIe, DRAM, disk, cores"

    def blocks(self, state: TrafficState, pen: Pen) -> Iterator[Block]:
        """Links, DRAM, bytes of a token, disk, cores."""
        yield from _links(state, pen)
        yield from _dram(state, pen)
        if state.token is not None:
            yield from _token(state.token, pen)
        yield from _disk(state, pen)
        if state.cpu_per_core:
            yield _cores(state.cpu_per_core, pen)


def _links(state: TrafficState, pen: Pen) -> Iterator[Block]:
    """Yield a line per link, and of a single one the history of what it received."""
    for gpu in state.links:
        name = "PCIe" if len(state.links) == 1 else f"PCIe {gpu.label}"
        rx, tx = gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s
        if rx.value is None and tx.value is None:
            yield from pen.told(0, f"{name}: {rx.reason}")
            continue
        rates = labelled(name, f"↓{draw.rate(rx.value)} ↑{draw.rate(tx.value)}")
        use = percent_text(link_use(gpu))
        yield Block(0, (pen.spread(rates, ((use, Look.STRONG),)),))
    if len(state.links) == 1 and any(state.link_history[0][0]):
        limit = state.links[0].pcie_limit_bytes_per_s.value
        received = state.link_history[0][0]
        yield Block(44, chart=lambda height: pen.chart(received, height, draw.rate, maximum=limit))


def _dram(state: TrafficState, pen: Pen) -> Iterator[Block]:
    reading, limit = state.dram_bytes_per_s, state.dram_limit
    if reading.value is None:
        yield from pen.told(5, f"DRAM: {reading.reason}")
        return
    line: Line = (*labelled("DRAM", draw.rate(reading.value)), (" estimated", Look.MUTED))
    yield Block(5, (pen.spread(line, ((_limit(limit), Look.MUTED),)),))
    top = None if limit is None else limit.bytes_per_s
    yield Block(
        28, chart=lambda height: pen.chart(state.dram_history, height, draw.rate, maximum=top)
    )


def _limit(limit: DramLimit | None) -> str:
    """The measured limit of RAM, or the most that was seen."""
    if limit is None:
        return "limit not known"
    return f"{'of' if limit.is_measured else 'best'} {draw.rate(limit.bytes_per_s)}"


def _token(token: TokenReads, pen: Pen) -> Iterator[Block]:
    """Bytes of a token, and below them the speed that RAM allows and the one that there is."""
    places = [("RAM", token.ram_bytes), ("VRAM", token.gpu_bytes)]
    read = " + ".join(f"{draw.size(size)} {name}" for name, size in places if size)
    yield Block(6, (labelled("token reads", read),))
    most, alone = token.at_most_tokens_per_s, token.alone_tokens_per_s
    if most is not None:
        measured = "" if alone is None else f"measured {draw.per_s(alone)}"
        speed = labelled("alone at most", draw.per_s(most))
        yield Block(7, (pen.spread(speed, ((measured, Look.MUTED),)),))


def _cores(shares: Sequence[float], pen: Pen) -> Block:
    """Return how busy each core is, and all together."""
    busy = f"{sum(shares):.1f} of {len(shares)} cores"
    bars = draw.spark(shares, min(len(shares), pen.width // 2), maximum=1.0)[0]
    return Block(9, (pen.spread(labelled("CPU", bars), ((busy, Look.STRONG),)),))


def _disk(state: TrafficState, pen: Pen) -> Iterator[Block]:
    """Yield the reads from disk, or the reason why they are unknown."""
    reading, faults = state.disk_bytes_per_s, state.major_faults_per_s.value
    if reading.value is None:
        yield from pen.told(10, f"disk: {reading.reason}")
        return
    line: Line = labelled("disk reads", draw.rate(reading.value))
    if faults is not None:
        line = pen.spread(line, ((f"{faults:.0f} major faults/s", Look.MUTED),))
    yield Block(10, (line,))
    if any(state.disk_history):
        yield Block(40, chart=lambda height: pen.chart(state.disk_history, height, draw.rate))
