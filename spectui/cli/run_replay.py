"""What ``spectui replay`` does once its options are parsed."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from pathlib import Path
from typing import Any

from rich.table import Table

from spectui import __version__
from spectui.cli.costs_view import costs_view
from spectui.cli.documents.common import setting as setting_document
from spectui.cli.documents.explanation import costs_document, explanation_fields
from spectui.cli.drawing import drawn, fits, wrapped
from spectui.cli.output import check_writable, write_result
from spectui.config import SpeculationConfig
from spectui.errors import UsageError
from spectui.models.sizes import counted
from spectui.replay.costs import Costs
from spectui.replay.file import read_trace
from spectui.replay.grid import Grid
from spectui.replay.ngrams import (
    NGRAM_COSTS,
    hashes_tokens,
    ngram_costs,
    replay_chained,
    replay_ngrams,
)
from spectui.replay.totals import Total, replay_trace
from spectui.replay.trace import Trace
from spectui.tune.explain import Explanation, explain_replayed
from spectui.tune.space import SearchSpace

_NAME = "draft"
_LEAST = ("accepted", "drafted", "per round", "min", "tokens/s", "rate")
"""Left out of a narrow table, the first ones first; the document has them all."""


def replay(
    path: Path,
    *,
    draft_max: tuple[int, ...] | None,
    draft_min: tuple[int, ...],
    draft_p_min: tuple[float, ...],
    drafts: tuple[str, ...],
    ngrams: tuple[SpeculationConfig, ...],
    ahead: tuple[tuple[SpeculationConfig, ...], ...],
    costs: bool,
    json_path: str | None,
) -> None:
    """Read, replay, print.

    Raises:
        UsageError: the trace does not know a draft, not for drafts that long, or not the tokens
            that an n-gram drafter needs.
    """
    check_writable(json_path, (path,))
    trace = read_trace(path)
    settings = ngrams
    if draft_max and not trace.drafts:
        raise UsageError("--draft-max is for draft models, and the trace has none; leave it out")
    if not (trace.drafts or settings):
        every = SearchSpace(drafts=()).ngrams()
        settings = tuple(one for one in every if trace.has_text or not hashes_tokens(one))
    if ahead and not trace.drafts:
        raise UsageError("--spec-type draft-simple is for draft models, and the trace has none")
    if not trace.has_text and any(map(hashes_tokens, (*settings, *chain.from_iterable(ahead)))):
        raise UsageError(
            "these n-gram drafters hash tokens, and the trace has only numbers in their place; "
            "record it with --keep-text, or replay ngram-simple and ngram-cache"
        )
    totals: list[Total] = []
    chosen = tuple(_chosen(trace, drafts))
    for name in chosen:
        depth = min(recording.chains[name].longest for recording in trace.recordings)
        longest = draft_max or tuple(range(1, depth + 1))
        grid = Grid(draft_max=longest, draft_min=draft_min, draft_p_min=draft_p_min)
        known = trace.costs.get(name)
        alone = replay_trace(trace.recordings, name, grid, known)
        chained = [one.speculation.after(first) for first in ahead for one in alone]
        totals += alone
        totals += replay_chained(trace.recordings, name, chained, known)
    totals += replay_ngrams(trace.recordings, settings, ngram_costs(trace.costs))
    best = max(totals, key=lambda total: total.speedup or 0.0)
    explanation = explain_replayed(best, _costs_of(trace, best))
    wanted = (*chosen, NGRAM_COSTS) if settings else chosen
    shown_costs = {name: trace.costs[name] for name in wanted if name in trace.costs}
    document = {
        "schema": "spectui.replay/1",
        "spectui": __version__,
        "trace": str(path),
        "configs": [_config(total) for total in totals],
        **explanation_fields(explanation),
        "costs": {name: costs_document(measured) for name, measured in shown_costs.items()},
    }
    shown = tuple(costs_view(shown_costs, trace.recordings)) if costs else ()
    table = _table(totals, best)
    text = drawn(*shown, table)
    summary = _summary(totals, best, len(trace.recordings), explanation)
    write_result(document, f"{text}\n\n{summary}", json_path)


def _costs_of(trace: Trace, total: Total) -> Costs | None:
    return ngram_costs(trace.costs) if total.draft is None else trace.costs.get(total.draft)


def _label(total: Total) -> str:
    """Who drafts; of n-gram drafters what has no column of its own."""
    ngrams = [
        f"{one.kind}, {one.summary}".removesuffix(", ")
        for one in total.speculation.chain
        if one.ngram is not None
    ]
    return " + ".join([*ngrams, *filter(None, [total.draft])])


def _chosen(trace: Trace, wanted: Sequence[str]) -> Iterator[str]:
    for name in wanted:
        if Path(name).stem not in trace.drafts and name not in trace.drafts:
            known = ", ".join(trace.drafts) or "no draft"
            raise UsageError(f"-md {name}: the trace knows {known}")
    stems = {*wanted, *(Path(name).stem for name in wanted)}
    yield from (name for name in trace.drafts if not wanted or name in stems)


def _config(total: Total) -> dict[str, Any]:
    setting = total.speculation
    document: dict[str, Any] = {
        "draft": total.draft,
        **setting_document(setting),
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


def _table(totals: Sequence[Total], best: Total) -> Table:
    """As many columns as the terminal is wide."""
    table = _columns(totals, best, frozenset())
    for n_hidden in range(1, len(_LEAST) + 1):
        if fits(table):
            break
        table = _columns(totals, best, frozenset(_LEAST[:n_hidden]))
    return table


def _columns(totals: Sequence[Total], best: Total, hidden: AbstractSet[str]) -> Table:
    table = Table(box=None, header_style="bold")
    headings = tuple(heading for heading in _CELLS if heading not in hidden)
    for heading in headings:
        is_name = heading == _NAME
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=not is_name)
    for total in totals:
        style = "bold green" if total is best and total.speedup else ""
        table.add_row(*(_CELLS[heading](total) for heading in headings), style=style)
    return table


_CELLS: dict[str, Callable[[Total], str]] = {
    _NAME: _label,
    "max": lambda total: str(total.speculation.draft_max),
    "min": lambda total: str(total.speculation.draft_min),
    "p_min": lambda total: f"{total.speculation.draft_p_min:g}",
    "drafted": lambda total: str(total.n_drafted),
    "accepted": lambda total: str(total.n_accepted),
    "rate": lambda total: _number(total.acceptance_rate, ".1%"),
    "per round": lambda total: _number(total.mean_accepted_length, ".2f"),
    "tokens/s": lambda total: _number(total.tokens_per_s, ".2f"),
    "speedup": lambda total: _number(total.speedup, ".2f"),
}
"""What stands under a heading."""


def _summary(totals: Sequence[Total], best: Total, n_prompts: int, explanation: Explanation) -> str:
    n_settings, n_recorded = counted(len(totals), "setting"), counted(n_prompts, "prompt")
    lines = [wrapped(f"{n_settings} replayed on {n_recorded}. Counts are exact.")]
    if best.speedup:
        lines.append(wrapped(_prediction(best, best.speedup)))
        lines.append(wrapped(explanation.text))
    return "\n".join(lines)


def _prediction(best: Total, speedup: float) -> str:
    chosen = best.speculation
    setting = _label(best)
    if chosen.ngram is None:
        setting += f", draft_max {chosen.draft_max}, draft_min {chosen.draft_min}"
        setting += f", draft_p_min {chosen.draft_p_min:g}"
    if speedup > 1 and best.n_drafted:
        return (
            f"Predicted best: {setting}: {speedup:.2f}× the target alone; spectui tune measures it."
        )
    return (
        f"Predicted best: off. None of these is faster than the target alone; the nearest is "
        f"{setting}, at {speedup:.2f}×."
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
