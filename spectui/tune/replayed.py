"""Settings that were replayed on a trace, as a page and as a document."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from spectui.documents import Json, fields_of, head
from spectui.format import counted, percent_text
from spectui.options.drafters import DraftSimple, numbers_of
from spectui.page import Page, Paragraph, Part, Table, Words
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
_NUMBERS = numbers_of(DraftSimple)
_OTHERS = tuple(one.short for one in _NUMBERS if not one.bounds_drafts)
_LEAST = {
    **dict.fromkeys(("per round", "rate", "tokens/s"), _ROOM),
    **dict.fromkeys(("speedup", *_OTHERS, "accepted", "drafted"), _LITTLE_ROOM),
}
"""Columns to drop from a narrow table, in this order, with the width of names that they give way
to: derived values go before settings and counts."""


def replay_document(
    path: Path, totals: Sequence[Total], explanation: Explanation, costs: Mapping[str, Costs]
) -> Json:
    """``spectui.replay/1``: replayed settings of the trace at ``path``, and costs of rounds."""
    return {
        **head("replay"),
        "trace": str(path),
        "configs": [_config(total) for total in totals],
        **explanation.document(),
        "costs": {name: measured.document() for name, measured in costs.items()},
    }


_NO_COSTS = "the trace holds no costs: they were left out, or nothing was drafted to measure"


def _config(total: Total) -> Json:
    return {
        "draft": total.draft,
        **total.speculation.document(),
        "rounds_by_n_drafted": list(total.batches),
        **fields_of(total, "", "n_rounds", "n_drafted", "n_accepted", "n_rejections"),
        **fields_of(total, "nothing was drafted", "acceptance_rate"),
        **fields_of(total, "no round was run", "mean_accepted_length"),
        **fields_of(total, _NO_COSTS, "tokens_per_s", "speedup"),
    }


def _label(total: Total) -> str:
    """The drafter's name; for n-gram drafters also the numbers that have no column."""
    ngrams = [f"{one.kind}, {one.summary}".removesuffix(", ") for one in total.speculation.ngrams]
    return " + ".join([*ngrams, *filter(None, [total.draft])])


def _setting(total: Total, *, name: str) -> str:
    """A number of the draft's setting."""
    return f"{total.speculation.numbers[name]:g}"


def replay_page(
    totals: Sequence[Total],
    best: Total,
    n_prompts: int,
    explanation: Explanation,
    costs: Costs | None,
) -> Page:
    """The settings in a table, the best one, its explanation, and its reliability.

    Args:
        totals: results of all settings.
        best: the fastest.
        n_prompts: recorded prompts.
        explanation: of the best one.
        costs: of its rounds; None without.
    """
    shown = _fastest(totals)
    page: list[Part] = [_table(shown, best)]
    n_settings, n_recorded = counted(len(totals), "setting"), counted(n_prompts, "prompt")
    if len(shown) < len(totals):
        which = "first" if best.speedup is None else "fastest"
        these = f"These are the {len(shown)} {which} of {n_settings}; --json has all."
        page.append(Paragraph(these))
    lines = [f"{n_settings} replayed on {n_recorded}. Counts are exact."]
    if best.speedup:
        lines += [_prediction(best, best.speedup), explanation.text]
    if costs is not None:
        lines += _doubts(best, costs)
    return [*page, "", *map(Paragraph, lines)]


def _fastest(totals: Sequence[Total]) -> Sequence[Total]:
    """The fastest settings that fit in a table, in their order; without speeds the first ones."""
    if len(totals) <= _MOST:
        return totals
    order = sorted(range(len(totals)), key=lambda index: -(totals[index].speedup or 0.0))
    return [totals[index] for index in sorted(order[:_MOST])]


def _table(totals: Sequence[Total], best: Total) -> Table:
    return Table(
        [Words(one) if one == _NAME else one for one in _CELLS],
        [[cell(total) for cell in _CELLS.values()] for total in totals],
        row_styles=["bold green" if one is best and one.speedup else "" for one in totals],
        leaving=_LEAST,
        left_out="--json has them.",
    )


_CELLS: dict[str, Callable[[Total], str]] = {
    _NAME: _label,
    **{one.short: partial(_setting, name=one.name) for one in _NUMBERS},
    "drafted": lambda total: str(total.n_drafted),
    "accepted": lambda total: str(total.n_accepted),
    "rate": lambda total: percent_text(total.acceptance_rate, 1),
    "per round": lambda total: _number(total.tokens_per_round, ".2f"),
    "tokens/s": lambda total: _number(total.tokens_per_s, ".2f"),
    "speedup": lambda total: _number(total.speedup, ".2f"),
}
"""Functions for the cells under each heading."""


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


def cliff_warnings(costs: Costs) -> Iterator[str]:
    """Yield a line for each length from which on a batch suddenly costs more."""
    curve = tuple(zip(costs.lengths, costs.verify_s, strict=True))
    for (n, near), (m, far) in pairwise(curve):
        if m in costs.cliffs:
            yield (
                f"warning: verifying has a cliff: {m + 1} tokens take {far / near:.1f} times as "
                f"long as {n + 1}; keep draft_max below {m}."
            )


def _doubts(best: Total, costs: Costs) -> Iterator[str]:
    """Yield why the predictions may be wrong."""
    yield from cliff_warnings(costs)
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
