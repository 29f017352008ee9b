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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spectui.engine.events import RoundPrice, Segment

_EDGE = 1.5
"""Standard deviations from the median beyond which a round stands out."""
_SIGMA_PER_MAD = 1.4826
"""Standard deviation over the median absolute deviation, of a normal distribution."""
_LEAST_SPREAD = 0.01
"""Standard deviation, relative, that is taken for usual at least: equal times are no reason to
distrust one that differs in the last digit."""
_FEWEST = 5
"""Rounds of a kind below which their median is chance."""
_RARE_REACH = 0.5
"""Deviation, relative, that is usual for rounds of rare kinds: what they cost is estimated."""

_Array = npt.NDArray[np.float64]


Kind = tuple[bool, int, int]
"""Whether the target went back, drafted tokens, and decodes of the draft's chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadySeconds:
    """Seconds that an answer takes on a machine that nothing disturbs."""

    baseline_s: float
    """Seconds of the target alone, for as many tokens."""
    speculative_s: float
    n_slow: int
    """Rounds that took longer than is usual for their kind, and spans of the target alone."""


def steady_seconds(answers: Sequence[Sequence[Segment]]) -> list[SteadySeconds]:
    """Return the seconds of each answer.

    Args:
        answers: segments of answers with the same setting, at least one each.
    """
    n_span = _tokens_per_round([part for answer in answers for part in answer])
    alone, together, levels_s = _Rounds(), _Rounds(), []
    for index, answer in enumerate(answers):
        spans = [_spans(part.baseline_s, n_span) for part in answer]
        own_s = [statistics.median(mean_s for mean_s, _n in span) for span in spans]
        # The segment that was disturbed least.
        levels_s.append(min(own_s))
        for part, span, level_s in zip(answer, spans, own_s, strict=True):
            for mean_s, n in span:
                alone.add(index, (False, 0, 0), mean_s / level_s, n)
            for price in part.rounds:
                together.add(index, _kind(price), price.seconds / level_s)
    sums = zip(alone.by_answer(len(answers)), together.by_answer(len(answers)), strict=True)
    found = []
    for answer, level_s, (off, on) in zip(answers, levels_s, sums, strict=True):
        n_tokens = sum(part.n_tokens for part in answer)
        found.append(
            SteadySeconds(
                baseline_s=level_s * n_tokens * off.usual / off.n,
                speculative_s=level_s * on.usual,
                n_slow=off.n_slow + on.n_slow,
            )
        )
    return found


def _tokens_per_round(segments: Sequence[Segment]) -> float:
    """Tokens that the target alone decodes in the time of a round of speculation.

    A short delay of a fixed length stands out more from a token than from a round. So the
    target's tokens are taken in spans as long as rounds.
    """
    token_s = statistics.median(seconds for one in segments for seconds in one.baseline_s)
    round_s = statistics.median(price.seconds for one in segments for price in one.rounds)
    return max(1.0, round_s / token_s)


def _spans(baseline_s: Sequence[float], n_span: float) -> list[tuple[float, int]]:
    """Spans of tokens of a segment that follow one another: seconds per token, and tokens."""
    parts = np.array_split(np.array(baseline_s), max(1, round(len(baseline_s) / n_span)))
    return [(float(one.mean()), len(one)) for one in parts]


def _kind(price: RoundPrice) -> Kind:
    return price.is_redone, price.n_drafted, price.n_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """Rounds of one answer."""

    n: float
    """Weight of all."""
    usual: float
    """Sum of their usual seconds, relative, by weight."""
    n_slow: int


class _Rounds:
    """Rounds of answers, and their seconds over those of a token of the target alone."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, Kind, float, float]] = []

    def add(self, answer: int, kind: Kind, relative: float, weight: float = 1.0) -> None:
        self._rows.append((answer, kind, relative, weight))

    def by_answer(self, n: int) -> list[_Sum]:
        """Sums of each of ``n`` answers."""
        answers, kinds, *numbers = zip(*self._rows, strict=True)
        relative, weights = map(np.array, numbers)
        low, high = _edges(np.array(kinds, dtype=float), relative)
        columns = (weights, weights * relative.clip(low, high), relative > high)
        sums = [np.bincount(answers, column, minlength=n).tolist() for column in columns]
        return [
            _Sum(n=one, usual=usual, n_slow=int(slow))
            for one, usual, slow in zip(*sums, strict=True)
        ]


def _edges(kinds: _Array, relative: _Array) -> tuple[_Array, _Array]:
    """Least and greatest of what is usual for each round, from its kind: ``[n, 3]``."""
    distinct, of_kind, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    of_kind = of_kind.reshape(-1)
    medians = np.array([np.median(relative[of_kind == kind]) for kind in range(len(distinct))])
    is_known = counts >= _FEWEST
    # What kinds cost grows about evenly with their numbers: two that are known tell of the others.
    fitted = is_known if is_known.sum() > 1 else np.ones(len(distinct), dtype=bool)
    terms = np.column_stack([np.ones(len(distinct)), distinct])
    weights = np.sqrt(counts) * fitted
    fit = np.linalg.lstsq(terms * weights[:, None], medians * weights, rcond=None)[0]
    usual = np.where(is_known, medians, np.maximum(terms @ fit, medians.min()))
    known = is_known[of_kind] if is_known.any() else np.ones(len(relative), dtype=bool)
    deviations = abs(relative[known] / usual[of_kind][known] - 1)
    spread = max(_SIGMA_PER_MAD * float(np.median(deviations)), _LEAST_SPREAD)
    reach = np.where(is_known, _EDGE * spread, np.maximum(_EDGE * spread, _RARE_REACH))
    return (usual * (1 - reach))[of_kind], (usual * (1 + reach))[of_kind]
