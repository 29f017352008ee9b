"""Text output of ``spectui replay``: a table of settings, and a summary."""

from collections.abc import Callable, Collection, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spectui.cli.drawing import page_width, width_of, wrapped
from spectui.format import counted, percent_text
from spectui.trace.costs import Costs
from spectui.trace.replay import Total
from spectui.tune.explain import Explanation

_UNSTEADY = 0.15
"""Spread of the machine's speed above which predictions are rough."""
_MOST = 200
"""Maximum number of rows of a table."""
_NAME = "draft"
_ROOM, _LITTLE_ROOM = 20, 12
"""Minimum width in cells of the columns of names, which are folded."""
_LEAST = {
    **dict.fromkeys(("per round", "rate", "tokens/s"), _ROOM),
    **dict.fromkeys(("speedup", "min", "p_min", "accepted", "drafted"), _LITTLE_ROOM),
}
"""Columns to drop from a narrow table, in this order, with the width of names that they give way
to: derived values go before settings and counts."""


def _label(total: Total) -> str:
    """The drafter's name; for n-gram drafters also the numbers that have no column."""
    ngrams = [f"{one.kind}, {one.summary}".removesuffix(", ") for one in total.speculation.ngrams]
    return " + ".join([*ngrams, *filter(None, [total.draft])])


def _setting(total: Total, name: str) -> str:
    """A number of the draft's setting; n-gram drafters have none."""
    return f"{total.speculation.own.numbers.get(name, 0):g}"


def replay_table(totals: Sequence[Total], best: Total) -> RenderableType:
    """Table with as many rows and columns as fit, and lines on the omitted ones."""
    shown = _fastest(totals)
    longest = max(cell_len(name) for name in (_NAME, *map(_label, shown)))
    hidden: list[str] = []
    table = _columns(shown, best, hidden)
    for heading, room in _LEAST.items():
        if width_of(table) - max(0, longest - room) > page_width():
            hidden.append(heading)
            table = _columns(shown, best, hidden)
    left_out = ", ".join(heading for heading in _CELLS if heading in hidden)
    notes = [f"Left out for want of room: {left_out}; --json has them."] * bool(hidden)
    if len(shown) < len(totals):
        which = "first" if best.speedup is None else "fastest"
        n_settings = counted(len(totals), "setting")
        notes.append(f"These are the {len(shown)} {which} of {n_settings}; --json has all.")
    return Group(table, *(Text(wrapped(note)) for note in notes))


def _fastest(totals: Sequence[Total]) -> Sequence[Total]:
    """The fastest settings that fit in a table, in their order; without speeds the first ones."""
    if len(totals) <= _MOST:
        return totals
    order = sorted(range(len(totals)), key=lambda index: -(totals[index].speedup or 0.0))
    return [totals[index] for index in sorted(order[:_MOST])]


def _columns(totals: Sequence[Total], best: Total, hidden: Collection[str]) -> Table:
    table = Table(box=None, header_style="bold")
    headings = tuple(heading for heading in _CELLS if heading not in hidden)
    for heading in headings:
        if heading == _NAME:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for total in totals:
        style = "bold green" if total is best and total.speedup else ""
        table.add_row(*(_CELLS[heading](total) for heading in headings), style=style)
    return table


_CELLS: dict[str, Callable[[Total], str]] = {
    _NAME: _label,
    "max": lambda total: str(total.speculation.own.longest),
    "min": lambda total: _setting(total, "draft_min"),
    "p_min": lambda total: _setting(total, "draft_p_min"),
    "drafted": lambda total: str(total.n_drafted),
    "accepted": lambda total: str(total.n_accepted),
    "rate": lambda total: percent_text(total.acceptance_rate, 1),
    "per round": lambda total: _number(total.tokens_per_round, ".2f"),
    "tokens/s": lambda total: _number(total.tokens_per_s, ".2f"),
    "speedup": lambda total: _number(total.speedup, ".2f"),
}
"""Functions for the cells under each heading."""


def replay_summary(
    totals: Sequence[Total],
    best: Total,
    n_prompts: int,
    explanation: Explanation,
    costs: Costs | None,
) -> str:
    """Summary: number of replays, the best setting, its explanation, and its reliability."""
    n_settings, n_recorded = counted(len(totals), "setting"), counted(n_prompts, "prompt")
    lines = [f"{n_settings} replayed on {n_recorded}. Counts are exact."]
    if best.speedup:
        lines += [_prediction(best, best.speedup), explanation.text]
    if costs is not None:
        lines += _doubts(best, costs)
    return "\n".join(map(wrapped, lines))


def _prediction(best: Total, speedup: float) -> str:
    model = best.speculation.model
    numbers = {} if model is None else model.numbers
    setting = ", ".join((_label(best), *(f"{name} {value:g}" for name, value in numbers.items())))
    if not best.n_drafted:
        return f"Predicted best: off. The nearest, {setting}, drafts nothing on these prompts."
    if speedup > 1:
        return (
            f"Predicted best: {setting}: {speedup:.2f}× the target alone; spectui tune measures it."
        )
    return (
        f"Predicted best: off. None of these is faster than the target alone; the nearest is "
        f"{setting}, at {speedup:.2f}×."
    )


def _doubts(best: Total, costs: Costs) -> Iterator[str]:
    """Yield why the predictions may be wrong."""
    if costs.spread is not None and costs.spread > _UNSTEADY:
        yield (
            f"The machine was unsteady by {percent_text(costs.spread)} while costs were measured: "
            "take tokens/s and speedups as rough, or record again with nothing else running."
        )
    if best.speculation.longest > costs.lengths[-1]:
        yield (
            f"No round of more than {costs.lengths[-1]} drafted tokens was measured: what longer "
            "ones cost is drawn on along a line."
        )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
