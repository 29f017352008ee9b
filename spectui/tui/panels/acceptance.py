"""How much of the draft counts: rate, length, by position, round by round."""

from collections.abc import Sequence

from spectui.live.acceptance import AcceptanceState
from spectui.models.sizes import counted
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, Part, block, spread
from spectui.tui.panels.paint import DRAFT, MUTED, REJECTED, STRONG, labelled, own, sentence
from spectui.tui.widgets.charts import bar, spark

_COLUMN = 5
"""Cells of a position with its number under it: ``0.92`` and a gap."""
_MAX_ROWS = 8


class AcceptancePanel(Panel[AcceptanceState]):
    """Shows how good the draft is."""

    heading = "Acceptance"

    def blocks(self, state: AcceptanceState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, α and c, positions, strip of rounds."""
        return (
            block((0, _headline(state, width, glyphs))),
            block((20, _alpha(state, width, glyphs))),
            _positions(state.conditional, width, glyphs),
            _strips(state.recent, width, glyphs),
        )


def _headline(state: AcceptanceState, width: int, glyphs: Glyphs) -> Lines:
    if state.reason is not None:
        return sentence(state.reason, MUTED, width, glyphs)
    rate = labelled("rate", units.number(state.acceptance_rate, glyphs), STRONG)
    length = units.number(state.mean_accepted_length, glyphs)
    return (spread(rate, ((f"{length} tokens/round", STRONG),), width),)


def _alpha(state: AcceptanceState, width: int, glyphs: Glyphs) -> Lines:
    if state.alpha is None:
        return ()
    alpha = labelled(own("α", glyphs), units.number(state.alpha, glyphs))
    c = labelled("c", units.number(state.draft_step_ratio, glyphs))
    rounds = (counted(state.n_rounds, "round"), MUTED)
    return (spread((*alpha, ("  ", ""), *c), (rounds,), width),)


def _positions(conditional: Sequence[float | None], width: int, glyphs: Glyphs) -> Block:
    if not conditional:
        return ()
    one: Line = (
        ("by position ", MUTED),
        (spark(conditional, len(conditional), glyphs, maximum=1.0)[0], DRAFT),
    )
    shown = conditional[: width // _COLUMN]
    bars = "".join(spark([rate], 1, glyphs, maximum=1.0)[0] * (_COLUMN - 1) + " " for rate in shown)
    numbers = "".join(units.number(rate, glyphs).ljust(_COLUMN) for rate in shown)
    two: Lines = (((bars, DRAFT),), ((numbers, MUTED),))
    rows = tuple(
        _row(position, rate, width, glyphs)
        for position, rate in enumerate(conditional[:_MAX_ROWS], start=1)
    )
    title: Line = (("by position, of rounds that reached it", MUTED),)
    return block((30, (one,)), (40, two), (60, (title, *rows)))


def _row(position: int, rate: float | None, width: int, glyphs: Glyphs) -> Line:
    label, number = f"{position:>2} ", units.number(rate, glyphs).rjust(_COLUMN)
    room = max(width - len(label) - len(number), 0)
    return (label, MUTED), (bar(rate or 0.0, room, glyphs), DRAFT), (number, "")


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
