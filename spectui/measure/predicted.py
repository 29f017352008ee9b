"""Predicted costs of rounds that were only counted, from measured rounds of the same kinds.

Prices are in tokens of the target alone, as the segments show them in which both sides took turns,
so that the machine's speed does not matter.
"""

import statistics
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spectui.engine.events import RoundPrice, Segment

_FEWEST = 5
"""Rounds of a kind below which their median is chance."""

_Array = npt.NDArray[np.float64]


class Prices:
    """Prices of rounds by kind: whether they were redone, drafted tokens, the draft's decodes.

    The median of a kind that is known from enough rounds. What kinds cost grows about evenly with
    their numbers, so that the known ones tell of the others.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        """Learn from segments with the same setting; of one round at least.

        Raises:
            ValueError: there is no round.
        """
        if not any(one.rounds for one in segments):
            raise ValueError("no round was decoded, so that none has a price")
        relative = [
            price.seconds / statistics.median(one.baseline_s)
            for one in segments
            for price in one.rounds
        ]
        kinds = _kinds([price for one in segments for price in one.rounds])
        distinct, of_kind, counts = np.unique(
            kinds, axis=0, return_inverse=True, return_counts=True
        )
        seconds, of_kind = np.array(relative), of_kind.reshape(-1)
        medians = np.array([np.median(seconds[of_kind == kind]) for kind in range(len(distinct))])
        is_known = counts >= _FEWEST
        self._known = {
            tuple(kind): float(median)
            for kind, median, known in zip(distinct, medians, is_known, strict=True)
            if known
        }
        fitted = is_known if is_known.sum() > 1 else np.ones(len(distinct), dtype=bool)
        weights = np.sqrt(counts) * fitted
        self._terms = np.linalg.lstsq(
            _terms(distinct) * weights[:, None], medians * weights, rcond=None
        )[0]
        self._least = float(min(1.0, medians.min()))

    def cost(self, rounds: Sequence[RoundPrice]) -> float:
        """Costs of rounds, in tokens of the target alone; their seconds are not looked at."""
        if not rounds:
            return 0.0
        kinds = _kinds(rounds)
        fitted = np.maximum(_terms(kinds) @ self._terms, self._least)
        return sum(
            self._known.get(tuple(kind), float(other))
            for kind, other in zip(kinds, fitted, strict=True)
        )


def _kinds(rounds: Sequence[RoundPrice]) -> _Array:
    """Kind of each round: ``[n, 3]``."""
    return np.array([(one.is_redone, one.n_drafted, one.n_steps) for one in rounds], dtype=float)


def _terms(kinds: _Array) -> _Array:
    return np.column_stack([np.ones(len(kinds)), kinds])
