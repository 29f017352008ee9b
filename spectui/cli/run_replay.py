"""Runs ``spectui replay`` with parsed options."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spectui.cli.drafting import replayed_ahead, replayed_ngrams
from spectui.cli.drawing import Words, drawn, page_width, table, width_of, wrapped
from spectui.cli.output import check_writable, write_result
from spectui.cli.replay import MAX, OTHERS, Replay
from spectui.documents import head
from spectui.errors import UsageError
from spectui.format import counted, percent_text
from spectui.options.drafters import DraftSimple, Ngram, numbers_of
from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.trace.file import read_trace
from spectui.trace.grid import Grid
from spectui.trace.ngrams import (
    NGRAM_COSTS,
    costs_beside,
    hashes_tokens,
    ngram_costs,
    replay_settings,
)
from spectui.trace.record import Trace
from spectui.trace.replay import Total, replay_trace
from spectui.tune.explain import Explanation, explain_replayed
from spectui.tune.space import SearchSpace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Settings to replay."""

    draft_max: tuple[int, ...] | None
    """Longest drafts to replay; None for all lengths of the trace."""
    others: Mapping[str, Any]
    """Lists of values of a draft model's other numbers."""
    drafts: tuple[str, ...]
    """Drafts to replay; empty for all of the trace."""
    ngrams: tuple[Speculation, ...]
    ahead: tuple[tuple[Ngram, ...], ...]
    """Sequences of n-gram drafters to ask before every draft."""


def replay(request: Replay) -> None:
    """Read the trace, replay it, and print the results.

    Raises:
        UsageError: the trace does not know a draft, not for drafts that long, or not the tokens
            that an n-gram drafter needs.
    """
    given, path, json_path = request.given, request.trace, request.json_path
    wanted = Wanted(
        draft_max=given[MAX.parameter],
        others={number.name: given[number.parameter] for number in OTHERS},
        drafts=request.drafts,
        ngrams=tuple(replayed_ngrams(given)),
        ahead=tuple(replayed_ahead(given)),
    )
    check_writable(json_path, (path,))
    trace = read_trace(path)
    wanted = _with_what_there_is(wanted, trace)
    _check(wanted, trace)
    totals = [
        *_with_drafts(wanted, trace),
        *replay_settings(trace.recordings, wanted.ngrams, ngram_costs(trace.costs)),
    ]
    best = max(totals, key=lambda total: total.speedup or 0.0)
    own = costs_beside(trace.costs, best.draft)
    explanation = explain_replayed(best, own)
    known = _costs(wanted, trace)
    text = drawn(_replay_table(totals, best))
    summary = _replay_summary(totals, best, len(trace.recordings), explanation, own)
    write_result(
        _replay_document(path, totals, explanation, known), f"{text}\n\n{summary}", json_path
    )


def _with_what_there_is(wanted: Wanted, trace: Trace) -> Wanted:
    """Fill in drafters where none is named: all drafts, or else all replayable n-gram drafters."""
    wanted = replace(wanted, drafts=tuple(_chosen(trace, wanted.drafts)))
    if trace.drafts or wanted.ngrams or wanted.draft_max:
        return wanted
    every = SearchSpace(drafts=()).ngrams()
    usable = tuple(one for one in every if trace.has_text or not hashes_tokens(one))
    return replace(wanted, ngrams=usable)


def _check(wanted: Wanted, trace: Trace) -> None:
    if wanted.draft_max and not trace.drafts:
        raise UsageError("--draft-max is for draft models, and the trace has none; leave it out")
    if wanted.ahead and not trace.drafts:
        raise UsageError("--spec-type draft-simple is for draft models, and the trace has none")
    drafters = (
        *(one for row in wanted.ngrams for one in row.ngrams),
        *chain.from_iterable(wanted.ahead),
    )
    if not trace.has_text and any(one.hashes_tokens for one in drafters):
        raise UsageError(
            "these n-gram drafters hash tokens, and the trace has only numbers in their place; "
            "record it with --keep-text, or replay ngram-simple and ngram-cache"
        )


def _with_drafts(wanted: Wanted, trace: Trace) -> Iterator[Total]:
    """Every draft's settings, alone and behind n-gram drafters."""
    for name in wanted.drafts:
        depth = min(recording.chains[name].longest for recording in trace.recordings)
        lengths = wanted.draft_max or tuple(range(1, depth + 1))
        grid = Grid(draft_max=lengths, **wanted.others)
        known = trace.costs.get(name)
        alone = replay_trace(trace.recordings, name, grid, known)
        yield from alone
        chained = [one.speculation.after(first) for first in wanted.ahead for one in alone]
        yield from replay_settings(trace.recordings, chained, known, draft=name)


