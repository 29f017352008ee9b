"""The live panels: does speculation pay, how good is the draft, where does a round's time go."""

from collections import Counter
from collections.abc import Sequence

from spectui.format import counted
from spectui.live.rounds import (
    LOSSES,
    AcceptanceState,
    ExpectationState,
    RoundState,
    VerifyCost,
    ratio,
)
from spectui.live.tally import Phase, ThroughputState
from spectui.speculative.counters import RoundTimes
from spectui.trace.terms import RoundTerms
from spectui.tui import draw
from spectui.tui.panels.base import (
    NOTABLE,
    Block,
    Line,
    Lines,
    Look,
    Panel,
    Part,
    Pen,
    any_of,
    block,
    charted,
    growing,
    labelled,
)

_HEIGHTS = range(1, 7)
_HOUR_MIN = 60
_LABEL = len("predicted ")
_NUMBER = len(" 10.00x")
_NAME = len("alpha ")
_ROUND_HEIGHTS = range(1, 4)
_PART = len("rollback ")
_MS = len(" 1234 ms")
_COST_LABEL = len("V(n)/V(1)")
_COLUMN = 6
_MAX_LENGTHS = 6


class ThroughputPanel(Panel[ThroughputState]):
    """Shows whether speculation pays, now."""

    heading = "Throughput"

    def blocks(self, state: ThroughputState, pen: Pen) -> Sequence[Block]:
        """Verdict, averages, history, prompt."""
        return (
            _headline(state, pen),
            growing(10, _averages(state, pen), step=30),
            _history(state, pen),
            block((60, _prompt(state))),
        )


def _headline(state: ThroughputState, pen: Pen) -> Block:
    """The speedup and the throughput: on a line, or in digits of three lines."""
    if state.phase is Phase.PROMPT:
        return block((0, ((("reading the prompt", Look.STRONG),),)))
    is_decoding = state.phase is Phase.DECODING
    value = state.now_tokens_per_s if is_decoding else state.turn_tokens_per_s
    if value is None:
        return block((0, pen.sentence("first round under way" if is_decoding else "no turn yet")))
    factor = state.speedup_now if is_decoding else state.speedup_turn
    speed: Line = (
        (draw.tokens_per_s(value), Look.STRONG),
        (" now" if is_decoding else " last turn", Look.MUTED),
    )
    arrowed, look = pen.factor(factor)
    one = pen.spread(speed, ((arrowed, look),))
    if factor is None or not pen.has_digits:
        return block((0, (one,)))
    beside: Lines = (speed, (), ((f"{_compared(factor)} the target alone", look),))
    large = pen.large(f"{factor:.2f}x", look)
    whole = tuple((*row, ("  ", ""), *line) for row, line in zip(large, beside, strict=False))
    return block((0, (one,)), (12, whole))


def _compared(factor: float) -> str:
    if abs(factor - 1) < NOTABLE:
        return "as fast as"
    return "faster than" if factor > 1 else "slower than"


def _averages(state: ThroughputState, pen: Pen) -> tuple[Lines, ...]:
    turn, baseline = state.turn_tokens_per_s, state.baseline_tokens_per_s
    alone = draw.tokens_per_s(baseline) if baseline else "not measured yet"
    baseline_line = pen.spread(labelled("target alone", alone), _age(state))
    session = labelled("session", draw.tokens_per_s(state.session_tokens_per_s))
    if turn is None or state.phase is not Phase.DECODING:
        both = baseline_line, session
        return ((baseline_line,), both) if state.session_tokens_per_s else ((baseline_line,),)
    average: Line = labelled("turn", draw.tokens_per_s(turn))
    short: Line = (*labelled("turn", draw.number(turn, 1)), *labelled("  alone", alone))
    factor = pen.factor(state.speedup_turn)
    two = pen.spread(average, (factor,)), baseline_line
    return (short,), two, (*two, session)


def _age(state: ThroughputState) -> Line:
    minutes = state.baseline_age_min
    if not minutes:
        return ()
    hours = minutes // _HOUR_MIN
    return ((f"{hours} h ago" if hours else f"{minutes} min ago", Look.MUTED),)


def _history(state: ThroughputState, pen: Pen) -> Block:
    if not any_of(state.history):
        return ()
    # With the baseline in the picture, a gain is seen as one.
    top = state.baseline_tokens_per_s

    def chart(height: int) -> Lines:
        return pen.chart(state.history, height, draw.per_s, maximum=top)

    return charted(20, 30, _HEIGHTS, chart)


def _prompt(state: ThroughputState) -> Lines:
    prompt = state.prompt
    if prompt is None:
        return ()
    took = f"{counted(prompt.n_tokens, 'token')} in {draw.duration(prompt.seconds)}"
    if prompt.n_reused:
        took += f", {prompt.n_reused} reused"
    return (labelled("prompt", took),)


