"""The live panels: does speculation pay, how good is the draft, where does a round's time go."""

from collections.abc import Iterator, Sequence

from spectui.format import counted, time_text, times_text
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
from spectui.tui import draw
from spectui.tui.panels.base import Block, Line, Lines, Look, Panel, Part, Pen, any_of, labelled

_LABEL = len("predicted ")
_NUMBER = len(" 10.00x")
_PART = len("rollback ")
_MS = len(" 1234 ms")
_COST_LABEL = len("V(n)/V(1)")
_COLUMN = 6


class ThroughputPanel(Panel[ThroughputState]):
    """Shows whether speculation pays, now."""

    heading = "Throughput"

    def blocks(self, state: ThroughputState, pen: Pen) -> Iterator[Block]:
        """Verdict, baseline, history, prompt."""
        yield Block(0, _headline(state, pen))
        baseline = state.baseline_tokens_per_s
        alone = draw.tokens_per_s(baseline) if baseline else "not measured yet"
        yield Block(10, (pen.spread(labelled("target alone", alone), _age(state)),))
        if any_of(state.history):
            # With the baseline in the picture, a gain is seen as one.
            yield Block(
                20,
                chart=lambda height: pen.chart(state.history, height, draw.per_s, maximum=baseline),
            )
        yield Block(60, _prompt(state))


def _headline(state: ThroughputState, pen: Pen) -> Lines:
    if state.phase is Phase.PROMPT:
        return ((("reading the prompt", Look.STRONG),),)
    is_decoding = state.phase is Phase.DECODING
    value = state.now_tokens_per_s if is_decoding else state.turn_tokens_per_s
    if value is None:
        return pen.sentence("first round under way" if is_decoding else "no turn yet")
    factor = state.speedup_now if is_decoding else state.speedup_turn
    speed: Line = (
        (draw.tokens_per_s(value), Look.STRONG),
        (" now" if is_decoding else " last turn", Look.MUTED),
    )
    return (pen.spread(speed, (pen.factor(factor),)),)


def _age(state: ThroughputState) -> Line:
    minutes = state.baseline_age_min
    return ((f"{minutes} min ago", Look.MUTED),) if minutes else ()


def _prompt(state: ThroughputState) -> Lines:
    prompt = state.prompt
    if prompt is None:
        return ()
    took = f"{counted(prompt.n_tokens, 'token')} in {time_text(prompt.seconds)}"
    if prompt.n_reused:
        took += f", {prompt.n_reused} reused"
    return (labelled("prompt", took),)


class ExpectationPanel(Panel[ExpectationState]):
    """Shows three speedups, and the term that costs most."""

    heading = "Expectation"

    def blocks(self, state: ExpectationState, pen: Pen) -> Iterator[Block]:
        """The speedups, and the loss."""
        if state.reason is not None:
            yield from pen.told(0, state.reason)
        rows = (
            (0, "measured", state.measured, pen.factor(state.measured)[1]),
            (5, "predicted", state.predicted, Look.PLAIN),
            (15, "ideal", state.ideal, Look.MUTED),
        )
        top = max((value for _rank, _name, value, _look in rows if value is not None), default=0.0)
        for rank, name, value, look in rows:
            if value is not None:
                share, told = ratio(value, top) or 0.0, times_text(value).rjust(_NUMBER)
                yield Block(rank, (pen.gauge(name.ljust(_LABEL), share, told, look),))
        if state.loss is not None:
            name, condition = LOSSES[state.loss]
            loss: Line = (("loses most to ", Look.MUTED), (name, Look.STRONG))
            yield Block(10, (loss,))
            yield Block(20, pen.sentence(f"{times_text(state.without_loss)} {condition}"))


class AcceptancePanel(Panel[AcceptanceState]):
    """Shows how good the draft is."""

    heading = "Acceptance"

    def blocks(self, state: AcceptanceState, pen: Pen) -> Iterator[Block]:
        """Headline, positions, strip of rounds."""
        if state.reason is not None:
            yield from pen.told(0, state.reason)
        else:
            rate, length = state.turn.acceptance_rate, state.turn.tokens_per_round
            yield Block(0, (pen.acceptance("rate", rate, length, Look.STRONG),))
            rounds = counted(state.turn.n_rounds, "round")
            yield Block(20, (((rounds, Look.MUTED),),))
        if shares := state.setting.conditional_acceptance:
            yield Block(40, ((("by position, of rounds that reached it", Look.MUTED),),))
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

    heading = "Round"

    def blocks(self, state: RoundState, pen: Pen) -> Iterator[Block]:
        """Bottleneck, parts, verify cost, history."""
        if state.times is None:
            yield from pen.told(0, state.reason or "")
            return
        if state.bottleneck is not None:
            limit, reason = state.bottleneck
            yield Block(10, ((("limited by ", Look.MUTED), (str(limit), Look.STRONG)),))
            yield Block(35, pen.sentence(reason))
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
        bar = (" " * offset + text).ljust(room)
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
    return (
        (("n".ljust(_COST_LABEL), Look.MUTED), (sizes, Look.MUTED)),
        (("V(n)/V(1)".ljust(_COST_LABEL), Look.MUTED), (ratios, "")),
    )
