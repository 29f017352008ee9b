"""What two formulas promise, beside what was measured."""

from collections.abc import Sequence

from spectui.live.expectation import ExpectationState
from spectui.speculative.expectation import RoundModel
from spectui.tui import units
from spectui.tui.glyphs import Glyphs
from spectui.tui.panels.base import Panel
from spectui.tui.panels.blocks import Block, Line, Lines, block, growing, spread
from spectui.tui.panels.paint import (
    CACHE,
    DRAFT,
    MUTED,
    PLAIN,
    STRONG,
    TARGET,
    labelled,
    own,
    sentence,
    speedup,
)
from spectui.tui.widgets.charts import bar

_LABEL = len("Leviathan ")
_NUMBER = len(" 10.00x")
_NAME = len("alpha ")


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
    leviathan, full = (units.speedup(value, glyphs) for value in (state.leviathan, state.full))
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
            (units.speedup(value, glyphs).rjust(_NUMBER), PLAIN),
        )
        for name, value, style in rows
    )
    short = (one,) if len(one) > len(estimates) else (estimates, _measured(state, glyphs))
    return short, bars


def _bar(value: float | None, top: float, width: int, glyphs: Glyphs) -> str:
    share = value / top if value is not None and top > 0 else 0.0
    return bar(share, max(width - _LABEL - _NUMBER, 0), glyphs)


def _loss(state: ExpectationState, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    if state.loss is None:
        return ()
    term, without = state.loss.term, units.speedup(state.loss.speedup_without, glyphs)
    short: Line = (("loses most to ", MUTED), (str(term), STRONG))
    full = f"{without} {state.loss.condition}"
    if len(f"loses most to {term}: {full}") <= width:
        return (((*short, (f": {full}", MUTED)),),)
    return (short,), (short, *sentence(full, MUTED, width, glyphs))


def _inputs(inputs: RoundModel | None, width: int, glyphs: Glyphs) -> tuple[Lines, ...]:
    """What the full estimate is made of, in short and with explanations."""
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
        (own(name, glyphs), units.number(value, glyphs), own(meaning, glyphs))
        for name, value, meaning in values
    ]
    short = sentence(
        "  ".join(f"{name} {value}" for name, value, _m in named), MUTED, width, glyphs
    )
    rows = tuple(
        ((name.ljust(_NAME), PLAIN), (value, PLAIN), (f"  {meaning}", MUTED))
        for name, value, meaning in named
    )
    formula = own("full = (1-α^(γ+1)) / (1-α) / (γ·c + V + R)", glyphs)
    return short, (*rows, *sentence(formula, MUTED, width, glyphs))
