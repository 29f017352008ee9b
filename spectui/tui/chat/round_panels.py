"""Panels of the rounds: how much of the draft counts, and where the time goes."""

from collections.abc import Sequence

from spectui.format import counted
from spectui.live.rounds import AcceptanceState, RoundState, VerifyCost
from spectui.speculative.counters import RoundTimes
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import (
    CACHE,
    COMPUTE,
    DRAFT,
    MUTED,
    REJECTED,
    STRONG,
    TARGET,
    Block,
    Line,
    Lines,
    Panel,
    Part,
    block,
    chart,
    charted,
    growing,
    labelled,
    positions,
    sentence,
    spread,
)

_HEIGHTS = range(1, 4)
_LABEL = len("rollback ")
_NUMBER = len(" 1234 ms")
_COST_LABEL = len("V(n)/V(1)")
_COLUMN = 6


class AcceptancePanel(Panel[AcceptanceState]):
    """Shows how good the draft is."""

    heading = "Acceptance"

    def blocks(self, state: AcceptanceState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, α and c, positions, strip of rounds."""
        return (
            block((0, _headline(state, width, glyphs))),
            block((20, _alpha(state, width, glyphs))),
            positions(state.conditional, "by position, of rounds that reached it", width, glyphs),
            _strips(state.recent, width, glyphs),
        )


def _headline(state: AcceptanceState, width: int, glyphs: Glyphs) -> Lines:
    if state.reason is not None:
        return sentence(state.reason, MUTED, width, glyphs)
    rate = labelled("rate", glyphs.number(state.acceptance_rate), STRONG)
    length = glyphs.number(state.tokens_per_round)
    return (spread(rate, ((f"{length} tokens/round", STRONG),), width),)


def _alpha(state: AcceptanceState, width: int, glyphs: Glyphs) -> Lines:
    if state.alpha is None:
        return ()
    alpha = labelled(glyphs.spelt("α"), glyphs.number(state.alpha))
    c = labelled("c", glyphs.number(state.draft_step_ratio))
    rounds = (counted(state.n_rounds, "round"), MUTED)
    return (spread((*alpha, ("  ", ""), *c), (rounds,), width),)


def _strips(recent: Sequence[tuple[int, int]], width: int, glyphs: Glyphs) -> Block:
    """The last rounds, one mark per drafted token, the newest at the end."""
    if not recent:
        return ()
    legend: Line = (
        (glyphs.accepted, DRAFT),
        (" accepted ", MUTED),
        (glyphs.rejected, REJECTED),
        (" rejected ", MUTED),
        (glyphs.bonus, MUTED),
        (" no draft", MUTED),
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
        return (" ", ""), (glyphs.bonus, MUTED)
    return (
        (" ", ""),
        (glyphs.rejected * (n_drafted - n_accepted), REJECTED),
        (glyphs.accepted * n_accepted, DRAFT),
    )


class RoundPanel(Panel[RoundState]):
    """Shows the mean of the last rounds."""

    heading = "Round"

    def blocks(self, state: RoundState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Bottleneck, parts, verify cost, history."""
        if state.times is None:
            return (block((0, sentence(state.reason or "", MUTED, width, glyphs))),)
        return (
            growing(10, _bottleneck(state, width, glyphs), step=25),
            growing(0, _parts(state.times, width, glyphs), step=15),
            block((12, (_totals(state, width, glyphs),))),
            block((40, _costs(state.verify_costs, width, glyphs))),
            _history(state.history_s, width, glyphs),
        )


def _bottleneck(state: RoundState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    if state.bottleneck is None:
        return ()
    limit, reason = state.bottleneck
    name: Line = (("limited by ", MUTED), (str(limit), STRONG))
    if len(f"limited by {limit}: {reason}") <= width:
        return (((*name, (f": {reason}", MUTED)),),)
    return (name,), (name, *sentence(reason, MUTED, width, glyphs))


def _parts(times: RoundTimes, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    named = (
        ("draft", times.draft_s, DRAFT),
        ("verify", times.verify_s, TARGET),
        ("sample", times.sample_s, CACHE),
        ("rollback", times.rollback_s, COMPUTE),
        ("other", times.other_s, MUTED),
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
    room = max(width - _LABEL - _NUMBER, 0)
    bars = glyphs.stacked([part_s for _name, part_s, _style in named], total_s, room)
    lines: list[Line] = []
    offset = 0
    for (name, part_s, style), text in zip(named, bars, strict=True):
        cells = (" " * offset + text).ljust(room)
        number = glyphs.duration(part_s).rjust(_NUMBER)
        lines.append(((name.ljust(_LABEL), MUTED), (cells, style), (number, "")))
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
        (("n".ljust(_COST_LABEL), MUTED), (sizes, MUTED)),
        (("V(n)/V(1)".ljust(_COST_LABEL), MUTED), (ratios, "")),
    )


def _history(durations_s: Sequence[float | None], width: int, glyphs: Glyphs) -> Block:
    """Durations of the last rounds."""

    def draw(height: int) -> Lines:
        return chart(durations_s, width, height, glyphs, TARGET)

    return charted(50, 1, _HEIGHTS, draw)
