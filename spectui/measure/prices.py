"""Seconds of answers that were decoded in turns, with the machine's disturbances taken out.

Counts are exact: how many rounds an answer took, and how long their drafts were, does not depend on
the clock. Only what a round costs does, and there are hundreds of rounds. So every round is
compared with the rounds of its kind, in units of what a token of the target alone took in the same
segment: a machine that is slower for a second is slower for both. A round that stands out counts
as much as the edge of what is usual for its kind, which on a quiet machine hardly any does
(Huber 1964, "Robust Estimation of a Location Parameter"; the edge is that of Hampel's identifier).
"""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spectui.engine.events import Segment
from spectui.trace.fit import EDGE, LEAST_SPREAD

_SIGMA_PER_MAD = 1.4826
"""Standard deviation over the median absolute deviation, of a normal distribution."""
_FEWEST = 5
"""Rounds of a kind below which their median is chance."""
_RARE_REACH = 0.5
"""Deviation, relative, that is usual for rounds of rare kinds: what they cost is estimated."""

_Array = npt.NDArray[np.float64]


Kind = tuple[bool, int, int]
"""Whether the target went back, drafted tokens, and decodes of the draft's chain."""


class SteadySeconds(NamedTuple):
    """Seconds that an answer takes on a machine that nothing disturbs."""

    baseline_s: float
    """Seconds of the target alone, for as many tokens."""
    speculative_s: float


def steady_seconds(answers: Sequence[Sequence[Segment]]) -> list[SteadySeconds]:
    """Return the seconds of each answer.

    Args:
        answers: segments of answers with the same setting, at least one each.
    """
    n_span = _tokens_per_round([part for answer in answers for part in answer])
    alone, together, levels_s = list[_Row](), list[_Row](), list[float]()
    for index, answer in enumerate(answers):
        spans = [_spans(part.baseline_s, n_span) for part in answer]
        own_s = [statistics.median(mean_s for mean_s, _n in span) for span in spans]
        # The segment that was disturbed least.
        levels_s.append(min(own_s))
        for part, span, level_s in zip(answer, spans, own_s, strict=True):
            alone += [_Row(index, (False, 0, 0), mean_s / level_s, n) for mean_s, n in span]
            together += [
                _Row(
                    index, (one.is_redone, one.n_drafted, one.n_steps), one.times.total_s / level_s
                )
                for one in part.rounds
            ]
    n_span_tokens, off = _sums(alone, len(answers))
    _n_rounds, on = _sums(together, len(answers))
    n_tokens = [sum(part.n_tokens for part in answer) for answer in answers]
    baseline_s = np.array(levels_s) * n_tokens * off / n_span_tokens
    columns = baseline_s.tolist(), (levels_s * on).tolist()
    return [SteadySeconds(*one) for one in zip(*columns, strict=True)]


def _tokens_per_round(segments: Sequence[Segment]) -> float:
    """Tokens that the target alone decodes in the time of a round of speculation.

    A short delay of a fixed length stands out more from a token than from a round. So the
    target's tokens are taken in spans as long as rounds.
    """
    token_s = statistics.median(seconds for one in segments for seconds in one.baseline_s)
    round_s = statistics.median(one.times.total_s for part in segments for one in part.rounds)
    return max(1.0, round_s / token_s)


def _spans(baseline_s: Sequence[float], n_span: float) -> list[tuple[float, int]]:
    """Spans of tokens of a segment that follow one another: seconds per token, and tokens."""
    parts = np.array_split(np.array(baseline_s), max(1, round(len(baseline_s) / n_span)))
    return [(float(one.mean()), len(one)) for one in parts]


class _Row(NamedTuple):
    """A round, or a span of tokens of the target alone."""

    answer: int
    kind: Kind
    relative: float
    """Seconds over those of a token of the target alone."""
    weight: float = 1.0


def _sums(rows: Sequence[_Row], n_answers: int) -> _Array:
    """[2, n_answers]: weight of the rows, and their usual seconds by weight."""
    answers, kinds, relative, weights = map(np.array, zip(*rows, strict=True))
    low, high = _edges(kinds.astype(float), relative)
    columns = (weights, weights * relative.clip(low, high))
    return np.array([np.bincount(answers, one, minlength=n_answers) for one in columns])


def _edges(kinds: _Array, relative: _Array) -> tuple[_Array, _Array]:
    """Least and greatest of what is usual for each round, from its kind: ``[n, 3]``."""
    distinct, of_kind, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    of_kind = of_kind.reshape(-1)
    medians = np.array([np.median(relative[of_kind == kind]) for kind in range(len(distinct))])
    is_known = counts >= _FEWEST
    # Costs grow about linearly with a kind's numbers, so two known kinds give those of the others.
    fitted = is_known if is_known.sum() > 1 else np.ones(len(distinct), dtype=bool)
    terms = np.column_stack([np.ones(len(distinct)), distinct])
    weights = np.sqrt(counts) * fitted
    fit = np.linalg.lstsq(terms * weights[:, None], medians * weights, rcond=None)[0]
    usual = np.where(is_known, medians, np.maximum(terms @ fit, medians.min()))
    known = is_known[of_kind] if is_known.any() else np.ones(len(relative), dtype=bool)
    deviations = abs(relative[known] / usual[of_kind][known] - 1)
    spread = max(_SIGMA_PER_MAD * float(np.median(deviations)), LEAST_SPREAD)
    reach = np.where(is_known, EDGE * spread, np.maximum(EDGE * spread, _RARE_REACH))
    return (usual * (1 - reach))[of_kind], (usual * (1 + reach))[of_kind]
