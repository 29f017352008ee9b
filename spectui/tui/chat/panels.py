"""The live panels: does speculation pay, how good is the draft, where does a round's time go.

And those of the machine: who holds its memories; what moves over PCIe, from DRAM and disk.
"""

from collections.abc import Iterator, Sequence

from spectui.format import counted, duration_text, percent_text, time_text, times_text
from spectui.live.machine import (
    DramLimit,
    MemoryPool,
    MemoryState,
    TokenReads,
    TrafficState,
    Use,
)
from spectui.live.rounds import (
    N_MEAN,
    AcceptanceState,
    RoundState,
    VerifyCost,
)
from spectui.live.tally import Phase, ThroughputState
from spectui.monitor.bottleneck import Samples, link_use, ratio
from spectui.monitor.readings import GpuReading, HostReading
from spectui.speculative.counters import RoundTimes
from spectui.trace.terms import LOSSES, ExpectationState
from spectui.tui import draw
from spectui.tui.panel import Block, Line, Lines, Look, Panel, Part, Pen, any_of, cells, labelled

_LABEL = len("predicted ")
_NUMBER = len(" 10.00x")
_PART = len("rollback ")
_MS = len(" 1234 ms")
_COST_LABEL = len("V(n)/V(1)")
_COLUMN = 6
_KINDS = "alone", "draft"
"""Turns without and with the draft."""


class ThroughputPanel(Panel[ThroughputState]):
    """Shows whether speculation pays, now."""

    heading = "Throughput"

    def blocks(self, state: ThroughputState, pen: Pen) -> Iterator[Block]:
        """Verdict, baseline, history, prompt."""
        yield Block(0, _headline(state, pen))
        baseline = state.baseline_tokens_per_s
        alone = draw.tokens_per_s(baseline) if baseline else "not measured yet"
        minutes = state.baseline_age_min
        age: Line = ((f"{minutes} min ago", Look.MUTED),) if minutes else ()
        yield Block(10, (pen.spread(labelled("target alone", alone), age),))
        if None not in state.means:
            yield Block(20, _by_kind(state, pen))
        elif any_of(history := state.histories[state.means[0] is None]):
            # With the baseline in the picture, a gain is seen as one.
            yield Block(
                20, chart=lambda height: pen.chart(history, height, draw.per_s, maximum=baseline)
            )
        yield Block(60, _prompt(state, pen))


def _by_kind(state: ThroughputState, pen: Pen) -> Lines:
    """The history with and the one without the draft, each with the mean speed of its turns."""
    top = max(value or 0.0 for each in state.histories for value in each)
    ends = [f" {name} {draw.per_s(mean)}" for name, mean in zip(_KINDS, state.means, strict=True)]
    room = pen.width - max(map(len, ends))
    lines = (draw.spark(values, room, maximum=top)[0] for values in state.histories)
    drawn = zip(lines, (Look.TARGET, Look.DRAFT), ends, strict=True)
    return tuple(((line, look), (end, Look.MUTED)) for line, look, end in drawn)[::-1]


def _headline(state: ThroughputState, pen: Pen) -> Lines:
    if state.phase is Phase.PROMPT:
        took: Line = ((f"for {duration_text(state.prompt_s)}", Look.MUTED),)
        return (pen.spread((("reading the prompt", Look.STRONG),), took),)
    is_decoding = state.phase is Phase.DECODING
    value = state.now_tokens_per_s if is_decoding else state.turn_tokens_per_s
    if value is None:
        return pen.sentence("first round under way" if is_decoding else "no turn yet")
    factor = ratio(value, state.baseline_tokens_per_s)
    speed: Line = (
        (draw.tokens_per_s(value), Look.STRONG),
        (" now" if is_decoding else " last turn", Look.MUTED),
    )
    return (pen.spread(speed, (pen.factor(factor),)),)


def _prompt(state: ThroughputState, pen: Pen) -> Lines:
    prompt = state.prompt
    if prompt is None:
        return ()
    took = f"{counted(prompt.n_tokens, 'token')} in {time_text(prompt.seconds)}"
    if prompt.n_reused:
        took += f", {prompt.n_reused} reused"
    speed = draw.per_s(ratio(prompt.n_tokens - prompt.n_reused, prompt.seconds))
    line = pen.spread(labelled("prompt", took), ((speed, Look.MUTED),))
    if not state.n_ctx:
        return (line,)
    return (line, labelled("context", f"{state.n_used} of {counted(state.n_ctx, 'token')}"))


