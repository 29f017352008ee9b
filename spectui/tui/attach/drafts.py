"""How much of an attached server's drafts counts."""

from collections.abc import Sequence
from functools import partial

from spectui.models.sizes import counted
from spectui.server.watch.state import DraftState
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
    shortened,
)
from spectui.tui.panels.positions import positions

_HEIGHTS = range(1, 4)


class DraftsPanel(Panel[DraftState]):
    """Shows acceptance since the server's start, and of the requests that ended last."""

    heading = "Acceptance"

    def blocks(self, state: DraftState, width: int, glyphs: Glyphs) -> Sequence[Block]:
        """Headline, the last requests, positions, history, counts."""
        if state.reason is not None or state.overall is None:
            reason = sentence(state.reason or "", MUTED, width, glyphs)
            return (growing(0, shortened(reason)),)
        shares = state.overall.share_per_position
        return (
            block((0, _headline(state, width, glyphs))),
            block((10, _last(state, width, glyphs))),
            positions(shares, "accepted by position, of all drafts", width, glyphs),
            _history(state, width, glyphs),
            block((50, _counts(state, width, glyphs))),
        )


def _headline(state: DraftState, width: int, glyphs: Glyphs) -> Lines:
    if state.overall is None:
        return ()
    rate = labelled("rate", units.number(state.overall.acceptance_rate, glyphs), STRONG)
    length = units.number(state.overall.mean_accepted_length, glyphs)
    return (spread(rate, ((f"{length} tokens/round", STRONG),), width),)


def _last(state: DraftState, width: int, glyphs: Glyphs) -> Lines:
    if state.last is None:
        return ()
    rate = labelled("last request", units.number(state.last.acceptance_rate, glyphs))
    length = units.number(state.last.mean_accepted_length, glyphs)
    return (spread(rate, ((f"{length} tokens/round", MUTED),), width),)


def _history(state: DraftState, width: int, glyphs: Glyphs) -> Block:
    if not any_of(state.history):
        return ()

    def draw(height: int) -> Lines:
        label: Line = (("rate of each request", MUTED),)
        return (label, *chart(state.history, width, height, glyphs, DRAFT, maximum=1.0))

    return charted(70, 10, ((1 + height, partial(draw, height)) for height in _HEIGHTS))


def _counts(state: DraftState, width: int, glyphs: Glyphs) -> Lines:
    counts = state.overall
    if counts is None:
        return ()
    text = (
        f"{counts.n_accepted:,} of {counts.n_drafted:,} tokens "
        f"in {counted(counts.n_drafts, 'draft')}"
    )
    if state.drafters:
        text += f" of {', '.join(state.drafters)}"
    return sentence(text, MUTED, width, glyphs)
