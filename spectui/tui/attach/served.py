"""Tokens per second of an attached server."""

from collections.abc import Sequence
from functools import partial

from spectui.monitor.readings import Reading
from spectui.server.watch.state import ServedState, Work
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, block, charted, growing, spread
from spectui.tui.panels.paint import (
    DRAFT,
    MUTED,
    STRONG,
    TARGET,
    any_of,
    chart,
    labelled,
    sentence,
    shortened,
)

_HEIGHTS = range(1, 41)


class ServedPanel(Panel[ServedState]):
    """Shows how fast it generates, now and on average, and how fast it reads prompts."""

    heading = "Throughput"

    def blocks(self, state: ServedState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, what is missing, history, averages, prompts, counts."""
        return (
            block((0, _headline(state, width, glyphs))),
            _missing(state, width, glyphs),
            block((10, _generation(state, width, glyphs))),
            _history(state, width, glyphs),
            block((20, _prompts(state, width, glyphs))),
            block((40, _counts(state, width))),
        )


def _headline(state: ServedState, width: int, glyphs: Glyphs) -> Lines:
    now = state.now_tokens_per_s.value
    work: Line = ((str(state.work), STRONG if state.work is not Work.IDLE else MUTED),)
    if state.work is Work.UNKNOWN:
        return ()
    if now is None or state.work is Work.IDLE:
        return (work,)
    speed: Line = ((units.tokens_per_s(now, glyphs), STRONG), (" now", MUTED))
    return (spread(speed, work, width),)


def _missing(state: ServedState, width: int, glyphs: Glyphs) -> Block:
    """Say what the server does not tell, once where it is the same for all."""
    now, counters = state.now_tokens_per_s, state.counters
    reasons = [counters.reason] if counters.value is None else []
    if now.value is None and now.reason not in reasons and state.work is not Work.IDLE:
        reasons.append(now.reason)
    lines = tuple(
        line for reason in reasons for line in sentence(str(reason), MUTED, width, glyphs)
    )
    return growing(2, shortened(lines), step=28) if lines else ()


def _generation(state: ServedState, width: int, glyphs: Glyphs) -> Lines:
    return _pair("generation", state.last_tokens_per_s, state.mean_tokens_per_s, width, glyphs)


def _prompts(state: ServedState, width: int, glyphs: Glyphs) -> Lines:
    last, mean = state.prompt_tokens_per_s, state.mean_prompt_tokens_per_s
    return _pair("prompts", last, mean, width, glyphs)


def _pair(label: str, last: Reading, mean: Reading, width: int, glyphs: Glyphs) -> Lines:
    """What ended last, else the mean; both where there is room."""
    if mean.value is None:
        return ()
    average: Line = ((f"mean {units.tokens_per_s(mean.value, glyphs)}", MUTED),)
    if last.value is None:
        return (spread(((label, MUTED),), average, width),)
    line = labelled(label, units.tokens_per_s(last.value, glyphs))
    number, _unit = units.tokens_per_s(mean.value, glyphs).split(" ", 1)
    short: Line = ((f"mean {number}", MUTED),)
    full = spread((*line, (" last", MUTED)), average, width)
    return (full if len(full) > len(line) + 1 else spread(line, short, width),)


def _history(state: ServedState, width: int, glyphs: Glyphs) -> Block:
    if not any_of(state.history):
        return ()

    def draw(height: int) -> Lines:
        return chart(state.history, width, height, glyphs, DRAFT)

    return charted(15, 10, ((height, partial(draw, height)) for height in _HEIGHTS))


def _counts(state: ServedState, width: int) -> Lines:
    counters = state.counters.value
    if counters is None:
        return ()
    cached = counters.n_prompt_cached
    left: Line = (("generated ", MUTED), (f"{counters.n_predicted:,}", TARGET))
    right: Line = (("prompt tokens ", MUTED), (f"{counters.n_prompt:,}", TARGET))
    if cached:
        more: Line = (*right, (", cached ", MUTED), (f"{cached:,}", TARGET))
        line = spread(left, more, width)
        if len(line) > len(left):
            return (line,)
    return (spread(left, right, width),)
