"""The slots of an attached server."""

from collections.abc import Sequence

from spectui.models.sizes import counted
from spectui.server.watch.state import SlotPhase, SlotsState, SlotState
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, block, cells, growing, spread
from spectui.tui.panels.paint import (
    CACHE,
    DRAFT,
    MUTED,
    PLAIN,
    STRONG,
    TARGET,
    WARNING,
    own,
    sentence,
    shortened,
)
from spectui.tui.widgets.charts import bar

_SMALLEST_BAR = 4
_INDENT = 3
_SPEED = len(" 123.4/s")
_LOOKS = {SlotPhase.GENERATING: DRAFT, SlotPhase.PROMPT: TARGET, SlotPhase.IDLE: MUTED}
_PHASE = max(map(len, SlotPhase))
_FROM_BUSY, _FROM_IDLE, _FROM_DETAILS = 10, 10_000, 20_000
"""Ranks: all that work are there before one that rests."""


class SlotsPanel(Panel[SlotsState]):
    """A row per slot: what it does, how much of its context is used, how fast it generates."""

    heading = "Slots"

    def blocks(self, state: SlotsState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """How many work; the rows, those at work first if not all fit."""
        if state.reason is not None:
            reason = sentence(state.reason, MUTED, width, glyphs)
            waiting = _waiting(state, glyphs)
            return (growing(0, shortened(reason)), block((5, (waiting,) if waiting else ())))
        rows = [_slot(index, slot, width, glyphs) for index, slot in enumerate(state.slots)]
        return (block((1, (_summary(state, width, glyphs),))), *rows)


def _summary(state: SlotsState, width: int, glyphs: Glyphs) -> Line:
    n_busy = sum(slot.phase is not SlotPhase.IDLE for slot in state.slots)
    text = f"{n_busy} of {counted(len(state.slots), 'slot')} at work"
    left: Line = ((text, STRONG if n_busy else MUTED),)
    wide = spread(left, _waiting(state, glyphs), width)
    # Who waits is worth a shorter word.
    return spread(left, _waiting(state, glyphs, is_short=True), width) if wide == left else wide


def _waiting(state: SlotsState, glyphs: Glyphs, *, is_short: bool = False) -> Line:
    if not state.n_deferred:
        return ()
    who = str(state.n_deferred) if is_short else counted(state.n_deferred, "request")
    return ((f"{glyphs.warning} {who} waiting", WARNING),)


def _slot(index: int, slot: SlotState, width: int, glyphs: Glyphs) -> Block:
    row = _row(slot, width, glyphs)
    rank = _FROM_IDLE if slot.phase is SlotPhase.IDLE else _FROM_BUSY
    # The first ones first: what is left out is at the end.
    details = _details(slot, glyphs)
    one, two = rank + index, _FROM_DETAILS + index
    return block((one, (row,)), (two, (row, *details))) if details else block((one, (row,)))


def _row(slot: SlotState, width: int, glyphs: Glyphs) -> Line:
    sample = slot.sample
    speed = f"{units.number(slot.tokens_per_s, glyphs, 1)}/s".rjust(_SPEED)
    if slot.phase is not SlotPhase.GENERATING:
        speed = " " * _SPEED
    left: Line = ((f"{sample.id:>2} ", PLAIN), (str(slot.phase).ljust(_PHASE), _LOOKS[slot.phase]))
    context = _context(slot, glyphs)
    room = width - cells(left) - len(context) - len(speed) - 2
    if sample.n_ctx and sample.n_used is not None and room >= _SMALLEST_BAR:
        used = bar(sample.n_used / sample.n_ctx, room, glyphs)
        return (*left, (" ", ""), (used, CACHE), (" ", ""), (context, MUTED), (speed, STRONG))
    gap = " " * max(width - cells(left) - len(context) - len(speed), 1)
    return (*left, (gap, ""), (context, MUTED), (speed, STRONG))


def _context(slot: SlotState, glyphs: Glyphs) -> str:
    """Used and whole context, right-aligned so that bars of all slots begin and end alike."""
    n_ctx, n_used = slot.sample.n_ctx, slot.sample.n_used
    if n_ctx is None:
        return "" if n_used is None else str(n_used)
    used = glyphs.none if n_used is None else str(n_used)
    return f"{used.rjust(len(str(n_ctx)))}/{n_ctx}"


def _details(slot: SlotState, glyphs: Glyphs) -> Lines:
    """Say what became of the slot's request, the last one if it rests."""
    sample = slot.sample
    said = [
        _prompt(slot),
        None if sample.n_decoded is None else f"{sample.n_decoded} generated",
        None
        if sample.n_remaining is None or slot.phase is SlotPhase.IDLE
        else f"{sample.n_remaining} left",
    ]
    text = own(", ".join(filter(None, said)), glyphs)
    return ((((" " * _INDENT) + text, MUTED),),) if text else ()


def _prompt(slot: SlotState) -> str | None:
    processed, cached = slot.sample.n_prompt_processed, slot.sample.n_prompt_cached
    if not processed and not cached:
        return None
    reused = f" + {cached} cached" if cached else ""
    return f"prompt {processed or 0}{reused}"
