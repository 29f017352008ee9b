"""The live panels: does speculation pay, how good is the draft, where does a round's time go."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.events import Resize

from spectui.format import counted
from spectui.live.rounds import IDEALS, AcceptanceState, ExpectationState, RoundState, VerifyCost
from spectui.live.tally import LiveState, Phase, ThroughputState
from spectui.speculative.counters import RoundTimes
from spectui.speculative.expectation import RoundModel
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import (
    Block,
    Line,
    Lines,
    Look,
    Panel,
    PanelStack,
    Part,
    any_of,
    block,
    chart,
    charted,
    growing,
    labelled,
    positions,
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
_ROUND_HEIGHTS = range(1, 4)
_PART = len("rollback ")
_MS = len(" 1234 ms")
_COST_LABEL = len("V(n)/V(1)")
_COLUMN = 6
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
        return ((("reading the prompt", Look.STRONG),),)
    is_decoding = state.phase is Phase.DECODING
    value = state.now_tokens_per_s if is_decoding else state.turn_tokens_per_s
    if value is None:
        text = "first round under way" if is_decoding else "no turn yet"
        return sentence(text, Look.MUTED, width, glyphs)
    factor = state.speedup_now if is_decoding else state.speedup_turn
    left: Line = (
        (glyphs.tokens_per_s(value), Look.STRONG),
        (" now" if is_decoding else " last turn", Look.MUTED),
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
    return ((f"{hours} h ago" if hours else f"{minutes} min ago", Look.MUTED),)


def _history(state: ThroughputState, width: int, glyphs: Glyphs) -> Block:
    if not any_of(state.history):
        return ()
    # With the baseline in the picture, a gain is seen as one.
    top = state.baseline_tokens_per_s

    def draw(height: int) -> Lines:
        return chart(state.history, width, height, glyphs, Look.DRAFT, maximum=top)

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
            why = block((0, sentence(state.reason, Look.MUTED, width, glyphs)))
            return (why, block((10, (_measured(state, glyphs),)))) if state.measured else (why,)
        return (
            growing(0, _speedups(state, width, glyphs), step=20),
            growing(10, _loss(state, width, glyphs), step=5),
            growing(30, _inputs(state.inputs, width, glyphs)),
        )


def _measured(state: ExpectationState, glyphs: Glyphs) -> Line:
    return ("measured ", Look.MUTED), speedup(state.measured, glyphs)


def _speedups(state: ExpectationState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    leviathan, full = (glyphs.speedup(value) for value in (state.leviathan, state.full))
    estimates: Line = (*labelled("Leviathan", leviathan), *labelled("  full", full))
    one = spread(estimates, _measured(state, glyphs), width)
    rows = (
        ("Leviathan", state.leviathan, Look.CACHE),
        ("full", state.full, Look.TARGET),
        ("measured", state.measured, Look.DRAFT),
    )
    top = max((value for _name, value, _style in rows if value is not None), default=0.0)
    bars = tuple(
        (
            (name.ljust(_LABEL), Look.MUTED),
            (_bar(value, top, width, glyphs), style),
            (glyphs.speedup(value).rjust(_NUMBER), Look.PLAIN),
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
    short: Line = (("loses most to ", Look.MUTED), (str(state.loss), Look.STRONG))
    full = f"{glyphs.speedup(state.without_loss)} {IDEALS[state.loss]}"
    if len(f"loses most to {state.loss}: {full}") <= width:
        return (((*short, (f": {full}", Look.MUTED)),),)
    return (short,), (short, *sentence(full, Look.MUTED, width, glyphs))


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
        "  ".join(f"{name} {value}" for name, value, _m in named), Look.MUTED, width, glyphs
    )
    rows = tuple(
        ((name.ljust(_NAME), Look.PLAIN), (value, Look.PLAIN), (f"  {meaning}", Look.MUTED))
        for name, value, meaning in named
    )
    formula = glyphs.spelt("full = (1-α^(γ+1)) / (1-α) / (γ·c + V + R)")
    return short, (*rows, *sentence(formula, Look.MUTED, width, glyphs))


class AcceptancePanel(Panel[AcceptanceState]):
    """Shows how good the draft is."""

    heading = "Acceptance"

    def blocks(self, state: AcceptanceState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, α and c, positions, strip of rounds."""
        return (
            block((0, _rate(state, width, glyphs))),
            block((20, _alpha(state, width, glyphs))),
            positions(state.conditional, "by position, of rounds that reached it", width, glyphs),
            _strips(state.recent, width, glyphs),
        )