class ExpectationPanel(Panel[ExpectationState]):
    """Shows three speedups, and the term that costs most."""

    heading = "Expectation, all turns with these settings"

    def blocks(self, state: ExpectationState, pen: Pen) -> Iterator[Block]:
        """The speedups, and the loss."""
        if state.reason is not None:
            yield from pen.wrapped(0, state.reason)
        rows = (
            (0, "measured", state.measured, pen.factor(state.measured)[1]),
            (5, "predicted", state.predicted, Look.PLAIN),
            (15, "V(n)=V(1)", state.ideal, Look.MUTED),
        )
        top = max((value for _rank, _name, value, _look in rows if value is not None), default=0.0)
        for rank, name, value, look in rows:
            if value is not None:
                share, number = ratio(value, top) or 0.0, times_text(value).rjust(_NUMBER)
                yield Block(rank, (pen.gauge(name.ljust(_LABEL), share, number, look),))
        if state.loss is not None:
            name, condition = LOSSES[state.loss]
            loss: Line = (("loses most to ", Look.MUTED), (name, Look.STRONG))
            yield Block(10, (loss,))
            yield Block(20, pen.sentence(f"{times_text(state.without_loss)} {condition}"))


class AcceptancePanel(Panel[AcceptanceState]):
    """Shows how good the draft is."""

    heading = "Acceptance, last turn"

    def blocks(self, state: AcceptanceState, pen: Pen) -> Iterator[Block]:
        """Headline, positions, strip of rounds."""
        if state.reason is not None:
            yield from pen.wrapped(0, state.reason)
        else:
            rate, length = state.turn.acceptance_rate, state.turn.tokens_per_round
            yield Block(0, (pen.acceptance("rate", rate, length, Look.STRONG),))
            rounds: Line = ((counted(state.turn.n_rounds, "round"), Look.MUTED),)
            others: Line = ((f"positions of all {state.setting.n_rounds}", Look.MUTED),)
            is_first = state.setting.n_rounds == state.turn.n_rounds
            yield Block(20, (rounds if is_first else pen.spread(rounds, others),))
        if shares := state.setting.conditional_acceptance:
            yield Block(40, ((("by position, of all rounds that reached it", Look.MUTED),),))
            yield Block(30, pen.positions(shares))
        if state.recent:
            yield Block(10, (_strip(state.recent, pen),))
            yield Block(50, ((("■ accepted, □ rejected, ▪ no draft", Look.MUTED),),))


def _strip(recent: Sequence[tuple[int, int]], pen: Pen) -> Line:
    """The last rounds, one mark per drafted token, the newest at the end."""
    parts: list[Part] = []
    room = pen.width
    for n_drafted, n_accepted in reversed(recent):
        room -= (n_drafted or 1) + 1
        if room < 0:
            break
        # Built from the newest round on: both parts in reverse.
        parts += _marks(n_drafted, n_accepted)
    return tuple(reversed(parts))


def _marks(n_drafted: int, n_accepted: int) -> tuple[Part, ...]:
    if not n_drafted:
        return (" ", ""), ("▪", Look.MUTED)
    return (
        (" ", ""),
        ("□" * (n_drafted - n_accepted), Look.REJECTED),
        ("■" * n_accepted, Look.DRAFT),
    )


class RoundPanel(Panel[RoundState]):
    """Shows the mean of the last rounds."""

    heading = f"Round, mean of the last {N_MEAN}"

    def blocks(self, state: RoundState, pen: Pen) -> Iterator[Block]:
        """Bottleneck, parts, verify cost, history."""
        if state.times is None:
            yield from pen.wrapped(0, state.reason or "")
            return
        if state.bottleneck is not None:
            limit, reason = state.bottleneck
            line: Line = (("limited by ", Look.MUTED), (str(limit), Look.STRONG))
            beside = pen.spread(line, ((reason, Look.MUTED),))
            yield Block(10, (beside,))
            # Below it where there is no room beside it.
            yield Block(25, pen.sentence(reason) if beside == line else ())
        yield from _parts(state.times, pen)
        yield Block(12, (_total(state, state.times, pen),))
        yield Block(40, _costs(state.verify_costs, pen), is_whole=True)
        yield Block(50, chart=lambda height: pen.chart(state.history_s, height, time_text))


