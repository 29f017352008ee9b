"""Panels of an attached server: its work, the server itself, and the machine under it."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from spectui.format import bytes_text, count_text, counted
from spectui.live.machine import TrafficState
from spectui.server.metrics import DraftCounts
from spectui.server.replies import SlotPhase, SlotReply
from spectui.server.watch.sample import HostState, ServerFacts, Work
from spectui.server.watch.tracker import AttachState
from spectui.tui import draw
from spectui.tui.panels.base import (
    Block,
    Line,
    Lines,
    Look,
    Panel,
    Pen,
    any_of,
    block,
    cells,
    charted,
    labelled,
)
from spectui.tui.panels.machine import (
    cores_block,
    disk_block,
    gpu_block,
    link_blocks,
    no_gpu_block,
)

_SPEED_HEIGHTS = range(1, 41)
_RATE_HEIGHTS = range(1, 4)
_SMALLEST_BAR = 4
_INDENT = 3
_LONGEST_LIST = 8
_SPEED = len(" 123.4/s")
_LOOKS = {
    SlotPhase.GENERATING: Look.STRONG,
    SlotPhase.PROMPT: Look.PLAIN,
    SlotPhase.IDLE: Look.MUTED,
}
_PHASE = max(map(len, SlotPhase))
_FROM_BUSY, _FROM_IDLE, _FROM_DETAILS = 10, 10_000, 20_000
"""Ranks: all that work are there before one that rests."""


class ServedPanel(Panel[AttachState]):
    """Shows how fast it generates, now and on average, and how fast it reads prompts."""

    heading = "Throughput"

    def blocks(self, state: AttachState, pen: Pen) -> Sequence[Block]:
        """Headline, what is missing, history, averages, prompts, counts."""
        counters = state.sample.counters.value
        generated = read = None
        if counters is not None:
            generated, read = counters.tokens_per_s, counters.prompt_tokens_per_s
        return (
            block((0, _headline(state, pen))),
            *_missing(state, pen),
            block((10, _pair("generation", state.last_tokens_per_s, generated, pen))),
            _history(state, pen),
            block((20, _pair("prompts", state.last_prompt_tokens_per_s, read, pen))),
            block((40, _counts(state, pen))),
        )


def _headline(state: AttachState, pen: Pen) -> Lines:
    now, work = state.now_tokens_per_s.value, state.sample.work
    if work is Work.UNKNOWN:
        return ()
    doing: Line = ((str(work), Look.STRONG if work is not Work.IDLE else Look.MUTED),)
    if now is None or work is Work.IDLE:
        return (doing,)
    speed: Line = ((draw.tokens_per_s(now), Look.STRONG), (" now", Look.MUTED))
    return (pen.spread(speed, doing),)


def _missing(state: AttachState, pen: Pen) -> Iterator[Block]:
    """List the values that the server does not tell, once where the reason is the same for all."""
    now, counters = state.now_tokens_per_s, state.sample.counters
    reasons = [counters.reason] if counters.value is None else []
    if now.value is None and now.reason not in reasons and state.sample.work is not Work.IDLE:
        reasons.append(now.reason)
    for reason in reasons:
        yield pen.prose(2, str(reason), step=28)


def _pair(label: str, last: float | None, mean: float | None, pen: Pen) -> Lines:
    """Speed of the last request, else the mean; both where there is room."""
    if mean is None:
        return ()
    average: Line = ((f"mean {draw.tokens_per_s(mean)}", Look.MUTED),)
    if last is None:
        return (pen.spread(((label, Look.MUTED),), average),)
    line = labelled(label, draw.tokens_per_s(last))
    number, _unit = draw.tokens_per_s(mean).split(" ", 1)
    short: Line = ((f"mean {number}", Look.MUTED),)
    full = pen.spread((*line, (" last", Look.MUTED)), average)
    return (full if len(full) > len(line) + 1 else pen.spread(line, short),)


def _history(state: AttachState, pen: Pen) -> Block:
    if not any_of(state.speeds):
        return ()
    return charted(15, 10, _SPEED_HEIGHTS, lambda h: pen.chart(state.speeds, h, draw.per_s))


def _counts(state: AttachState, pen: Pen) -> Lines:
    counters = state.sample.counters.value
    if counters is None:
        return ()
    cached = counters.n_prompt_cached
    left: Line = (("generated ", Look.MUTED), (f"{counters.n_predicted:,}", Look.PLAIN))
    right: Line = (("prompt tokens ", Look.MUTED), (f"{counters.n_prompt:,}", Look.PLAIN))
    if cached:
        more: Line = (*right, (", cached ", Look.MUTED), (f"{cached:,}", Look.PLAIN))
        line = pen.spread(left, more)
        if len(line) > len(left):
            return (line,)
    return (pen.spread(left, right),)


class DraftsPanel(Panel[AttachState]):
    """Shows acceptance since the server's start, and of the requests that ended last."""

    heading = "Acceptance"

    def blocks(self, state: AttachState, pen: Pen) -> Sequence[Block]:
        """Headline, the last requests, positions, history, counts."""
        counters = state.sample.counters.value
        counts = None if counters is None else counters.drafts
        if state.sample.undrafted is not None or counts is None:
            return (pen.prose(0, state.sample.undrafted or ""),)
        return (
            block((0, _rate("rate", counts, Look.STRONG, pen))),
            block((10, _rate("last request", state.last_drafts, Look.PLAIN, pen))),
            pen.positions(counts.share_per_position, "accepted by position, of all drafts"),
            _rates(state, pen),
            block((50, _draft_counts(counts, state.sample.drafters, pen))),
        )


