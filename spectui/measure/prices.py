"""Seconds of answers that were decoded in turns, with the machine's disturbances taken out.

Counts are exact: how many rounds an answer took, and how long their drafts were, does not depend on
the clock. Only what a round costs does, and there are hundreds of rounds. So every round is
compared with the rounds of its kind, in units of what a token of the target alone took in the same
segment: a machine that is slower for a second is slower for both. A round that stands out counts
as much as the edge of what is usual for its kind, which on a quiet machine hardly any does
(Huber 1964, "Robust Estimation of a Location Parameter"; the edge is that of Hampel's identifier).
"""

import statistics
from collections.abc import Iterator, Sequence
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
    """Rounds, of either, that took longer than is usual for their kind."""


def steady_seconds(answers: Sequence[Sequence[Segment]]) -> list[SteadySeconds]:
    """Return the seconds of each answer.

    Args:
        answers: segments of answers with the same setting, at least one each.
    """
    alone, together = _Rounds(), _Rounds()
    for index, answer in enumerate(answers):
        for part in answer:
            level_s = statistics.median(part.baseline_s)
            for seconds in part.baseline_s:
                alone.add(index, (False, 0, 0), seconds / level_s)
            for one in part.rounds:
                together.add(index, _kind(one), one.seconds / level_s)
    found = []
    sums = zip(
        answers, alone.by_answer(len(answers)), together.by_answer(len(answers)), strict=True
    )
    for answer, (n_alone, alone_sum, n_slow_alone), (_n, together_sum, n_slow) in sums:
        # The segment that was disturbed least.
        level_s = min(statistics.median(part.baseline_s) for part in answer)
        n_tokens = sum(part.n_tokens for part in answer)
        found.append(
            SteadySeconds(
                baseline_s=level_s * n_tokens * alone_sum / n_alone,
                speculative_s=level_s * together_sum,
                n_slow=int(n_slow_alone + n_slow),
            )
        )
    return found


def _kind(price: RoundPrice) -> Kind:
    return price.is_redone, price.n_drafted, price.n_steps


class _Rounds:
    """Rounds of answers, and their seconds over those of a token of the target alone."""

    def __init__(self) -> None:
        self._answers: list[int] = []
        self._kinds: list[Kind] = []
        self._relative: list[float] = []

    def add(self, answer: int, kind: Kind, relative: float) -> None:
        self._answers.append(answer)
        self._kinds.append(kind)
        self._relative.append(relative)

    def by_answer(self, n: int) -> Iterator[tuple[float, float, float]]:
        """Rounds of each of ``n`` answers, the sum of their usual seconds, and the slow ones."""
        relative = np.array(self._relative)
        low, high = _edges(np.array(self._kinds, dtype=float), relative)
        columns = (np.ones(len(relative)), relative.clip(low, high), relative > high)
        sums = [np.bincount(self._answers, column, minlength=n).tolist() for column in columns]
        return zip(*sums, strict=True)


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
