"""How much of the draft counts: rate, length, by position, round by round."""

from collections.abc import Sequence

from spectui.live.acceptance import AcceptanceState
from spectui.models.sizes import counted
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, Part, block, spread
from spectui.tui.panels.paint import DRAFT, MUTED, REJECTED, STRONG, labelled, own, sentence
from spectui.tui.panels.positions import positions


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
    rate = labelled("rate", units.number(state.acceptance_rate, glyphs), STRONG)
    length = units.number(state.tokens_per_round, glyphs)
    return (spread(rate, ((f"{length} tokens/round", STRONG),), width),)


def _alpha(state: AcceptanceState, width: int, glyphs: Glyphs) -> Lines:
    if state.alpha is None:
        return ()
    alpha = labelled(own("α", glyphs), units.number(state.alpha, glyphs))
    c = labelled("c", units.number(state.draft_step_ratio, glyphs))
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