def _rate(label: str, counts: DraftCounts | None, look: Look, pen: Pen) -> Lines:
    if counts is None:
        return ()
    rate, length = counts.acceptance_rate, counts.mean_accepted_length
    return (pen.acceptance(label, rate, length, look),)


def _rates(state: AttachState, pen: Pen) -> Block:
    if not any_of(state.rates):
        return ()

    def chart(height: int) -> Lines:
        label: Line = (("rate of each request", Look.MUTED),)
        return (label, *pen.chart(state.rates, height, draw.number, maximum=1.0))

    return charted(70, 10, _RATE_HEIGHTS, chart, n_more=1)


def _draft_counts(counts: DraftCounts, drafters: Sequence[str], pen: Pen) -> Lines:
    text = (
        f"{counts.n_accepted:,} of {counts.n_drafted:,} tokens "
        f"in {counted(counts.n_drafts, 'draft')}"
    )
    if drafters:
        text += f" of {', '.join(drafters)}"
    return pen.sentence(text)


class SlotsPanel(Panel[AttachState]):
    """A row per slot: what it does, how much of its context is used, how fast it generates."""

    heading = "Slots"

    def blocks(self, state: AttachState, pen: Pen) -> Sequence[Block]:
        """A summary; a row per slot, those at work first if not all fit."""
        slots = state.sample.slots.value
        if slots is None:
            waiting = _waiting(state)
            why = pen.prose(0, state.sample.slots.reason or "")
            return (why, block((5, (waiting,) if waiting else ())))
        speeds = state.slot_tokens_per_s
        rows = [_slot(n, slot, speeds.get(slot.id), pen) for n, slot in enumerate(slots)]
        return (block((1, (_summary(slots, state, pen),))), *rows)


def _summary(slots: Sequence[SlotReply], state: AttachState, pen: Pen) -> Line:
    n_busy = sum(slot.phase is not SlotPhase.IDLE for slot in slots)
    text = f"{n_busy} of {counted(len(slots), 'slot')} at work"
    left: Line = ((text, Look.STRONG if n_busy else Look.MUTED),)
    wide = pen.spread(left, _waiting(state))
    # Who waits is worth a shorter word.
    return pen.spread(left, _waiting(state, is_short=True)) if wide == left else wide


def _waiting(state: AttachState, *, is_short: bool = False) -> Line:
    counters = None if state.sample.took_s is None else state.sample.counters.value
    n_deferred = 0 if counters is None else counters.n_deferred
    if not n_deferred:
        return ()
    who = str(n_deferred) if is_short else counted(n_deferred, "request")
    return ((f"▲ {who} waiting", Look.WARNING),)


def _slot(index: int, slot: SlotReply, tokens_per_s: float | None, pen: Pen) -> Block:
    row = _row(slot, tokens_per_s, pen)
    rank = _FROM_IDLE if slot.phase is SlotPhase.IDLE else _FROM_BUSY
    # The first ones first: what is left out is at the end.
    details = _details(slot)
    one, two = rank + index, _FROM_DETAILS + index
    return block((one, (row,)), (two, (row, *details))) if details else block((one, (row,)))


def _row(slot: SlotReply, tokens_per_s: float | None, pen: Pen) -> Line:
    speed = f"{draw.number(tokens_per_s, 1)}/s".rjust(_SPEED)
    if slot.phase is not SlotPhase.GENERATING:
        speed = " " * _SPEED
    left: Line = (
        (f"{slot.id:>2} ", Look.PLAIN),
        (str(slot.phase).ljust(_PHASE), _LOOKS[slot.phase]),
    )
    context = _context(slot)
    room = pen.width - cells(left) - len(context) - len(speed) - 2
    if slot.n_ctx and slot.n_used is not None and room >= _SMALLEST_BAR:
        used = draw.bar(slot.n_used / slot.n_ctx, room)
        return (
            *left,
            (" ", ""),
            (used, Look.CACHE),
            (" ", ""),
            (context, Look.MUTED),
            (speed, Look.STRONG),
        )
    gap = " " * max(pen.width - cells(left) - len(context) - len(speed), 1)
    return (*left, (gap, ""), (context, Look.MUTED), (speed, Look.STRONG))


def _context(slot: SlotReply) -> str:
    """Used and whole context, right-aligned so that bars of all slots begin and end alike."""
    n_ctx, n_used = slot.n_ctx, slot.n_used
    if n_ctx is None:
        return "" if n_used is None else str(n_used)
    used = draw.NONE if n_used is None else str(n_used)
    return f"{used.rjust(len(str(n_ctx)))}/{n_ctx}"