class ExpectationPanel(Panel[ExpectationState]):
    """Shows three speedups, and the term that costs most."""

    heading = "Expectation"

    def blocks(self, state: ExpectationState, pen: Pen) -> Sequence[Block]:
        """The speedups, the loss, the inputs."""
        if state.reason is not None:
            why = block((0, pen.sentence(state.reason)))
            return (why, block((10, (_measured(state, pen),)))) if state.measured else (why,)
        return (
            growing(0, _speedups(state, pen), step=20),
            growing(10, _loss(state, pen), step=5),
            growing(30, _inputs(state.inputs, pen)),
        )


def _measured(state: ExpectationState, pen: Pen) -> Line:
    return ("measured ", Look.MUTED), pen.factor(state.measured)


def _speedups(state: ExpectationState, pen: Pen) -> tuple[Lines, ...]:
    ideal, predicted = (draw.speedup(value) for value in (state.ideal, state.predicted))
    estimates: Line = (*labelled("ideal", ideal), *labelled("  predicted", predicted))
    one = pen.spread(estimates, _measured(state, pen))
    rows = (
        ("ideal", state.ideal, Look.MUTED),
        ("predicted", state.predicted, Look.PLAIN),
        ("measured", state.measured, pen.factor(state.measured)[1]),
    )
    top = max((value for _name, value, _style in rows if value is not None), default=0.0)
    bars = tuple(
        pen.gauge(
            name.ljust(_LABEL),
            ratio(value, top) or 0.0,
            draw.speedup(value).rjust(_NUMBER),
            style,
        )
        for name, value, style in rows
    )
    short = (one,) if len(one) > len(estimates) else (estimates, _measured(state, pen))
    return short, bars


def _loss(state: ExpectationState, pen: Pen) -> tuple[Lines, ...]:
    if state.loss is None:
        return ()
    name, condition = LOSSES[state.loss]
    short: Line = (("loses most to ", Look.MUTED), (name, Look.STRONG))
    full = f"{draw.speedup(state.without_loss)} {condition}"
    if len(f"loses most to {name}: {full}") <= pen.width:
        return (((*short, (f": {full}", Look.MUTED)),),)
    return (short,), (short, *pen.sentence(full))


def _inputs(inputs: RoundTerms | None, pen: Pen) -> tuple[Lines, ...]:
    """Inputs of the prediction, in short and with explanations."""
    if inputs is None:
        return ()
    step_s = inputs.target_step_s
    values = (
        ("α", inputs.alpha, "acceptance of each next token"),
        ("γ", inputs.drafted, "drafted per round"),
        ("c", inputs.c, "draft step / V(1)"),
        ("D", inputs.again_s / step_s, "second draft pass / V(1)"),
        ("V", inputs.verify_ratio, "V(γ+1) / V(1)"),
        ("R", inputs.rollback_s / step_s, "rollback / V(1)"),
        ("S", (inputs.sample_s + inputs.fixed_s) / step_s, "sampling and the rest / V(1)"),
        ("T", inputs.off_s / step_s, "target's own token / V(1)"),
    )
    named = [(name, draw.number(value), meaning) for name, value, meaning in values]
    short = pen.sentence("  ".join(f"{name} {value}" for name, value, _m in named))
    rows = tuple(
        ((name.ljust(_NAME), Look.PLAIN), (value, Look.PLAIN), (f"  {meaning}", Look.MUTED))
        for name, value, meaning in named
    )
    formula = "predicted = T·(1-α^(γ+1)) / (1-α) / (γ·c + D + V + R + S)"
    return short, (*rows, *pen.sentence(formula))


class AcceptancePanel(Panel[AcceptanceState]):
    """Shows how good the draft is."""

    heading = "Acceptance"

    def blocks(self, state: AcceptanceState, pen: Pen) -> Sequence[Block]:
        """Headline, α and c, positions, strip of rounds."""
        return (
            block((0, _rate(state, pen))),
            block((20, _alpha(state, pen))),
            pen.positions(
                state.setting.conditional_acceptance, "by position, of rounds that reached it"
            ),
            _strips(state.recent, pen),
            block((90, _lengths(state.recent, pen))),
        )


def _rate(state: AcceptanceState, pen: Pen) -> Lines:
    if state.reason is not None:
        return pen.sentence(state.reason)
    rate, length = state.turn.acceptance_rate, state.turn.tokens_per_round
    return (pen.acceptance("rate", rate, length, Look.STRONG),)


def _alpha(state: AcceptanceState, pen: Pen) -> Lines:
    if state.setting.alpha is None:
        return ()
    alpha = labelled("α", draw.number(state.setting.alpha))
    c = labelled("c", draw.number(state.draft_step_ratio))
    rounds = (counted(state.turn.n_rounds, "round"), Look.MUTED)
    return (pen.spread((*alpha, ("  ", ""), *c), (rounds,)),)


def _strips(recent: Sequence[tuple[int, int]], pen: Pen) -> Block:
    """The last rounds, one mark per drafted token, the newest at the end."""
    if not recent:
        return ()
    legend: Line = (
        ("■", Look.DRAFT),
        (" accepted ", Look.MUTED),
        ("□", Look.REJECTED),
        (" rejected ", Look.MUTED),
        ("▪", Look.MUTED),
        (" no draft", Look.MUTED),
    )
    one, two, three = (_strip(recent, n_lines, pen) for n_lines in (1, 2, 3))
    return block((10, one), (50, two), (70, (*two, legend)), (80, (*three, legend)))