def _parts(times: RoundTimes, pen: Pen) -> Iterator[Block]:
    """A line per part, each where in the round it happens; those that take longest come first."""
    named = (
        ("draft", times.draft_s, Look.DRAFT),
        ("verify", times.verify_s, Look.TARGET),
        ("sample", times.sample_s, Look.PLAIN),
        ("rollback", times.rollback_s, Look.REJECTED),
        ("other", times.other_s, Look.MUTED),
    )
    room = max(pen.width - _PART - _MS, 0)
    bars = draw.stacked([part_s for _name, part_s, _look in named], times.total_s, room)
    longest = sorted((part_s for _name, part_s, _look in named), reverse=True)
    offset = 0
    for (name, part_s, look), text in zip(named, bars, strict=True):
        bar = (" " * offset + draw.SEGMENTS[0] * len(text)).ljust(room)
        number = time_text(part_s).rjust(_MS)
        offset += len(text)
        line = ((name.ljust(_PART), Look.MUTED), (bar, look), (number, ""))
        yield Block(0 if part_s >= longest[1] else 30, (line,))


def _total(state: RoundState, times: RoundTimes, pen: Pen) -> Line:
    left: Line = labelled("round", time_text(times.total_s))
    if state.batch is None or state.batch.ratio is None:
        tokens = draw.number(state.tokens_per_round, 1)
        return pen.spread(left, ((f"{tokens} tokens", ""),))
    ratio = labelled(f"V({state.batch.n_tokens})/V(1)", draw.number(state.batch.ratio))
    return pen.spread(left, ratio)


def _costs(costs: Sequence[VerifyCost], pen: Pen) -> Lines:
    """V(n)/V(1) of every batch size seen."""
    known = [cost for cost in costs if cost.ratio is not None][
        : (pen.width - _COST_LABEL) // _COLUMN
    ]
    if len(known) <= 1:
        return ()
    sizes = "".join(f"{cost.n_tokens}".rjust(_COLUMN) for cost in known)
    ratios = "".join(draw.number(cost.ratio).rjust(_COLUMN) for cost in known)
    lines: Lines = (
        (("n".ljust(_COST_LABEL), Look.MUTED), (sizes, Look.MUTED)),
        (("V(n)/V(1)".ljust(_COST_LABEL), Look.MUTED), (ratios, "")),
    )
    if known[0].at_random is None:
        return lines
    random = "".join(draw.number(cost.at_random).rjust(_COLUMN) for cost in known)
    return (*lines, (("at random".ljust(_COST_LABEL), Look.MUTED), (random, Look.MUTED)))


_LOOKS = {
    Use.TARGET: Look.TARGET,
    Use.DRAFT: Look.DRAFT,
    Use.KV: Look.CACHE,
    Use.COMPUTE: Look.COMPUTE,
    Use.OTHER: Look.MUTED,
}


class MemoryPanel(Panel[MemoryState]):
    """Shows a bar per memory, and beside it what else is known of the GPUs."""

    heading = "VRAM and RAM, now"

    def blocks(self, state: MemoryState, pen: Pen) -> Iterator[Block]:
        """Warnings, bars, GPUs, or why there is none, and the legend of the bars."""
        if state.reason is not None:
            yield from pen.wrapped(0, state.reason)
            return
        for warning in _warnings(state):
            yield from pen.wrapped(0, f"▲ {warning}", Look.WARNING)
        label = max(len(pool.name) for pool in state.pools)
        for index, pool in enumerate(state.pools):
            # RAM is the last one.
            yield Block(index and 1, (_bar(pool, label, pen),))
        yield from _gpus(state.gpus, pen)
        if (joules := state.joules_per_token) is not None:
            energy = f"{draw.number(joules, 1)} J a token"
            turn = (("this turn", Look.MUTED),)
            yield Block(17, (pen.spread(labelled("GPU energy", energy), turn),))
        for reason in dict.fromkeys(pool.reason for pool in state.pools if pool.reason):
            yield from pen.wrapped(25, reason)
        if state.resident is not None:
            share = f"at most {percent_text(state.resident)} in RAM"
            yield Block(16, (labelled("weights", share),))
        if state.gpu_reason is not None:
            # ``doctor`` prints the part in brackets.
            yield Block(18, (((state.gpu_reason.partition(" (")[0], Look.MUTED),),))
        # Without models of its own, spectui cannot tell one use from another.
        if legend := _legend(state.pools):
            yield Block(20, (legend,))


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
    """Legend of the bars; parts that no memory has are left out. Empty where all is one part."""
    used = {use for pool in pools for use, size_bytes in pool.parts if size_bytes}
    if used <= {Use.OTHER}:
        return ()
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

    heading = "PCIe, DRAM, disk, cores, now"

    def blocks(self, state: TrafficState, pen: Pen) -> Iterator[Block]:
        """Links, DRAM, bytes of a token, disk, cores."""
        gpus, host = (
            ((), None) if state.machine is None else (state.machine.gpus, state.machine.host)
        )
        yield from links(gpus, state.received_history, pen)
        yield from _dram(state, pen)
        if state.token is not None:
            yield from _token(state.token, pen)
        if host is not None:
            yield from disk(host, state.disk_history, pen)
            yield from cores(host, pen)