def _details(slot: SlotReply) -> Lines:
    """Describe the slot's request, the last one if it rests."""
    said = [
        _prompt(slot),
        None if slot.n_decoded is None else f"{slot.n_decoded} generated",
        None
        if slot.n_remaining is None or slot.phase is SlotPhase.IDLE
        else f"{slot.n_remaining} left",
    ]
    text = ", ".join(filter(None, said))
    return ((((" " * _INDENT) + text, Look.MUTED),),) if text else ()


def _prompt(slot: SlotReply) -> str | None:
    processed, cached = slot.n_prompt_processed, slot.n_prompt_cached
    if not processed and not cached:
        return None
    reused = f" + {cached} cached" if cached else ""
    return f"prompt {processed or 0}{reused}"


class ServerPanel(Panel[AttachState]):
    """Shows facts that hardly change."""

    heading = "Server"

    def blocks(self, state: AttachState, pen: Pen) -> Sequence[Block]:
        """Model, context, sleep, process, address, build, connection."""
        facts = state.sample.facts.value
        link = block((40, pen.sentence(_link(state))))
        process = "" if state.failure is not None else _process(state.sample.host)
        around = (
            pen.prose(20, process, look=Look.PLAIN, step=10),
            pen.prose(25, _where(state, facts), step=10),
        )
        if facts is None:
            return (pen.prose(0, state.sample.facts.reason or ""), *around, link)
        asleep = "asleep: the model is unloaded until the next request" if facts.is_sleeping else ""
        drafters = f"drafts by {', '.join(state.sample.drafters)}" if state.sample.drafters else ""
        context = ", ".join(filter(None, (*_context_facts(facts), drafters)))
        return (
            pen.prose(0, model_name(facts), look=Look.STRONG, step=15),
            block((3, pen.sentence(asleep, Look.WARNING))),
            pen.prose(5, ", ".join(_model_facts(facts)), look=Look.PLAIN, step=25),
            pen.prose(10, context, look=Look.PLAIN, step=25),
            *around,
            link,
            block((45, _models(facts, pen))),
        )


def model_name(facts: ServerFacts) -> str:
    """Return the shortest name that the server gives its model."""
    if facts.is_router:
        return "a router"
    # Without a name of its own, the alias is the file's path.
    name = next(filter(None, (facts.alias, facts.model_path, *facts.models)), None)
    if name is None:
        return "a model without a name"
    is_file = name.endswith(".gguf")
    return PurePath(name.replace("\\", "/")).stem if is_file else name


def _model_facts(facts: ServerFacts) -> tuple[str, ...]:
    """Return parameters, quantization and size of the weights."""
    parameters = None if facts.n_params is None else f"{count_text(facts.n_params)} parameters"
    size = None if facts.size_bytes is None else bytes_text(facts.size_bytes)
    return tuple(filter(None, (parameters, facts.quantization, size)))


def _context_facts(facts: ServerFacts) -> tuple[str, ...]:
    """Return slots and context."""
    slots = None if facts.n_slots is None else counted(facts.n_slots, "slot")
    context = None if facts.n_ctx is None else f"{facts.n_ctx} tokens of context"
    if slots is not None and context is not None:
        return (f"{slots} with {context}{' each' if facts.n_slots != 1 else ''}",)
    return tuple(filter(None, (slots, context)))


def _process(host: HostState) -> str:
    process = host.process.value
    if process is None:
        return str(host.process.reason)
    busy = "" if host.cores is None else f", {draw.number(host.cores, 1)} cores busy"
    size = draw.size(process.rss_bytes)
    return f"{process.name} {process.pid}: {size} of RAM{busy}"


def _where(state: AttachState, facts: ServerFacts | None) -> str:
    build = "" if facts is None or facts.build is None else f", llama.cpp {facts.build}"
    return f"{state.url}{build}"


def _link(state: AttachState) -> str:
    took = "" if state.sample.took_s is None else f"answers in {draw.duration(state.sample.took_s)}"
    restarts = f"restarted {counted(state.n_restarts, 'time')}" if state.n_restarts else ""
    return ", ".join(filter(None, (took, restarts)))


def _models(facts: ServerFacts, pen: Pen) -> Lines:
    """List what a router runs."""
    if len(facts.models) <= 1:
        return ()
    more = len(facts.models) - _LONGEST_LIST
    names = ", ".join(facts.models[:_LONGEST_LIST])
    tail = f" and {more} more" if more > 0 else ""
    return pen.sentence(f"models: {names}{tail}")


class MachinePanel(Panel[TrafficState]):
    """Shows cores, GPUs, links and disk."""

    heading = "CPU, GPU, PCIe, disk"

    def blocks(self, state: TrafficState, pen: Pen) -> Sequence[Block]:
        """One block each."""
        if state.reason is not None:
            return (block((0, pen.sentence(state.reason))),)
        return (
            cores_block(state.cpu_per_core, pen, rank=1),
            gpu_block(state.links, pen, rank=2),
            () if state.gpu_reason is None else no_gpu_block(state.gpu_reason, pen, rank=15),
            *link_blocks(state, pen),
            disk_block(state, pen),
        )