def _lengths(recent: Sequence[tuple[int, int]], pen: Pen) -> Lines:
    """In how many rounds so many tokens were accepted."""
    counts = Counter(n_accepted for n_drafted, n_accepted in recent if n_drafted)
    if not counts:
        return ()
    rows = range(min(max(counts), _MAX_LENGTHS) + 1)
    most = max(counts.values())
    return (
        (("rounds by accepted tokens", Look.MUTED),),
        *(pen.gauge(f"{n:>3} ", counts[n] / most, f"{counts[n]:>5}", Look.DRAFT) for n in rows),
    )


def _strip(recent: Sequence[tuple[int, int]], n_lines: int, pen: Pen) -> Lines:
    lines: list[list[Part]] = [[]]
    room = pen.width
    for n_drafted, n_accepted in reversed(recent):
        marks = n_drafted or 1
        if marks + 1 > room:
            if len(lines) == n_lines:
                break
            lines.append([])
            room = pen.width
        room -= marks + 1
        # Built from the newest round on: both parts in reverse.
        lines[-1] += _marks(n_drafted, n_accepted)
    return tuple(tuple(reversed(line)) for line in reversed(lines))


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

    heading = "Round"

    def blocks(self, state: RoundState, pen: Pen) -> Sequence[Block]:
        """Bottleneck, parts, verify cost, history."""
        if state.times is None:
            return (block((0, pen.sentence(state.reason or ""))),)
        return (
            growing(10, _bottleneck(state, pen), step=25),
            growing(0, _parts(state.times, pen), step=15),
            block((12, (_totals(state, pen),))),
            block((40, _costs(state.verify_costs, pen))),
            _durations(state.history_s, pen),
        )


def _bottleneck(state: RoundState, pen: Pen) -> tuple[Lines, ...]:
    if state.bottleneck is None:
        return ()
    limit, reason = state.bottleneck
    name: Line = (("limited by ", Look.MUTED), (str(limit), Look.STRONG))
    if len(f"limited by {limit}: {reason}") <= pen.width:
        return (((*name, (f": {reason}", Look.MUTED)),),)
    return (name,), (name, *pen.sentence(reason))


def _parts(times: RoundTimes, pen: Pen) -> tuple[Lines, ...]:
    named = (
        ("draft", times.draft_s, Look.DRAFT),
        ("verify", times.verify_s, Look.TARGET),
        ("sample", times.sample_s, Look.PLAIN),
        ("rollback", times.rollback_s, Look.REJECTED),
        ("other", times.other_s, Look.MUTED),
    )
    seconds = [part_s for _name, part_s, _style in named]
    bars = draw.stacked(seconds, times.total_s, pen.width)
    one: Line = tuple((text, style) for text, (_name, _s, style) in zip(bars, named, strict=True))
    two: Lines = (one, _largest(named, bars, pen))
    return (one,), two, _waterfall(named, times.total_s, pen)


def _largest(named: Sequence[tuple[str, float, str]], bars: Sequence[str], pen: Pen) -> Line:
    """Legend of the two parts that take longest."""
    legends = [
        (part_s, f"{text[:1] or ' '} {name} {draw.duration(part_s)}", style)
        for (name, part_s, style), text in zip(named, bars, strict=True)
    ]
    first, second = sorted(legends, key=lambda legend: legend[0], reverse=True)[:2]
    return pen.spread(((first[1], first[2]),), ((second[1], second[2]),))


def _waterfall(named: Sequence[tuple[str, float, str]], total_s: float, pen: Pen) -> Lines:
    """One line per part, each where in the round it happens."""
    room = max(pen.width - _PART - _MS, 0)
    bars = draw.stacked([part_s for _name, part_s, _style in named], total_s, room)
    lines: list[Line] = []
    offset = 0
    for (name, part_s, style), text in zip(named, bars, strict=True):
        cells = (" " * offset + text).ljust(room)
        number = draw.duration(part_s).rjust(_MS)
        lines.append(((name.ljust(_PART), Look.MUTED), (cells, style), (number, "")))
        offset += len(text)
    return tuple(lines)


def _totals(state: RoundState, pen: Pen) -> Line:
    total_s = state.times.total_s if state.times is not None else None
    left: Line = labelled("round", draw.duration(total_s))
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
    return (
        (("n".ljust(_COST_LABEL), Look.MUTED), (sizes, Look.MUTED)),
        (("V(n)/V(1)".ljust(_COST_LABEL), Look.MUTED), (ratios, "")),
    )


def _durations(durations_s: Sequence[float | None], pen: Pen) -> Block:
    """Durations of the last rounds."""

    def chart(height: int) -> Lines:
        return pen.chart(durations_s, height, draw.duration)

    return charted(50, 1, _ROUND_HEIGHTS, chart)
