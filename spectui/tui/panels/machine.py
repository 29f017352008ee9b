"""Panels of the machine: who holds its memories; what moves over PCIe, from DRAM and disk."""

from collections.abc import Iterator, Sequence
from functools import partial

from spectui.live.machine import (
    DramLimit,
    MemoryPool,
    MemoryState,
    Samples,
    TokenReads,
    TrafficState,
    Use,
    link_use,
)
from spectui.live.rounds import ratio
from spectui.monitor.readings import GpuReading
from spectui.tui import draw
from spectui.tui.panels.base import (
    Block,
    Form,
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
_LINK_HEIGHTS = range(2, 7, 2)
_CORES_RANK = 78
"""How far behind their sum each core stands."""
_FEW = 2
"""Memories of a machine with one GPU: a line each is what there is room for."""


class MemoryPanel(Panel[MemoryState]):
    """Shows a bar per memory, and beside it what else is known of the GPUs."""

    heading = "VRAM and RAM"

    def blocks(self, state: MemoryState, pen: Pen) -> Sequence[Block]:
        """Bars, GPUs, warnings; why there is no GPU; the parts, if they are known."""
        if state.reason is not None:
            return [block((0, pen.sentence(state.reason)))]
        blocks = [*_bars(state.pools, pen), gpu_block(state.gpus, pen, rank=15)]
        warnings = _warnings(state)
        if warnings:
            text = f"▲ {_and_more(warnings)}"
            blocks.append(pen.prose(10, text, look=Look.WARNING, step=20))
        blocks += [pen.prose(25, reason) for reason in _reasons(state.pools)]
        if state.gpu_reason is not None:
            blocks.append(no_gpu_block(state.gpu_reason, pen, rank=18))
        if all(len(pool.parts) == len(Use) for pool in state.pools):
            table = _table(_columns(state.pools, (pen.width - _LABEL) // _COLUMN))
            blocks.append(block((20, (_legend(state.pools),)), (40, table)))
        return blocks

    def alert(self) -> str | None:
        """Return the first warning, where all lines are needed for the bars."""
        state = MemoryState() if self.state is None else self.state
        warnings = _warnings(state)
        if not warnings or self.size.height > min(len(state.pools), _FEW):
            return None
        return f"▲ {_and_more(warnings)}"


def no_gpu_block(reason: str, pen: Pen, *, rank: int) -> Block:
    """Return why there is no GPU, on one line; doctor tells what is in brackets."""
    short, *_ = reason.partition(" (")
    told = next((one for one in (f"no GPU: {short}", short) if len(one) <= pen.width), short)
    return block((rank, (((told, Look.MUTED),),)))


def _warnings(state: MemoryState) -> list[str]:
    full = [pool.warning for pool in state.pools if pool.warning is not None]
    held = (_held_back(gpu, alone=len(state.gpus) == 1) for gpu in state.gpus)
    return [*full, *(text for text in held if text is not None)]


def _and_more(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{texts[0]}, and {len(texts) - 1} more"


def _reasons(pools: Sequence[MemoryPool]) -> Iterator[str]:
    """Each reason once, with the memories that it is about where there are others."""
    for reason in dict.fromkeys(pool.reason for pool in pools if pool.reason is not None):
        about = [pool.name for pool in pools if pool.reason == reason]
        yield reason if len(pools) <= _FEW else f"{', '.join(about)}: {reason}"


def _bars(pools: Sequence[MemoryPool], pen: Pen) -> Iterator[Block]:
    """A line per memory; where there is no room for so many, one of all GPUs."""
    label = max(len(pool.name) for pool in pools)
    bars = tuple(_bar(pool, label, pen) for pool in pools)
    if len(pools) <= _FEW:
        yield from (block((0, (bar,))) for bar in bars)
        return
    overview = _overview(pools[:-1], pen)
    yield block((0, (overview,)), (0, (overview, _bar(pools[-1], 0, pen))), (3, bars))


def _overview(pools: Sequence[MemoryPool], pen: Pen) -> Line:
    """One character per GPU, and their sum."""
    shares = [ratio(pool.used_bytes, pool.total_bytes) for pool in pools]
    total = _sum([pool.total_bytes for pool in pools])
    used = _sum([pool.used_bytes for pool in pools])
    levels = draw.spark(shares, len(shares), maximum=1.0)[0]
    return pen.spread(labelled("VRAM", levels), ((draw.used_of(used, total), ""),))


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _columns(pools: Sequence[MemoryPool], n: int) -> Sequence[MemoryPool]:
    """The memories, in at most ``n`` columns: those of the GPUs together where they are more."""
    if len(pools) <= n or len(pools) <= _FEW:
        return pools[:n]
    gpus = pools[:-1]
    parts = tuple((use, sum(pool.parts[i][1] for pool in gpus)) for i, use in enumerate(Use))
    total, free = (
        _sum([getattr(pool, name) for pool in gpus]) for name in ("total_bytes", "free_bytes")
    )
    together = MemoryPool(name="VRAM", total_bytes=total, parts=parts, free_bytes=free)
    return (together, pools[-1])[:n]


def _bar(pool: MemoryPool, longest_name: int, pen: Pen) -> Line:
    label = f"{pool.name} ".ljust(max(longest_name, len("VRAM")) + 1)
    numbers = " " + draw.used_of(pool.used_bytes, pool.total_bytes)
    room = max(pen.width - len(label) - len(numbers), 0)
    sizes = [size_bytes for _use, size_bytes in pool.parts]
    bars = draw.stacked(sizes, pool.total_bytes or sum(sizes), room)
    rest = room - sum(map(len, bars))
    filled = ((text, _STYLES[use]) for text, (use, _size) in zip(bars, pool.parts, strict=True))
    return (label, Look.MUTED), *filled, (draw.TRACK * rest, Look.MUTED), (numbers, "")


def _legend(pools: Sequence[MemoryPool]) -> Line:
    """Legend of the bars; parts that no memory has are left out."""
    used = {use for pool in pools for use, size_bytes in pool.parts if size_bytes}
    return tuple(
        part
        for use, filling in zip(Use, draw.SEGMENTS, strict=False)
        if use in used
        for part in ((filling, _STYLES[use]), (f"{use} ", Look.MUTED))
    )


def _table(pools: Sequence[MemoryPool]) -> Lines:
    """Bytes by use, a column per memory."""
    names = "".join(pool.name.rjust(_COLUMN) for pool in pools)
    rows: list[Line] = [(("".ljust(_LABEL) + names, Look.MUTED),)]
    for index, (use, filling) in enumerate(zip(Use, draw.SEGMENTS, strict=False)):
        sizes = (draw.size(pool.parts[index][1]).rjust(_COLUMN) for pool in pools)
        rows.append(
            (
                (f"{filling} ", _STYLES[use]),
                (str(use).ljust(_LABEL - 2), Look.MUTED),
                ("".join(sizes), Look.PLAIN),
            )
        )
    free = (draw.size(pool.free_bytes).rjust(_COLUMN) for pool in pools)
    rows.append((("  free".ljust(_LABEL), Look.MUTED), ("".join(free), Look.PLAIN)))
    return tuple(rows)


def gpu_block(gpus: Sequence[GpuReading], pen: Pen, *, rank: int) -> Block:
    """Return how busy, hot and fast the GPUs are.

    A line for all or one each; of a single one its clocks and its name as well. Nothing of a GPU of
    which the driver tells none of it.
    """
    known = [gpu for gpu in gpus if _is_told(gpu)]
    if len(known) == 1:
        return _gpu(known[0], pen, rank)
    if not known:
        return ()
    rows = tuple(_gpu_line(gpu, _name(gpu), pen) for gpu in known)
    return block((rank, (_gpu_overview(known, pen),)), (rank + 9, rows))


def _is_told(gpu: GpuReading) -> bool:
    readings = gpu.utilisation, gpu.power_w, gpu.temperature_c
    return any(reading.value is not None for reading in readings)


def _gpu(gpu: GpuReading, pen: Pen, rank: int) -> Block:
    line, clocks = _gpu_line(gpu, "GPU", pen), _clocks(gpu)
    limits = [f"at {one}" for one in gpu.throttled_by.value or () if not one.is_fault]
    right: Line = ((limits[0], Look.MUTED),) if limits else ()
    two: Lines = (line, clocks) if clocks else (line,)
    three: Lines = (*two, pen.spread(((draw.one_line(gpu.name), Look.MUTED),), right))
    return block((rank, (line,)), (rank + 15, two), (rank + 28, three))


def _name(gpu: GpuReading) -> str:
    return gpu.label if gpu.devices else f"GPU {gpu.label}"


def _gpu_line(gpu: GpuReading, name: str, pen: Pen) -> Line:
    busy = f"{draw.percent(gpu.utilisation.value)} busy"
    taken = _taken(gpu.power_w.value, gpu.temperature_c.value)
    return pen.spread(labelled(name, busy), ((taken, Look.MUTED),))


def _taken(power_w: float | None, heat_c: float | None) -> str:
    parts = (
        None if power_w is None else f"{power_w:.0f} W",
        None if heat_c is None else f"{heat_c:.0f} °C",
    )
    return ", ".join(part for part in parts if part is not None)


def _gpu_overview(gpus: Sequence[GpuReading], pen: Pen) -> Line:
    """One character per GPU, the busiest, their power and the hottest."""
    shares = [gpu.utilisation.value for gpu in gpus]
    most = max((share for share in shares if share is not None), default=None)
    heat = max((gpu.temperature_c.value or 0.0 for gpu in gpus), default=0.0)
    levels = draw.spark(shares, len(shares), maximum=1.0)[0]
    left: Line = (*labelled("GPU", levels), (f" {draw.percent(most)}", Look.STRONG))
    taken = _taken(_sum([gpu.power_w.value for gpu in gpus]), heat or None)
    return pen.spread(left, ((taken, Look.MUTED),))


def _clocks(gpu: GpuReading) -> Line:
    clocks = ("clock", gpu.clock_hz.value), ("memory", gpu.memory_clock_hz.value)
    known = [labelled(name, f"{draw.clock(hz)}  ") for name, hz in clocks if hz is not None]
    return tuple(part for parts in known for part in parts)


def _held_back(gpu: GpuReading, *, alone: bool) -> str | None:
    faults = [str(one) for one in gpu.throttled_by.value or () if one.is_fault]
    name = "the GPU" if alone else _name(gpu)
    return f"{name} is slowed by {' and '.join(faults)}" if faults else None


class TrafficPanel(Panel[TrafficState]):
    """Shows rates with their histories."""

    heading = "PCIe, DRAM, disk, cores"

    def blocks(self, state: TrafficState, pen: Pen) -> Sequence[Block]:
        """Links, or why there are none; DRAM; disk."""
        return (
            *link_blocks(state, pen),
            _dram(state, pen),
            _token(state.token, pen),
            disk_block(state, pen),
            cores_block(state.cpu_per_core, pen, rank=9),
        )


def link_blocks(state: TrafficState, pen: Pen) -> list[Block]:
    """Return the links; why there are no GPUs is told by the panel of their memory."""
    if not state.links:
        return []
    return [_link(state, pen) if len(state.links) == 1 else _links(state, pen)]


def _links(state: TrafficState, pen: Pen) -> Block:
    """One line of all, a line each, or charts of each."""
    names = [f"PCIe {gpu.label}" for gpu in state.links]
    rows = tuple(map(partial(_link_line, pen=pen), state.links, names))

    def chart(height: int) -> Lines:
        each = zip(state.links, state.link_history, names, strict=True)
        return tuple(line for link in each for line in _link_chart(*link, height, pen))

    charts = tuple(
        Form(44 + 22 * index, (2 + height) * len(names), partial(chart, height))
        for index, height in enumerate(_LINK_HEIGHTS)
    )
    return (*block((0, (_link_overview(state.links, pen),)), (22, rows)), *charts)


def _link_overview(gpus: Sequence[GpuReading], pen: Pen) -> Line:
    """All links together, and the share that the busiest takes of its limit."""
    received, sent = (
        [reading.value for reading in readings if reading.value is not None]
        for readings in zip(
            *((gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s) for gpu in gpus), strict=True
        )
    )
    if not received and not sent:
        return ((f"PCIe: {gpus[0].pcie_rx_bytes_per_s.reason}", Look.MUTED),)
    use = max((share for gpu in gpus if (share := link_use(gpu)) is not None), default=None)
    rates = f"↓{draw.rate(sum(received))} ↑{draw.rate(sum(sent))}"
    return _one_line("PCIe", rates, draw.percent(use), pen)


def _link_line(gpu: GpuReading, name: str, pen: Pen) -> Line:
    rx, tx = gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s
    if rx.value is None and tx.value is None:
        return ((f"{name}: {rx.reason}", Look.MUTED),)
    rates = f"↓{draw.rate(rx.value)} ↑{draw.rate(tx.value)}"
    return _one_line(name, rates, draw.percent(link_use(gpu)), pen)


def _link(state: TrafficState, pen: Pen) -> Block:
    (gpu,), (history,) = state.links, state.link_history
    rx, tx = gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s
    if rx.value is None and tx.value is None:
        return pen.prose(0, f"PCIe: {rx.reason}", step=20)

    def chart(height: int) -> Lines:
        return _link_chart(gpu, history, "PCIe", height, pen)

    both = charted(44, 22, _LINK_HEIGHTS, chart, n_more=2)
    return block((0, (_link_line(gpu, "PCIe", pen),)), (22, chart(0))) + both


def _link_chart(
    gpu: GpuReading, history: tuple[Samples, Samples], name: str, height: int, pen: Pen
) -> Lines:
    """Both directions, each with half of ``height`` for its history."""
    limit = gpu.pcie_limit_bytes_per_s.value
    use: Line = ((f"{draw.percent(link_use(gpu))} used", Look.STRONG),)
    into = labelled(f"{name} ↓ received", draw.rate(gpu.pcie_rx_bytes_per_s.value))
    out = labelled(f"{name} ↑ sent", draw.rate(gpu.pcie_tx_bytes_per_s.value))
    return (
        pen.spread(into, use),
        *pen.chart(history[0], height // 2, draw.rate, maximum=limit),
        pen.spread(out, ((_limit(gpu), Look.MUTED),)),
        *pen.chart(history[1], height // 2, draw.rate, maximum=limit),
    )


def _one_line(name: str, rates: str, use: str, pen: Pen) -> Line:
    line: Line = ((f"{name} ", Look.MUTED), (rates, ""))
    if cells(line) + len(f" {use}") > pen.width:
        # The panel's title names it too.
        line = line[1:]
    return pen.spread(line, ((use, Look.STRONG),))


def _limit(gpu: GpuReading) -> str:
    limit = draw.rate(gpu.pcie_limit_bytes_per_s.value)
    generation, lanes = gpu.pcie_generation.value, gpu.pcie_width.value
    if generation is None or lanes is None:
        return f"of {limit}"
    return f"gen {generation:.0f} x{lanes:.0f} {limit}"


def _dram(state: TrafficState, pen: Pen) -> Block:
    reading, limit = state.dram_bytes_per_s, state.dram_limit
    if reading.value is None:
        return pen.prose(5, f"DRAM: {reading.reason}", step=20)
    left: Line = (*labelled("DRAM", draw.rate(reading.value)), (" estimated", Look.MUTED))
    line, more = _beside_limit(left, limit, pen)
    top = None if limit is None else limit.bytes_per_s

    def chart(height: int) -> Lines:
        chart = pen.chart(state.dram_history, height, draw.rate, maximum=top)
        return (line, *more, *chart)

    charts = charted(30, 25, _HEIGHTS, chart, n_more=1 + len(more))
    return block((5, (line,)), (28, (line, *more))) + charts


def _token(token: TokenReads | None, pen: Pen) -> Block:
    """Bytes of a token, beside or above the speed that RAM allows and the one that there is."""
    if token is None:
        return ()
    places = [("RAM", token.ram_bytes), ("VRAM", token.gpu_bytes)]
    read = " + ".join(f"{draw.size(size)} {name}" for name, size in places if size)
    line: Line = labelled("token reads", read)
    most, alone = token.at_most_tokens_per_s, token.alone_tokens_per_s
    if most is None:
        return block((6, (line,)))
    bound: Line = ((f"at most {draw.per_s(most)}", Look.MUTED),)
    short = pen.spread(line, bound)
    if short == line:
        short = pen.spread(labelled("token reads", f"{draw.size(token.ram_bytes)} RAM"), bound)
    measured = "" if alone is None else f"measured {draw.per_s(alone)}"
    speed = labelled("alone at most", draw.per_s(most))
    return block((6, (short,)), (15, (line, pen.spread(speed, ((measured, Look.MUTED),)))))


def _beside_limit(left: Line, limit: DramLimit | None, pen: Pen) -> tuple[Line, Lines]:
    """A reading, with its limit at the right; and a line about that, if it says too little."""
    if limit is None or not limit.is_measured:
        rate = draw.rate(None if limit is None else limit.bytes_per_s)
        return pen.spread(left, ((f"best {rate}", Look.MUTED),)), ()
    rate = f"of {draw.rate(limit.bytes_per_s)}"
    full = pen.spread(left, ((f"{rate} measured", Look.MUTED),))
    if full != left:
        return full, ()
    return pen.spread(left, ((rate, Look.MUTED),)), (((f"{rate} measured", Look.MUTED),),)


def cores_block(shares: Sequence[float], pen: Pen, *, rank: int) -> Block:
    """Return how busy each core is, and all together."""
    if not shares:
        return ()
    busy = f"{sum(shares):.1f} of {len(shares)} cores"
    bars = draw.spark(shares, min(len(shares), pen.width // 2), maximum=1.0)[0]
    line = pen.spread((*labelled("CPU", bars), ("", "")), ((busy, Look.STRONG),))
    rows: Lines = tuple(
        pen.gauge(f"core {index:<3} ", share, draw.percent(share).rjust(len(" 100 %")))
        for index, share in enumerate(shares)
    )
    return block((rank, (line,)), (rank + _CORES_RANK, (line, *rows)))


def disk_block(state: TrafficState, pen: Pen) -> Block:
    """Return the block of reads from disk, or the reason why they are unknown."""
    reading, faults = state.disk_bytes_per_s, state.major_faults_per_s.value
    if reading.value is None:
        return pen.prose(10, f"disk: {reading.reason}", step=20)
    line: Line = labelled("disk reads", draw.rate(reading.value))
    if faults is not None:
        line = pen.spread(line, ((f"{faults:.0f} major faults/s", Look.MUTED),))

    def chart(height: int) -> Lines:
        return (line, *pen.chart(state.disk_history, height, draw.rate))

    charts = charted(40, 30, _HEIGHTS, chart, n_more=1) if any(state.disk_history) else ()
    return block((10, (line,))) + charts