def _costs(wanted: Wanted, trace: Trace) -> Mapping[str, Costs]:
    """Costs from the trace for the replayed drafters."""
    drafters = (*wanted.drafts, NGRAM_COSTS) if wanted.ngrams else wanted.drafts
    return {name: trace.costs[name] for name in drafters if name in trace.costs}


def _chosen(trace: Trace, wanted: tuple[str, ...]) -> Iterator[str]:
    for name in wanted:
        if Path(name).stem not in trace.drafts and name not in trace.drafts:
            known = ", ".join(trace.drafts) or "no draft"
            raise UsageError(f"-md {name}: the trace knows {known}")
    stems = {*wanted, *(Path(name).stem for name in wanted)}
    yield from (name for name in trace.drafts if not wanted or name in stems)


def _replay_document(
    path: Path, totals: Sequence[Total], explanation: Explanation, costs: Mapping[str, Costs]
) -> dict[str, Any]:
    """``spectui.replay/1``: replayed settings of the trace at ``path``, and costs of rounds."""
    return {
        **head("replay"),
        "trace": str(path),
        "configs": [_config(total) for total in totals],
        **explanation.document(),
        "costs": {name: measured.document() for name, measured in costs.items()},
    }


def _config(total: Total) -> dict[str, Any]:
    document: dict[str, Any] = {
        "draft": total.draft,
        **total.speculation.document(),
        "n_rounds": total.n_rounds,
        "n_drafted": total.n_drafted,
        "n_accepted": total.n_accepted,
        "n_rejections": total.n_rejections,
        "acceptance_rate": total.acceptance_rate,
        "mean_accepted_length": total.mean_accepted_length,
        "tokens_per_s": total.tokens_per_s,
        "speedup": total.speedup,
        "rounds_by_n_drafted": list(total.batches),
    }
    no_costs = "the trace holds no costs: they were left out, or nothing was drafted to measure"
    reasons = {
        "acceptance_rate": "nothing was drafted",
        "mean_accepted_length": "no round was run",
        "tokens_per_s": no_costs,
        "speedup": no_costs,
    }
    for name, reason in reasons.items():
        if document[name] is None:
            document[f"{name}_reason"] = reason
    return document


def _label(total: Total) -> str:
    """The drafter's name; for n-gram drafters also the numbers that have no column."""
    ngrams = [f"{one.kind}, {one.summary}".removesuffix(", ") for one in total.speculation.ngrams]
    return " + ".join([*ngrams, *filter(None, [total.draft])])


def _setting(total: Total, *, name: str) -> str:
    """A number of the draft's setting."""
    return f"{total.speculation.numbers[name]:g}"


def _replay_table(totals: Sequence[Total], best: Total) -> RenderableType:
    """Table with as many rows and columns as fit, and lines on the omitted ones."""
    shown = _fastest(totals)
    longest = max(cell_len(name) for name in (_NAME, *map(_label, shown)))
    hidden: list[str] = []
    found = _columns(shown, best, hidden)
    for heading, room in _LEAST.items():
        if width_of(found) - max(0, longest - room) > page_width():
            hidden.append(heading)
            found = _columns(shown, best, hidden)
    left_out = ", ".join(heading for heading in _CELLS if heading in hidden)
    notes = [f"Left out for want of room: {left_out}; --json has them."] * bool(hidden)
    if len(shown) < len(totals):
        which = "first" if best.speedup is None else "fastest"
        n_settings = counted(len(totals), "setting")
        notes.append(f"These are the {len(shown)} {which} of {n_settings}; --json has all.")
    return Group(found, *(Text(wrapped(note)) for note in notes))


def _fastest(totals: Sequence[Total]) -> Sequence[Total]:
    """The fastest settings that fit in a table, in their order; without speeds the first ones."""
    if len(totals) <= _MOST:
        return totals
    order = sorted(range(len(totals)), key=lambda index: -(totals[index].speedup or 0.0))
    return [totals[index] for index in sorted(order[:_MOST])]


def _columns(totals: Sequence[Total], best: Total, hidden: Collection[str]) -> Table:
    headings = tuple(heading for heading in _CELLS if heading not in hidden)
    return table(
        [Words(head=one) if one == _NAME else one for one in headings],
        ([_CELLS[heading](total) for heading in headings] for total in totals),
        styles=("bold green" if one is best and one.speedup else "" for one in totals),
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


def _replay_summary(
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
