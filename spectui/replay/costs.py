"""The cost model: seconds of a round's parts, from real rounds of every length side by side.

A decode measured alone costs more than the same decode inside the loop, so nothing is measured
alone: the rounds come from generations in which the longest draft changes from round to round.
Each generation has its own level, since machines drift; what counts is how lengths compare within
one, and the median level of all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spectui.replay.prices import Prices, RoundPrices
from spectui.speculative.counters import Round

Vector = npt.NDArray[np.float64]

CLIFF = 1.25
"""A batch that costs this many times its share of the one before is a cliff."""
_POLISH = 10
"""Sweeps of the median polish: it has settled long before."""
_MIN_SPAN = 256
"""Tokens between the shallowest and the deepest generation, below which depth tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A round, and where it took place."""

    group: int
    """The generation."""
    n_past: int
    """Tokens in the cache when it began."""
    catches_up: bool
    """Whether its chain began with two tokens."""
    round: Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What was measured of a target with one drafter."""

    observed: Sequence[Observed]
    """Rounds of several generations with drafts of varied lengths, the first of each left out."""
    off_s: Mapping[int, float]
    """By generation, seconds per token of the target alone right before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What rounds cost at one depth of the context, and how that grows."""

    n_past: int
    """The depth, in tokens."""
    lengths: tuple[int, ...]
    """Drafted tokens of the rounds that were measured, ascending; between them along lines."""
    verify_s: tuple[float, ...]
    """V(n + 1) for each length; never falling."""
    again_s: tuple[float, ...]
    """D(n + 1): the draft evaluates the batch again, on the ``server`` schedule. Never falling.
    Without a draft model, what looking the n-gram up takes."""
    step_s: float
    """d(1): one decode of the chain; 0 without a draft model."""
    catch_up_s: float
    """More for a chain that begins with two tokens."""
    token_s: float
    """Per emitted token."""
    fixed_s: float
    """Per round."""
    off_s: float
    """One token of the target alone, without a draft beside it."""
    rollback_s: float
    """Per rejection."""
    growth: float
    """Share by which verifying and drafting grow per token of depth."""
    spread: float
    """Of the generations' levels, as a share: how unsteady the machine was."""

    def prices(self, depth: int) -> Prices:
        """Prices for drafts of up to ``depth`` tokens."""
        near, far = self._round_prices(depth, 1.0), self._round_prices(depth, 1.0 + self.growth)
        # Two depths, one token apart: a straight line.
        return Prices(depths=(self.n_past, self.n_past + 1), rounds=(near, far))

    def _round_prices(self, depth: int, scale: float) -> RoundPrices:
        lengths = np.arange(depth + 1.0)
        batch = along(self.lengths, self.verify_s, lengths) + along(
            self.lengths, self.again_s, lengths
        )
        return RoundPrices(
            chain=scale * self.step_s * lengths,
            catch_up=scale * self.catch_up_s,
            batch=scale * batch,
            token=self.token_s,
            fixed=self.fixed_s,
            rollback=self.rollback_s,
        )

    def without_draft(self) -> "Costs":
        """The same, if drafts cost nothing: those of an n-gram drafter, which look something up.

        A round that drafts nothing is then one of the target alone, whatever it took beside a
        draft. So the level is the target's, and the curve gives how lengths compare.
        """
        alone = self.off_s - self.token_s - self.fixed_s
        scale = alone / self.verify_s[0] if self.lengths[0] == 0 and alone > 0 else 1.0
        return replace(
            self,
            verify_s=tuple(scale * seconds for seconds in self.verify_s),
            step_s=0.0,
            catch_up_s=0.0,
            again_s=(0.0,) * len(self.lengths),
        )

    def off_seconds(self, depths: range) -> float:
        """Seconds of the target alone for tokens decoded at ``depths``."""
        grown = sum(1 + self.growth * max(0, depth - self.n_past) for depth in depths)
        return self.off_s * grown

    @property
    def cliffs(self) -> tuple[int, ...]:
        """Drafted tokens from which on a batch suddenly costs more.

        For instance where llama.cpp begins to copy weights to the GPU for a large batch.
        """
        found = []
        for (n, near), (m, far) in pairwise(zip(self.lengths, self.verify_s, strict=True)):
            if n > 0 and far / near > CLIFF * (m + 1) / (n + 1):
                found.append(m)
        return tuple(found)


def along(lengths: Sequence[int], values: Sequence[float], wanted: Vector) -> Vector:
    """Values at ``wanted``, along lines between the measured ones and beyond the last two."""
    inside: Vector = np.interp(wanted, lengths, values)
    if len(lengths) == 1:
        return inside
    slope = (values[-1] - values[-2]) / (lengths[-1] - lengths[-2])
    beyond: Vector = slope * np.maximum(wanted - lengths[-1], 0.0)
    return inside + beyond