def links(gpus: Sequence[GpuReading], received: Samples, pen: Pen) -> Iterator[Block]:
    """Yield a line per link, and of a single one the history of what it received."""
    for gpu in gpus:
        name = "PCIe" if len(gpus) == 1 else f"PCIe {gpu.label}"
        rx, tx = gpu.pcie_rx_bytes_per_s, gpu.pcie_tx_bytes_per_s
        if rx.value is None and tx.value is None:
            yield from pen.wrapped(0, f"{name}: {rx.reason}")
            continue
        rates = labelled(name, f"↓{draw.rate(rx.value)} ↑{draw.rate(tx.value)}")
        use = labelled("link", percent_text(link_use(gpu)), Look.STRONG)
        yield Block(0, (pen.spread(rates, use),))
    if any(received):
        limit = gpus[0].pcie_limit_bytes_per_s.value
        yield Block(44, chart=lambda height: pen.chart(received, height, draw.rate, maximum=limit))


def _dram(state: TrafficState, pen: Pen) -> Iterator[Block]:
    reading, limit = state.dram_bytes_per_s, state.dram_limit
    if reading.value is None:
        yield from pen.wrapped(5, f"DRAM: {reading.reason}")
        return
    when = " estimated" if state.is_decoding else " last rounds"
    line: Line = (*labelled("DRAM", draw.rate(reading.value)), (when, Look.MUTED))
    yield Block(5, (pen.spread(line, ((_limit(limit), Look.MUTED),)),))
    if any(state.dram_history):
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
    line = labelled("token reads", read)
    yield Block(
        6, (line if cells(line) <= pen.width else labelled("token", read.replace(" + ", "+")),)
    )
    most, alone = token.at_most_tokens_per_s, token.alone_tokens_per_s
    if most is not None:
        measured = "" if alone is None else f"measured {draw.per_s(alone)}"
        speed = labelled("alone at most", draw.per_s(most))
        yield Block(7, (pen.spread(speed, ((measured, Look.MUTED),)),))
    for n, speed_then, more_bytes in token.shifted:
        predicted = labelled(f"-ncmoe {n} at most", draw.per_s(speed_then))
        beside = f"{'−+'[more_bytes > 0]}{draw.size(abs(more_bytes))} VRAM"
        yield Block(26, (pen.spread(predicted, ((beside, Look.MUTED),)),))


def cores(host: HostReading, pen: Pen, *, whose: str = "own") -> Iterator[Block]:
    """Yield how busy each core is, and how many the models and other programs take.

    Args:
        host: the machine.
        pen: lays it out.
        whose: name of the process with the models.
    """
    shares, own = host.cpu_per_core, host.process_cores.value
    if not shares:
        return
    busy = f"{sum(shares):.1f} of {len(shares)} cores"
    if own is not None:
        others = max(sum(shares) - own, 0.0)
        busy = f"{whose} {own:.1f}, others {others:.1f}"
    room = pen.width - len("CPU ") - len(busy) - 1
    bars = draw.spark(shares, len(shares), maximum=1.0)[0] if len(shares) <= room else ""
    yield Block(9, (pen.spread(labelled("CPU", bars), ((busy, Look.STRONG),)),))


def disk(host: HostReading, history: Samples, pen: Pen) -> Iterator[Block]:
    """Yield the reads from disk, or the reason why they are unknown."""
    reading, faults = host.disk_read_bytes_per_s, host.major_faults_per_s.value
    if reading.value is None:
        yield from pen.wrapped(10, f"disk: {reading.reason}")
        return
    line: Line = labelled("disk reads", draw.rate(reading.value))
    if faults is not None:
        line = pen.spread(line, ((f"{faults:.0f} major faults/s", Look.MUTED),))
    yield Block(10, (line,))
    if any(history):
        yield Block(40, chart=lambda height: pen.chart(history, height, draw.rate))