def _rate(state: AcceptanceState, width: int, glyphs: Glyphs) -> Lines:
    if state.reason is not None:
        return sentence(state.reason, Look.MUTED, width, glyphs)
    rate = labelled("rate", glyphs.number(state.acceptance_rate), Look.STRONG)
    length = glyphs.number(state.tokens_per_round)
    return (spread(rate, ((f"{length} tokens/round", Look.STRONG),), width),)


def _alpha(state: AcceptanceState, width: int, glyphs: Glyphs) -> Lines:
    if state.alpha is None:
        return ()
    alpha = labelled(glyphs.spelt("α"), glyphs.number(state.alpha))
    c = labelled("c", glyphs.number(state.draft_step_ratio))
    rounds = (counted(state.n_rounds, "round"), Look.MUTED)
    return (spread((*alpha, ("  ", ""), *c), (rounds,), width),)


def _strips(recent: Sequence[tuple[int, int]], width: int, glyphs: Glyphs) -> Block:
    """The last rounds, one mark per drafted token, the newest at the end."""
    if not recent:
        return ()
    legend: Line = (
        (glyphs.accepted, Look.DRAFT),
        (" accepted ", Look.MUTED),
        (glyphs.rejected, Look.REJECTED),
        (" rejected ", Look.MUTED),
        (glyphs.bonus, Look.MUTED),
        (" no draft", Look.MUTED),
    )
    one, two, three = (_strip(recent, width, n_lines, glyphs) for n_lines in (1, 2, 3))
    return block((10, one), (50, two), (70, (*two, legend)), (80, (*three, legend)))


def _strip(recent: Sequence[tuple[int, int]], width: int, n_lines: int, glyphs: Glyphs) -> Lines:
    lines: list[list[Part]] = [[]]
    room = width
    for n_drafted, n_accepted in reversed(recent):
        marks = n_drafted or 1
        if marks + 1 > room:
            if len(lines) == n_lines:
                break
            lines.append([])
            room = width
        room -= marks + 1
        # Built from the newest round on: both parts in reverse.
        lines[-1] += _marks(n_drafted, n_accepted, glyphs)
    return tuple(tuple(reversed(line)) for line in reversed(lines))


def _marks(n_drafted: int, n_accepted: int, glyphs: Glyphs) -> tuple[Part, ...]:
    if not n_drafted:
        return (" ", ""), (glyphs.bonus, Look.MUTED)
    return (
        (" ", ""),
        (glyphs.rejected * (n_drafted - n_accepted), Look.REJECTED),
        (glyphs.accepted * n_accepted, Look.DRAFT),
    )


