"""Panels of an attached server's work: throughput, acceptance, slots."""

from collections.abc import Iterator, Sequence

from spectui.format import counted
from spectui.monitor.readings import Reading
from spectui.server.watch.tracker import (
    DraftState,
    ServedState,
    SlotPhase,
    SlotsState,
    SlotState,
    Work,
)
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import (
    Block,
    Line,
    Lines,
    Look,
    Panel,
    any_of,
    block,
    cells,
    chart,
    charted,
    labelled,
    positions,
    prose,
    sentence,
    spread,
)

_SPEED_HEIGHTS = range(1, 41)
_RATE_HEIGHTS = range(1, 4)
_SMALLEST_BAR = 4
_INDENT = 3
_SPEED = len(" 123.4/s")
_LOOKS = {
    SlotPhase.GENERATING: Look.DRAFT,
    SlotPhase.PROMPT: Look.TARGET,
    SlotPhase.IDLE: Look.MUTED,
}
_PHASE = max(map(len, SlotPhase))
_FROM_BUSY, _FROM_IDLE, _FROM_DETAILS = 10, 10_000, 20_000
"""Ranks: all that work are there before one that rests."""


class ServedPanel(Panel[ServedState]):
    """Shows how fast it generates, now and on average, and how fast it reads prompts."""

    heading = "Throughput"

    def blocks(self, state: ServedState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, what is missing, history, averages, prompts, counts."""
        return (
            block((0, _headline(state, width, glyphs))),
            *_missing(state, width, glyphs),
            block((10, _generation(state, width, glyphs))),
            _history(state, width, glyphs),
            block((20, _prompts(state, width, glyphs))),
            block((40, _counts(state, width))),
        )


def _headline(state: ServedState, width: int, glyphs: Glyphs) -> Lines:
    now = state.now_tokens_per_s.value
    work: Line = ((str(state.work), Look.STRONG if state.work is not Work.IDLE else Look.MUTED),)
    if state.work is Work.UNKNOWN:
        return ()
    if now is None or state.work is Work.IDLE:
        return (work,)
    speed: Line = ((glyphs.tokens_per_s(now), Look.STRONG), (" now", Look.MUTED))
    return (spread(speed, work, width),)


def _missing(state: ServedState, width: int, glyphs: Glyphs) -> Iterator[Block]:
    """List the values that the server does not tell, once where the reason is the same for all."""
    now, counters = state.now_tokens_per_s, state.counters
    reasons = [counters.reason] if counters.value is None else []
    if now.value is None and now.reason not in reasons and state.work is not Work.IDLE:
        reasons.append(now.reason)
    for reason in reasons:
        yield prose(2, str(reason), width, glyphs, step=28)


def _generation(state: ServedState, width: int, glyphs: Glyphs) -> Lines:
    return _pair("generation", state.last_tokens_per_s, state.mean_tokens_per_s, width, glyphs)


def _prompts(state: ServedState, width: int, glyphs: Glyphs) -> Lines:
    last, mean = state.prompt_tokens_per_s, state.mean_prompt_tokens_per_s
    return _pair("prompts", last, mean, width, glyphs)


def _pair(label: str, last: Reading, mean: Reading, width: int, glyphs: Glyphs) -> Lines:
    """Speed of the last request, else the mean; both where there is room."""
    if mean.value is None:
        return ()
    average: Line = ((f"mean {glyphs.tokens_per_s(mean.value)}", Look.MUTED),)
    if last.value is None:
        return (spread(((label, Look.MUTED),), average, width),)
    line = labelled(label, glyphs.tokens_per_s(last.value))
    number, _unit = glyphs.tokens_per_s(mean.value).split(" ", 1)
    short: Line = ((f"mean {number}", Look.MUTED),)
    full = spread((*line, (" last", Look.MUTED)), average, width)
    return (full if len(full) > len(line) + 1 else spread(line, short, width),)


def _history(state: ServedState, width: int, glyphs: Glyphs) -> Block:
    if not any_of(state.history):
        return ()

    def draw(height: int) -> Lines:
        return chart(state.history, width, height, glyphs, Look.DRAFT)

    return charted(15, 10, _SPEED_HEIGHTS, draw)


def _counts(state: ServedState, width: int) -> Lines:
    counters = state.counters.value
    if counters is None:
        return ()
    cached = counters.n_prompt_cached
    left: Line = (("generated ", Look.MUTED), (f"{counters.n_predicted:,}", Look.TARGET))
    right: Line = (("prompt tokens ", Look.MUTED), (f"{counters.n_prompt:,}", Look.TARGET))
    if cached:
        more: Line = (*right, (", cached ", Look.MUTED), (f"{cached:,}", Look.TARGET))
        line = spread(left, more, width)
        if len(line) > len(left):
            return (line,)
    return (spread(left, right, width),)


class DraftsPanel(Panel[DraftState]):
    """Shows acceptance since the server's start, and of the requests that ended last."""

    heading = "Acceptance"

    def blocks(self, state: DraftState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, the last requests, positions, history, counts."""
        if state.reason is not None or state.overall is None:
            return (prose(0, state.reason or "", width, glyphs),)
        shares = state.overall.share_per_position
        return (
            block((0, _draft_rate(state, width, glyphs))),
            block((10, _last_rate(state, width, glyphs))),
            positions(shares, "accepted by position, of all drafts", width, glyphs),
            _rates(state, width, glyphs),
            block((50, _draft_counts(state, width, glyphs))),
        )


def _draft_rate(state: DraftState, width: int, glyphs: Glyphs) -> Lines:
    if state.overall is None:
        return ()
    rate = labelled("rate", glyphs.number(state.overall.acceptance_rate), Look.STRONG)
    length = glyphs.number(state.overall.mean_accepted_length)
    return (spread(rate, ((f"{length} tokens/round", Look.STRONG),), width),)


def _last_rate(state: DraftState, width: int, glyphs: Glyphs) -> Lines:
    if state.last is None:
        return ()
    rate = labelled("last request", glyphs.number(state.last.acceptance_rate))
    length = glyphs.number(state.last.mean_accepted_length)
    return (spread(rate, ((f"{length} tokens/round", Look.MUTED),), width),)


def _rates(state: DraftState, width: int, glyphs: Glyphs) -> Block:
    if not any_of(state.history):
        return ()

    def draw(height: int) -> Lines:
        label: Line = (("rate of each request", Look.MUTED),)
        return (label, *chart(state.history, width, height, glyphs, Look.DRAFT, maximum=1.0))

    return charted(70, 10, _RATE_HEIGHTS, draw, n_more=1)


def _draft_counts(state: DraftState, width: int, glyphs: Glyphs) -> Lines:
    counts = state.overall
    if counts is None:
        return ()
    text = (
        f"{counts.n_accepted:,} of {counts.n_drafted:,} tokens "
        f"in {counted(counts.n_drafts, 'draft')}"
    )
    if state.drafters:
        text += f" of {', '.join(state.drafters)}"
    return sentence(text, Look.MUTED, width, glyphs)


class SlotsPanel(Panel[SlotsState]):
    """A row per slot: what it does, how much of its context is used, how fast it generates."""

    heading = "Slots"

    def blocks(self, state: SlotsState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """A summary; a row per slot, those at work first if not all fit."""
        if state.reason is not None:
            waiting = _waiting(state, glyphs)
            why = prose(0, state.reason, width, glyphs)
            return (why, block((5, (waiting,) if waiting else ())))
        rows = [_slot(index, slot, width, glyphs) for index, slot in enumerate(state.slots)]
        return (block((1, (_summary(state, width, glyphs),))), *rows)


def _summary(state: SlotsState, width: int, glyphs: Glyphs) -> Line:
    n_busy = sum(slot.phase is not SlotPhase.IDLE for slot in state.slots)
    text = f"{n_busy} of {counted(len(state.slots), 'slot')} at work"
    left: Line = ((text, Look.STRONG if n_busy else Look.MUTED),)
    wide = spread(left, _waiting(state, glyphs), width)
    # Who waits is worth a shorter word.
    return spread(left, _waiting(state, glyphs, is_short=True), width) if wide == left else wide


def _waiting(state: SlotsState, glyphs: Glyphs, *, is_short: bool = False) -> Line:
    if not state.n_deferred:
        return ()
    who = str(state.n_deferred) if is_short else counted(state.n_deferred, "request")
    return ((f"{glyphs.warning} {who} waiting", Look.WARNING),)


def _slot(index: int, slot: SlotState, width: int, glyphs: Glyphs) -> Block:
    row = _row(slot, width, glyphs)
    rank = _FROM_IDLE if slot.phase is SlotPhase.IDLE else _FROM_BUSY
    # The first ones first: what is left out is at the end.
    details = _details(slot, glyphs)
    one, two = rank + index, _FROM_DETAILS + index
    return block((one, (row,)), (two, (row, *details))) if details else block((one, (row,)))


def _row(slot: SlotState, width: int, glyphs: Glyphs) -> Line:
    sample = slot.sample
    speed = f"{glyphs.number(slot.tokens_per_s, 1)}/s".rjust(_SPEED)
    if slot.phase is not SlotPhase.GENERATING:
        speed = " " * _SPEED
    left: Line = (
        (f"{sample.id:>2} ", Look.PLAIN),
        (str(slot.phase).ljust(_PHASE), _LOOKS[slot.phase]),
    )
    context = _context(slot, glyphs)
    room = width - cells(left) - len(context) - len(speed) - 2
    if sample.n_ctx and sample.n_used is not None and room >= _SMALLEST_BAR:
        used = glyphs.bar(sample.n_used / sample.n_ctx, room)
        return (
            *left,
            (" ", ""),
            (used, Look.CACHE),
            (" ", ""),
            (context, Look.MUTED),
            (speed, Look.STRONG),
        )
    gap = " " * max(width - cells(left) - len(context) - len(speed), 1)
    return (*left, (gap, ""), (context, Look.MUTED), (speed, Look.STRONG))


def _context(slot: SlotState, glyphs: Glyphs) -> str:
    """Used and whole context, right-aligned so that bars of all slots begin and end alike."""
    n_ctx, n_used = slot.sample.n_ctx, slot.sample.n_used
    if n_ctx is None:
        return "" if n_used is None else str(n_used)
    used = glyphs.none if n_used is None else str(n_used)
    return f"{used.rjust(len(str(n_ctx)))}/{n_ctx}"


def _details(slot: SlotState, glyphs: Glyphs) -> Lines:
    """Describe the slot's request, the last one if it rests."""
    sample = slot.sample
    said = [
        _prompt(slot),
        None if sample.n_decoded is None else f"{sample.n_decoded} generated",
        None
        if sample.n_remaining is None or slot.phase is SlotPhase.IDLE
        else f"{sample.n_remaining} left",
    ]
    text = glyphs.spelt(", ".join(filter(None, said)))
    return ((((" " * _INDENT) + text, Look.MUTED),),) if text else ()


def _prompt(slot: SlotState) -> str | None:
    processed, cached = slot.sample.n_prompt_processed, slot.sample.n_prompt_cached
    if not processed and not cached:
        return None
    reused = f" + {cached} cached" if cached else ""
    return f"prompt {processed or 0}{reused}"
