"""Runs ``spectui replay`` with parsed options."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from spectui.cli.costs_view import costs_view
from spectui.cli.documents.replay import replay_document
from spectui.cli.drawing import drawn
from spectui.cli.output import check_writable, write_result
from spectui.cli.replay_view import replay_summary, replay_table
from spectui.errors import UsageError
from spectui.options.drafters import Ngram
from spectui.options.speculation import Speculation
from spectui.trace.costs import Costs
from spectui.trace.file import read_trace
from spectui.trace.grid import Grid
from spectui.trace.ngrams import (
    NGRAM_COSTS,
    hashes_tokens,
    ngram_costs,
    replay_chained,
    replay_ngrams,
)
from spectui.trace.record import Trace
from spectui.trace.replay import Total, replay_trace
from spectui.tune.explain import explain_replayed
from spectui.tune.space import SearchSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Settings to replay."""

    draft_max: tuple[int, ...] | None
    """Longest drafts to replay; None for all lengths of the trace."""
    draft_min: tuple[int, ...]
    draft_p_min: tuple[float, ...]
    drafts: tuple[str, ...]
    """Drafts to replay; empty for all of the trace."""
    ngrams: tuple[Speculation, ...]
    ahead: tuple[tuple[Ngram, ...], ...]
    """Sequences of n-gram drafters to ask before every draft."""


def replay(path: Path, wanted: Wanted, *, costs: bool, json_path: str | None) -> None:
    """Read the trace, replay it, and print the results.

    Raises:
        UsageError: the trace does not know a draft, not for drafts that long, or not the tokens
            that an n-gram drafter needs.
    """
    check_writable(json_path, (path,))
    trace = read_trace(path)
    wanted = _with_what_there_is(wanted, trace)
    _check(wanted, trace)
    totals = [
        *_with_drafts(wanted, trace),
        *replay_ngrams(trace.recordings, wanted.ngrams, ngram_costs(trace.costs)),
    ]
    best = max(totals, key=lambda total: total.speedup or 0.0)
    own = _costs_of(trace, best)
    explanation = explain_replayed(best, own)
    known = _costs(wanted, trace)
    shown = costs_view(known, trace.recordings) if costs else ()
    text = drawn(*shown, replay_table(totals, best))
    summary = replay_summary(totals, best, len(trace.recordings), explanation, own)
    write_result(
        replay_document(path, totals, explanation, known), f"{text}\n\n{summary}", json_path
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
        grid = Grid(
            draft_max=wanted.draft_max or tuple(range(1, depth + 1)),
            draft_min=wanted.draft_min,
            draft_p_min=wanted.draft_p_min,
        )
        known = trace.costs.get(name)
        alone = replay_trace(trace.recordings, name, grid, known)
        yield from alone
        chained = [one.speculation.after(first) for first in wanted.ahead for one in alone]
        yield from replay_chained(trace.recordings, name, chained, known)


def _costs(wanted: Wanted, trace: Trace) -> Mapping[str, Costs]:
    """Costs from the trace for the replayed drafters."""
    drafters = (*wanted.drafts, NGRAM_COSTS) if wanted.ngrams else wanted.drafts
    return {name: trace.costs[name] for name in drafters if name in trace.costs}


def _costs_of(trace: Trace, total: Total) -> Costs | None:
    return ngram_costs(trace.costs) if total.draft is None else trace.costs.get(total.draft)


def _chosen(trace: Trace, wanted: tuple[str, ...]) -> Iterator[str]:
    for name in wanted:
        if Path(name).stem not in trace.drafts and name not in trace.drafts:
            known = ", ".join(trace.drafts) or "no draft"
            raise UsageError(f"-md {name}: the trace knows {known}")
    stems = {*wanted, *(Path(name).stem for name in wanted)}
    yield from (name for name in trace.drafts if not wanted or name in stems)