class RoundPanel(Panel[RoundState]):
    """Shows the mean of the last rounds."""

    heading = "Round"

    def blocks(self, state: RoundState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Bottleneck, parts, verify cost, history."""
        if state.times is None:
            return (block((0, sentence(state.reason or "", Look.MUTED, width, glyphs))),)
        return (
            growing(10, _bottleneck(state, width, glyphs), step=25),
            growing(0, _parts(state.times, width, glyphs), step=15),
            block((12, (_totals(state, width, glyphs),))),
            block((40, _costs(state.verify_costs, width, glyphs))),
            _durations(state.history_s, width, glyphs),
        )


def _bottleneck(state: RoundState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    if state.bottleneck is None:
        return ()
    limit, reason = state.bottleneck
    name: Line = (("limited by ", Look.MUTED), (str(limit), Look.STRONG))
    if len(f"limited by {limit}: {reason}") <= width:
        return (((*name, (f": {reason}", Look.MUTED)),),)
    return (name,), (name, *sentence(reason, Look.MUTED, width, glyphs))


def _parts(times: RoundTimes, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    named = (
        ("draft", times.draft_s, Look.DRAFT),
        ("verify", times.verify_s, Look.TARGET),
        ("sample", times.sample_s, Look.CACHE),
        ("rollback", times.rollback_s, Look.COMPUTE),
        ("other", times.other_s, Look.MUTED),
    )
    seconds = [part_s for _name, part_s, _style in named]
    bars = glyphs.stacked(seconds, times.total_s, width)
    one: Line = tuple((text, style) for text, (_name, _s, style) in zip(bars, named, strict=True))
    two: Lines = (one, _largest(named, bars, width, glyphs))
    return (one,), two, _waterfall(named, times.total_s, width, glyphs)


def _largest(
    named: Sequence[tuple[str, float, str]], bars: Sequence[str], width: int, glyphs: Glyphs
) -> Line:
    """Legend of the two parts that take longest."""
    legends = [
        (part_s, f"{text[:1] or ' '} {name} {glyphs.duration(part_s)}", style)
        for (name, part_s, style), text in zip(named, bars, strict=True)
    ]
    first, second = sorted(legends, key=lambda legend: legend[0], reverse=True)[:2]
    return spread(((first[1], first[2]),), ((second[1], second[2]),), width)


def _waterfall(
    named: Sequence[tuple[str, float, str]], total_s: float, width: int, glyphs: Glyphs
) -> Lines:
    """One line per part, each where in the round it happens."""
    room = max(width - _PART - _MS, 0)
    bars = glyphs.stacked([part_s for _name, part_s, _style in named], total_s, room)
    lines: list[Line] = []
    offset = 0
    for (name, part_s, style), text in zip(named, bars, strict=True):
        cells = (" " * offset + text).ljust(room)
        number = glyphs.duration(part_s).rjust(_MS)
        lines.append(((name.ljust(_PART), Look.MUTED), (cells, style), (number, "")))
        offset += len(text)
    return tuple(lines)


def _totals(state: RoundState, width: int, glyphs: Glyphs) -> Line:
    total_s = state.times.total_s if state.times is not None else None
    left: Line = labelled("round", glyphs.duration(total_s))
    if state.batch is None or state.batch.ratio is None:
        tokens = glyphs.number(state.tokens_per_round, 1)
        return spread(left, ((f"{tokens} tokens", ""),), width)
    ratio = labelled(f"V({state.batch.n_tokens})/V(1)", glyphs.number(state.batch.ratio))
    return spread(left, ratio, width)


def _costs(costs: Sequence[VerifyCost], width: int, glyphs: Glyphs) -> Lines:
    """V(n)/V(1) of every batch size seen."""
    known = [cost for cost in costs if cost.ratio is not None][: (width - _COST_LABEL) // _COLUMN]
    if len(known) <= 1:
        return ()
    sizes = "".join(f"{cost.n_tokens}".rjust(_COLUMN) for cost in known)
    ratios = "".join(glyphs.number(cost.ratio).rjust(_COLUMN) for cost in known)
    return (
        (("n".ljust(_COST_LABEL), Look.MUTED), (sizes, Look.MUTED)),
        (("V(n)/V(1)".ljust(_COST_LABEL), Look.MUTED), (ratios, "")),
    )


def _durations(durations_s: Sequence[float | None], width: int, glyphs: Glyphs) -> Block:
    """Durations of the last rounds."""

    def draw(height: int) -> Lines:
        return chart(durations_s, width, height, glyphs, Look.TARGET)

    return charted(50, 1, _ROUND_HEIGHTS, draw)


class Panels(PanelStack):
    """The six live panels, each in the detail that its size allows."""

    DEFAULT_CSS = """
    Panels {
        & > ThroughputPanel, & > AcceptancePanel, & > RoundPanel { height: 4fr; }
        & > MemoryPanel, & > TrafficPanel, & > ExpectationPanel { height: 3fr; }

        &.-framed > ThroughputPanel { height: 5fr; }
        &.-framed > AcceptancePanel { height: 7fr; }
        &.-framed > RoundPanel { height: 9fr; }
        &.-framed > MemoryPanel { height: 6fr; }
        &.-framed > TrafficPanel { height: 6fr; }
        &.-framed > ExpectationPanel { height: 5fr; }

        &.-two-columns { layout: grid; grid-size: 2 3; }
        &.-two-columns > Panel { height: 1fr; }
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
