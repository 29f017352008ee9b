"""The live panels in one or two columns; among them those that say whether speculation pays."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.events import Resize

from spectui.format import counted
from spectui.live.rounds import IDEALS, ExpectationState
from spectui.live.tally import LiveState, Phase, ThroughputState
from spectui.speculative.expectation import RoundModel
from spectui.tui.chat.round_panels import AcceptancePanel, RoundPanel
from spectui.tui.glyphs import ASCII, Glyphs, glyphs_of
from spectui.tui.panels.base import (
    CACHE,
    DRAFT,
    MUTED,
    PLAIN,
    STRONG,
    TARGET,
    Block,
    Line,
    Lines,
    Panel,
    any_of,
    block,
    chart,
    charted,
    growing,
    labelled,
    sentence,
    speedup,
    spread,
)
from spectui.tui.panels.machine import MemoryPanel, TrafficPanel

_HEIGHTS = range(1, 7)
_HOUR_MIN = 60
_LABEL = len("Leviathan ")
_NUMBER = len(" 10.00x")
_NAME = len("alpha ")
_TWO_COLUMNS = 84
_FRAMED = 33
"""Lines from which on six panels in a column can have a frame each."""


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
        (glyphs.tokens_per_s(value), STRONG),
        (" now" if is_decoding else " last turn", MUTED),
    )
    return (spread(left, (speedup(factor, glyphs),), width),)


def _averages(state: ThroughputState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    turn, baseline = state.turn_tokens_per_s, state.baseline_tokens_per_s
    alone = glyphs.tokens_per_s(baseline) if baseline else "not measured yet"
    baseline_line = spread(labelled("baseline", alone), _age(state), width)
    session = labelled("session", glyphs.tokens_per_s(state.session_tokens_per_s))
    if turn is None or state.phase is not Phase.DECODING:
        both = baseline_line, session
        return ((baseline_line,), both) if state.session_tokens_per_s else ((baseline_line,),)
    average: Line = labelled("turn", glyphs.tokens_per_s(turn))
    short: Line = (
        *labelled("turn", glyphs.number(turn, 1)),
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

    return charted(20, 30, _HEIGHTS, draw)


def _prompt(state: ThroughputState, glyphs: Glyphs) -> Lines:
    prompt = state.prompt
    if prompt is None:
        return ()
    took = f"{counted(prompt.n_tokens, 'token')} in {glyphs.duration(prompt.seconds)}"
    if prompt.n_reused:
        took += f", {prompt.n_reused} reused"
    return (labelled("prompt", took),)


class ExpectationPanel(Panel[ExpectationState]):
    """Shows three speedups, and the term that costs most."""

    heading = "Expectation"

    def blocks(self, state: ExpectationState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """The speedups, the loss, the inputs."""
        if state.reason is not None:
            why = block((0, sentence(state.reason, MUTED, width, glyphs)))
            return (why, block((10, (_measured(state, glyphs),)))) if state.measured else (why,)
        return (
            growing(0, _speedups(state, width, glyphs), step=20),
            growing(10, _loss(state, width, glyphs), step=5),
            growing(30, _inputs(state.inputs, width, glyphs)),
        )


def _measured(state: ExpectationState, glyphs: Glyphs) -> Line:
    return ("measured ", MUTED), speedup(state.measured, glyphs)


def _speedups(state: ExpectationState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    leviathan, full = (glyphs.speedup(value) for value in (state.leviathan, state.full))
    estimates: Line = (*labelled("Leviathan", leviathan), *labelled("  full", full))
    one = spread(estimates, _measured(state, glyphs), width)
    rows = (
        ("Leviathan", state.leviathan, CACHE),
        ("full", state.full, TARGET),
        ("measured", state.measured, DRAFT),
    )
    top = max((value for _name, value, _style in rows if value is not None), default=0.0)
    bars = tuple(
        (
            (name.ljust(_LABEL), MUTED),
            (_bar(value, top, width, glyphs), style),
            (glyphs.speedup(value).rjust(_NUMBER), PLAIN),
        )
        for name, value, style in rows
    )
    short = (one,) if len(one) > len(estimates) else (estimates, _measured(state, glyphs))
    return short, bars


def _bar(value: float | None, top: float, width: int, glyphs: Glyphs) -> str:
    share = value / top if value is not None and top > 0 else 0.0
    return glyphs.bar(share, max(width - _LABEL - _NUMBER, 0))


def _loss(state: ExpectationState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    if state.loss is None:
        return ()
    short: Line = (("loses most to ", MUTED), (str(state.loss), STRONG))
    full = f"{glyphs.speedup(state.without_loss)} {IDEALS[state.loss]}"
    if len(f"loses most to {state.loss}: {full}") <= width:
        return (((*short, (f": {full}", MUTED)),),)
    return (short,), (short, *sentence(full, MUTED, width, glyphs))


def _inputs(inputs: RoundModel | None, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    """Inputs of the full estimate, in short and with explanations."""
    if inputs is None:
        return ()
    values = (
        ("α", inputs.alpha, "accepted per drafted token"),
        ("γ", inputs.gamma, "drafted per round"),
        ("c", inputs.draft_step, "draft step / V(1)"),
        ("V", inputs.verify, "V(γ+1) / V(1)"),
        ("R", inputs.rollback, "rollback / V(1)"),
    )
    named = [
        (glyphs.spelt(name), glyphs.number(value), glyphs.spelt(meaning))
        for name, value, meaning in values
    ]
    short = sentence(
        "  ".join(f"{name} {value}" for name, value, _m in named), MUTED, width, glyphs
    )
    rows = tuple(
        ((name.ljust(_NAME), PLAIN), (value, PLAIN), (f"  {meaning}", MUTED))
        for name, value, meaning in named
    )
    formula = glyphs.spelt("full = (1-α^(γ+1)) / (1-α) / (γ·c + V + R)")
    return short, (*rows, *sentence(formula, MUTED, width, glyphs))


class Panels(VerticalScroll, can_focus=False):
    """The six live panels, each in the detail that its size allows."""

    DEFAULT_CSS = """
    Panels {
        scrollbar-size-vertical: 1;
        & > Panel {
            border-top: solid $foreground 30%;
            border-title-color: $text-primary;
            padding-left: 1;
            min-height: 2;
        }
        & > Panel.-alert { border-title-color: $text-warning; }
        & > ThroughputPanel, & > AcceptancePanel, & > RoundPanel { height: 4fr; }
        & > MemoryPanel, & > TrafficPanel, & > ExpectationPanel { height: 3fr; }

        &.-framed > Panel { border: round $foreground 30%; padding: 0 1; }
        &.-framed > ThroughputPanel { height: 5fr; }
        &.-framed > AcceptancePanel { height: 7fr; }
        &.-framed > RoundPanel { height: 9fr; }
        &.-framed > MemoryPanel { height: 6fr; }
        &.-framed > TrafficPanel { height: 6fr; }
        &.-framed > ExpectationPanel { height: 5fr; }

        &.-two-columns { layout: grid; grid-size: 2 3; }
        &.-two-columns > Panel { height: 1fr; }

        &.-ascii > Panel { border-top: ascii $foreground 30%; }
        &.-ascii.-framed > Panel { border: ascii $foreground 30%; }
    }
    """

    def compose(self) -> ComposeResult:
        """Yield the panels in the order of the questions: does it pay, why, and what of."""
        yield ThroughputPanel()
        yield AcceptancePanel()
        yield RoundPanel()
        yield MemoryPanel()
        yield TrafficPanel()
        yield ExpectationPanel()

    def on_mount(self) -> None:
        """Frames are characters too."""
        self.set_class(glyphs_of(self) is ASCII, "-ascii")

    def on_resize(self, event: Resize) -> None:
        """Choose columns and frames."""
        is_wide = event.size.width >= _TWO_COLUMNS
        lines = event.size.height * (2 if is_wide else 1)
        self.set_class(is_wide, "-two-columns")
        self.set_class(lines >= _FRAMED, "-framed")

    def show(self, state: LiveState) -> None:
        """Hand every panel its part."""
        self.query_one(ThroughputPanel).state = state.throughput
        self.query_one(AcceptancePanel).state = state.acceptance
        self.query_one(RoundPanel).state = state.rounds
        self.query_one(MemoryPanel).state = state.memory
        self.query_one(TrafficPanel).state = state.traffic
        self.query_one(ExpectationPanel).state = state.expectation