def fit_costs(probed: Probed, others: Sequence[Probed] = ()) -> Costs:
    """Fit the cost model.

    Args:
        probed: the target with the drafter whose costs are wanted.
        others: the same target with other drafters. What it takes to verify, and alone, does not
            depend on who drafts: the more that is measured of it, and the further apart, the less
            the machine's drift can say.

    Raises:
        ValueError: no round drafted anything.
    """
    observed = probed.observed
    if not any(o.round.n_drafted for o in observed):
        raise ValueError("no round drafted anything")
    pooled = _pooled((probed, *others))
    verify = _Polished(pooled.observed, lambda r: r.times.verify_s)
    # The draft was measured when the machine was as it was then.
    level = _median([verify.level(group) for group in {o.group for o in observed}])
    chains = [o for o in observed if o.round.n_steps]
    steady = [o for o in chains if not o.catches_up]
    step = _median([_chain_s(o) / o.round.n_steps for o in steady or chains])
    late = [_chain_s(o) - step * o.round.n_steps for o in chains if o.catches_up]
    again = _Polished(observed, lambda r: r.times.draft_s - r.chain_s)
    again_s = along(again.lengths, again.curve, np.array(verify.lengths, float)) / level
    rejected = [o.round for o in observed if o.round.n_drafted > o.round.n_accepted]
    upheld = [o.round for o in observed if o.round.n_drafted == o.round.n_accepted]
    undone = _median([r.times.rollback_s for r in upheld])
    return Costs(
        n_past=round(_median([o.n_past for o in observed])),
        lengths=verify.lengths,
        verify_s=verify.curve,
        again_s=tuple(map(float, again_s)),
        step_s=step / level,
        catch_up_s=max(0.0, _median(late)) / level,
        token_s=sum(o.round.times.sample_s for o in observed)
        / sum(len(o.round.tokens) for o in observed),
        fixed_s=_median([o.round.times.other_s for o in observed]) + undone,
        off_s=_median([seconds / verify.level(group) for group, seconds in pooled.off_s.items()]),
        rollback_s=max(0.0, _median([r.times.rollback_s for r in rejected]) - undone),
        growth=verify.growth,
        spread=verify.spread,
    )


def _pooled(all_probed: Sequence[Probed]) -> Probed:
    """All together; generations of different drafters are different ones."""
    observed: list[Observed] = []
    off_s: dict[int, float] = {}
    first = 0
    for probed in all_probed:
        observed += [replace(one, group=first + one.group) for one in probed.observed]
        off_s |= {first + group: seconds for group, seconds in probed.off_s.items()}
        first += 1 + max((one.group for one in probed.observed), default=0)
    return Probed(observed=observed, off_s=off_s)


class _Polished:
    """Seconds by drafted tokens, freed of the generations' levels by median polish of logarithms.

    Tukey 1977, Exploratory Data Analysis, chapter 11.
    """

    def __init__(self, observed: Sequence[Observed], seconds: Callable[[Round], float]) -> None:
        values = np.log([max(seconds(o.round), 1e-9) for o in observed])
        lengths, row = np.unique([o.round.n_drafted for o in observed], return_inverse=True)
        groups, column = np.unique([o.group for o in observed], return_inverse=True)
        rows, levels = np.zeros(len(lengths)), np.zeros(len(groups))
        for _ in range(_POLISH):
            rows = _medians(values - levels[column], row, len(lengths))
            levels = _medians(values - rows[row], column, len(groups))
            levels -= np.median(levels)
        self.lengths = tuple(map(int, lengths))
        weights = np.bincount(row).astype(float)
        self.curve = tuple(map(float, rising(np.exp(rows), weights)))
        self.spread = float(np.median(np.abs(levels))) * 1.4826
        self._levels = dict(zip(map(int, groups), np.exp(levels), strict=True))
        depths = np.array(
            [np.mean([o.n_past for o in observed if o.group == group]) for group in groups]
        )
        self.growth = _growth(depths, levels)

    def level(self, group: int) -> float:
        """How slow the machine was in a generation, 1 in the median."""
        return float(self._levels[group])


def _growth(depths: Vector, levels: Vector) -> float:
    """Median slope between generations of different depth (Theil 1950, Sen 1968); not negative."""
    if np.ptp(depths) < _MIN_SPAN:
        return 0.0
    first, second = np.triu_indices(len(depths), 1)
    apart = np.abs(depths[second] - depths[first]) >= _MIN_SPAN / 2
    slopes = (levels[second] - levels[first])[apart] / (depths[second] - depths[first])[apart]
    return max(0.0, float(np.median(slopes)))


def _medians(values: Vector, group: npt.NDArray[np.intp], n_groups: int) -> Vector:
    return np.array([np.median(values[group == index]) for index in range(n_groups)])


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


def _chain_s(observed: Observed) -> float:
    return observed.round.chain_s


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else 0.0
