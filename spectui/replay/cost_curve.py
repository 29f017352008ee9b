"""Seconds of rounds by the length of their draft, freed of the machine's drift.

Generations have levels, since machines drift; lengths are compared within generations. The
outermost values are left out of means, lest one slow round bend a curve.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from spectui.replay.costs import Vector
from spectui.replay.probed import Observed
from spectui.speculative.counters import Round

_Index = npt.NDArray[np.intp]

_POLISH = 10
"""Sweeps of the polish: it has settled long before."""
_TRIMMED = 8
"""One in so many values is left out at either end of a mean."""
_MIN_COMPARED = 2
"""Generations that can be compared with another one; fewer do not tell how steady a machine is."""
_APART = 256
"""Tokens between two depths, below which comparing them tells nothing of growth."""
_MAX_COMPARED = 256
"""Rounds of one length that are compared with each other for growth."""
_LEAST_FLAT = 0.25
"""Share of one round's cost that is never due to its depth."""


class Curve:
    """Seconds by drafted tokens at one depth, freed of the generations' levels, and their growth.

    Levels by a polish of logarithms (Tukey 1977, Exploratory Data Analysis, chapter 11), with
    trimmed means for medians.
    """

    def __init__(
        self, observed: Sequence[Observed], seconds: Callable[[Round], float], n_past: float
    ) -> None:
        values = np.array([max(seconds(o.round), 1e-9) for o in observed])
        more = np.array([o.n_past - n_past for o in observed], float)
        lengths, row = np.unique([o.round.n_drafted for o in observed], return_inverse=True)
        groups, column = np.unique([o.group for o in observed], return_inverse=True)
        growth_s = _growth_by_length(lengths, row, more, values)
        flat = flattened(values, growth_s[row] * more)
        levels = _levels(np.log(flat), row, column)
        weights = np.bincount(row).astype(float)
        means = _means(flat / np.exp(levels[column]), row, len(lengths))
        self.lengths = tuple(map(int, lengths))
        self.seconds = floats(rising(means, weights))
        self.growth_s = floats(growth_s)
        deviation = float(np.median(np.abs(levels))) * 1.4826
        self.spread = deviation if _n_compared(row, column) >= _MIN_COMPARED else None
        self._levels = dict(zip(map(int, groups), np.exp(levels), strict=True))

    def level(self, group: int) -> float:
        """How slow the machine was in a generation, 1 in the mean."""
        return float(self._levels[group])


def _n_compared(row: _Index, column: _Index) -> int:
    """Generations (columns) whose level follows from that of another one.

    Only those that share a length of drafts with others: levels of generations that have nothing in
    common cannot be told from what the lengths cost.
    """
    groups = int(column.max()) + 1
    parents = list(range(groups))

    def root(group: int) -> int:
        while parents[group] != group:
            group = parents[group]
        return group

    for length in range(row.max() + 1):
        first, *others = np.unique(column[row == length])
        for other in others:
            parents[root(int(other))] = root(int(first))
    return groups - len({root(group) for group in range(groups)})


def _levels(values: Vector, row: _Index, column: _Index) -> Vector:
    """Logarithms of the columns' levels."""
    rows, levels = np.zeros(row.max() + 1), np.zeros(column.max() + 1)
    for _ in range(_POLISH):
        rows = _means(values - levels[column], row, len(rows))
        levels = _means(values - rows[row], column, len(levels))
        levels -= levels.mean()
    return levels


def _growth_by_length(lengths: Vector, row: _Index, depth: Vector, seconds: Vector) -> Vector:
    """What each length grows by per token of depth.

    Single tokens have a growth of their own, since other code decodes them; that of batches lies
    on a line over their length, as attention's work does.
    """
    found = [growth(depth[row == index], seconds[row == index]) for index in range(len(lengths))]
    slopes, weights = (np.array(column) for column in zip(*found, strict=True))
    known = (lengths > 0) & (weights > 0)
    line: Vector = np.zeros(len(lengths))
    if known.any():
        degree = min(1, int(known.sum()) - 1)
        fit = np.polyfit(lengths[known], slopes[known], degree, w=weights[known])
        line = np.asarray(np.polyval(fit, lengths), float)
    return np.maximum(np.where((lengths == 0) & (weights > 0), slopes, line), 0.0)


def growth(depth: Vector, seconds: Vector, *, apart: int = _APART) -> tuple[float, float]:
    """Median slope between rounds at least so far apart, and its weight (Theil 1950, Sen 1968)."""
    if not len(depth):
        return 0.0, 0.0
    some = np.linspace(0, len(depth) - 1, min(len(depth), _MAX_COMPARED)).astype(int)
    depth, seconds = depth[some], seconds[some]
    first, second = np.triu_indices(len(depth), 1)
    far = np.abs(depth[second] - depth[first]) >= apart
    if not far.any():
        return 0.0, 0.0
    slopes = (seconds[second] - seconds[first])[far] / (depth[second] - depth[first])[far]
    return float(np.median(slopes)), float(np.sqrt(far.sum()))


def _means(values: Vector, group: _Index, n_groups: int) -> Vector:
    return np.array([mean(values[group == index]) for index in range(n_groups)])


def rising(values: Vector, weights: Vector) -> Vector:
    """Nearest curve that never falls, by weighted least squares: pool adjacent violators."""
    means: list[float] = []
    sums: list[float] = []
    sizes: list[int] = []
    for value, weight in zip(values, weights, strict=True):
        means.append(float(value))
        sums.append(float(weight))
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            mean, total, size = means.pop(), sums.pop(), sizes.pop()
            means[-1] = (means[-1] * sums[-1] + mean * total) / (sums[-1] + total)
            sums[-1] += total
            sizes[-1] += size
    return np.repeat(means, sizes)


def mean(values: Sequence[float] | Vector) -> float:
    """Without the outermost eighths; 0 of nothing."""
    ordered = np.sort(np.asarray(values, float))
    cut = len(ordered) // _TRIMMED
    return float(ordered[cut : len(ordered) - cut].mean()) if len(ordered) else 0.0


def floats(values: Iterable[float]) -> tuple[float, ...]:
    """Python's own numbers."""
    return tuple(map(float, values))


def flattened(seconds: Vector, grown_s: Vector) -> Vector:
    """Seconds without what their depth has added.

    Growth that was seen too large must not leave less than nothing of a deep round.
    """
    found: Vector = np.maximum(seconds - grown_s, seconds * _LEAST_FLAT)
    return found
