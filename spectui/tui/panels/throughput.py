"""Tokens per second: now, on average, against the target alone."""

from collections.abc import Sequence
from functools import partial

from spectui.live.throughput import Phase, ThroughputState
from spectui.models.sizes import counted
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, block, charted, growing, spread
from spectui.tui.panels.paint import (
    DRAFT,
    MUTED,
    STRONG,
    any_of,
    chart,
    labelled,
    sentence,
    speedup,
)

_HEIGHTS = range(1, 7)
_HOUR_MIN = 60


class ThroughputPanel(Panel[ThroughputState]):
    """Shows whether speculation pays, now."""

    heading = "Throughput"

    def blocks(self, state: ThroughputState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, averages, history, prompt."""
        return (
            block((0, _headline(state, width, glyphs))),
            growing(10, _averages(state, width, glyphs), step=30),
            _history(state, width, glyphs),
            block((60, _prompt(state, glyphs))),
        )


def _headline(state: ThroughputState, width: int, glyphs: Glyphs) -> Lines:
    if state.phase is Phase.PROMPT:
        return ((("reading the prompt", STRONG),),)
    is_decoding = state.phase is Phase.DECODING
    value = state.now_tokens_per_s if is_decoding else state.turn_tokens_per_s
    if value is None:
        text = "first round under way" if is_decoding else "no turn yet"
        return sentence(text, MUTED, width, glyphs)
    factor = state.speedup_now if is_decoding else state.speedup_turn
    left: Line = (
        (units.tokens_per_s(value, glyphs), STRONG),
        (" now" if is_decoding else " last turn", MUTED),
    )
    return (spread(left, (speedup(factor, glyphs),), width),)


def _averages(state: ThroughputState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    turn, baseline = state.turn_tokens_per_s, state.baseline_tokens_per_s
    alone = units.tokens_per_s(baseline, glyphs) if baseline else "not measured yet"
    baseline_line = spread(labelled("baseline", alone), _age(state), width)
    session = labelled("session", units.tokens_per_s(state.session_tokens_per_s, glyphs))
    if turn is None or state.phase is not Phase.DECODING:
        both = baseline_line, session
        return ((baseline_line,), both) if state.session_tokens_per_s else ((baseline_line,),)
    average: Line = labelled("turn", units.tokens_per_s(turn, glyphs))
    short: Line = (
        *labelled("turn", units.number(turn, glyphs, 1)),
        *labelled("  alone", alone),
    )
    factor = speedup(state.speedup_turn, glyphs)
    two = spread(average, (factor,), width), baseline_line
    return (short,), two, (*two, session)


def _age(state: ThroughputState) -> Line:
    minutes = state.baseline_age_min
    if not minutes:
        return ()
    hours = minutes // _HOUR_MIN
    return ((f"{hours} h ago" if hours else f"{minutes} min ago", MUTED),)


def _history(state: ThroughputState, width: int, glyphs: Glyphs) -> Block:
    if not any_of(state.history):
        return ()
    # With the baseline in the picture, a gain is seen as one.
    top = state.baseline_tokens_per_s

    def draw(height: int) -> Lines:
        return chart(state.history, width, height, glyphs, DRAFT, maximum=top)

    return charted(20, 30, ((height, partial(draw, height)) for height in _HEIGHTS))


def _prompt(state: ThroughputState, glyphs: Glyphs) -> Lines:
    prompt = state.prompt
    if prompt is None:
        return ()
    took = f"{counted(prompt.n_tokens, 'token')} in {units.duration(prompt.seconds, glyphs)}"
    if prompt.n_reused:
        took += f", {prompt.n_reused} reused"
    return (labelled("prompt", took),)
