"""Runs ``spectui replay`` with parsed options."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from spectui.cli.output import check_writable, write_result
from spectui.cli.page import page_text
from spectui.cli.replay import MAX, OTHERS, Replay
from spectui.errors import UsageError
from spectui.options.drafters import (
    MODEL_KIND,
    NGRAMS,
    DrafterOptions,
    Ngram,
    kind_of,
    numbers_of,
)
from spectui.options.speculation import Speculation, speculation_of
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
from spectui.tune.explain import explain_replayed
from spectui.tune.replayed import replay_document, replay_page
from spectui.tune.space import SearchSpace


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
        ngrams=tuple(_replayed_ngrams(given)),
        ahead=tuple(_replayed_ahead(given)),
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
    page = replay_page(totals, best, len(trace.recordings), explanation, own)
    document = replay_document(path, totals, explanation, known)
    write_result(document, page_text(page), json_path)


def _replayed_ngrams(parsed: Mapping[str, Any]) -> Iterator[Speculation]:
    """Every combination of the given options of a kind; nothing for kinds that were not named.

    Raises:
        UsageError: a setting would never draft.
    """
    if MODEL_KIND not in parsed["spec_type"]:
        yield from map(Speculation, chain.from_iterable(_replayed_kinds(parsed)))


def _replayed_ahead(parsed: Mapping[str, Any]) -> Iterator[tuple[Ngram, ...]]:
    """Every combination of the named n-gram drafters that are asked before the drafts.

    Raises:
        UsageError: a setting would never draft.
    """
    kinds = _replayed_kinds(parsed)
    if MODEL_KIND in parsed["spec_type"] and kinds:
        yield from product(*kinds)


def _replayed_kinds(parsed: Mapping[str, Any]) -> list[list[Ngram]]:
    """Settings of each kind that was named, in llama-server's precedence."""
    found = []
    for drafter in NGRAMS:
        given = {number.parameter: parsed[number.parameter] for number in numbers_of(drafter)}
        if kind_of(drafter) in parsed["spec_type"] or any(given.values()):
            found.append([_ngram(drafter, one) for one in _combinations(drafter, given)])
    return found


def _combinations(
    drafter: type[DrafterOptions], given: Mapping[str, tuple[float, ...]]
) -> Iterator[dict[str, float]]:
    numbers = numbers_of(drafter)
    lists = [given[number.parameter] or (number.default,) for number in numbers]
    for values in product(*lists):
        yield {number.parameter: one for number, one in zip(numbers, values, strict=True)}


def _ngram(drafter: type[Ngram], values: Mapping[str, float]) -> Ngram:
    (own,) = speculation_of((kind_of(drafter),), values).ngrams
    return own


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
