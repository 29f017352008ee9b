"""Fits the cost model to measured rounds, with drafts of every length side by side.

A decode measured alone costs more than the same decode inside the loop, so nothing is measured
alone: the rounds come from generations in which the longest draft changes from round to round.
Each generation has its own level, since machines drift; what counts is how lengths compare within
one. A machine may stand still for a second in a round, and there are only a few rounds of a length:
so levels are medians, and means are of what is usual (Huber 1964, "Robust Estimation of a Location
Parameter"): a round that stands out counts as the edge of that.

A token of the target alone costs what a round that drafts nothing costs it behind another such one.
Behind a batch of another size llama.cpp builds its graph anew (``llama_context::process_ubatch``),
so these are kept apart, as far as their difference is seen. Answers of the target alone, decoded
before and after, would be subject to a machine that changes within seconds, and every forecast with
them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spectui.speculative.counters import Round, RoundEnd
from spectui.trace.costs import Costs, Vector, along


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A round, and where it took place."""

    group: int
    """The generation."""
    n_past: int
    """Tokens in the cache when it began."""
    round: Round
    is_repeat: bool = False
    """Whether the round before had as many drafted tokens."""

    @property
    def is_alone(self) -> bool:
        """Whether it costs the target what a token without a draft does."""
        return self.is_repeat and not self.round.n_drafted


Probed = Sequence[Observed]
"""Rounds of several generations of a target with one drafter, with drafts of varied lengths, some
of them without a token; the first round of each generation is left out."""


def pooled(all_probed: Sequence[Probed]) -> Probed:
    """All together; generations of different drafters are different ones."""
    found: list[Observed] = []
    for probed in all_probed:
        n_before = 1 + max((one.group for one in found), default=-1)
        found += [replace(one, group=n_before + one.group) for one in probed]
    return found


_Index = npt.NDArray[np.intp]

_POLISH = 10
"""Sweeps of the polish: it has settled long before."""
EDGE = 1.5
"""Standard deviations from the median beyond which a value stands out."""
_USUAL = 0.7
"""Share of values that may be disturbed no more than they are usually; the median would be the
share of the ones that a busy machine happens to leave alone."""
_SIGMAS = 1.036
"""Standard deviations within which that share of a normal distribution lies."""
LEAST_SPREAD = 0.01
"""Relative standard deviation that is usual at least: equal times are no reason to distrust one
that differs in the last digit."""
_RESTLESS = 0.1
"""Relative standard deviation of rounds beside a program that computes all the time."""
_STEPS = 0.15
"""Relative standard deviation of costs around a line over the length: kernels take batches in
steps."""
_GRAPH = 0.04
"""Relative standard deviation of what building a graph anew adds to a token."""
_APART = 256
"""Tokens between two depths, below which their comparison shows no growth."""
_MAX_COMPARED = 256
"""Rounds of one length that are compared with each other for growth."""
_LEAST_FLAT = 0.25
"""Share of one round's cost that is never due to its depth."""


class Curve:
    """Seconds by drafted tokens at one depth, freed of the generations' levels, and their growth.

    Levels by a polish of logarithms (Tukey 1977, Exploratory Data Analysis, chapter 11).
    """

    def __init__(
        self, observed: Sequence[Observed], seconds: Callable[[Round], float], n_past: float
    ) -> None:
        values = np.array([max(seconds(o.round), 1e-9) for o in observed])
        more = np.array([o.n_past - n_past for o in observed], float)
        lengths, row = np.unique([o.round.n_drafted for o in observed], return_inverse=True)
        groups, column = np.unique([o.group for o in observed], return_inverse=True)
        growth_s = _growth_by_length(lengths, row, more, values)
        # Growth that was seen too large must not leave less than nothing of a deep round.
        flat = np.maximum(values - growth_s[row] * more, values * _LEAST_FLAT)
        # The target alone has a row of its own: behind other batches the graph is built anew.
        kinds, kind = np.unique(2 * row + [o.is_alone for o in observed], return_inverse=True)
        found, spread, levels = _polished(np.log(flat), kind, column)
        n_rounds, n_kind = np.bincount(row).astype(float), np.bincount(kind)
        both = np.bincount(kinds // 2, n_kind * found) / n_rounds
        means = _drawn_to_line(lengths, np.exp(both), spread**2 / n_rounds)
        first_s, *longer_s = floats(rising(means, n_rounds))
        # As far as their difference is seen.
        own = _GRAPH**2 / (_GRAPH**2 + spread**2 / n_kind)
        apart = np.exp(own * (found - both[kinds // 2]))
        factors = dict(zip(map(int, kinds), floats(apart), strict=True))
        self.lengths = tuple(map(int, lengths))
        self.seconds = (min(first_s * factors.get(0, 1.0), *longer_s), *longer_s)
        self.alone_s = first_s * factors.get(1, 1.0)
        """Of a round that drafts nothing behind another such one."""
        self.growth_s = floats(growth_s)
        self.levels = dict(zip(map(int, groups), floats(np.exp(levels)), strict=True))
        """Slowness of the machine by generation, 1 in the mean."""


def _polished(values: Vector, row: _Index, column: _Index) -> tuple[Vector, float, Vector]:
    """Effects of rows and columns on logarithms: of the rows' means, and the columns' medians.

    Between them the relative standard deviation within rows and columns.
    """
    rows, levels = np.zeros(row.max() + 1), np.zeros(column.max() + 1)
    for _ in range(_POLISH):
        rows = _by_group(np.median, values - levels[column], row)
        levels = _by_group(np.median, values - rows[row], column)
        levels -= levels.mean()
    # Of a few values their own spread is chance: that of all is taken.
    edged = _edged(np.exp(values - rows[row] - levels[column]))
    return rows + np.log(_by_group(np.mean, edged, row)), float(edged.std()), levels


def _drawn_to_line(lengths: Vector, seconds: Vector, variance: Vector) -> Vector:
    """Seconds of each length, drawn towards a line over the lengths as far as they are uncertain.

    Beside a program that computes all the time a few rounds of a length say little, and all rounds
    together much (Efron and Morris 1973, "Stein's Estimation Rule and Its Competitors").

    Args:
        lengths: [n].
        seconds: [n].
        variance: [n], of the relative errors.
    """
    weight = 1 / (variance + _STEPS**2)
    ones = np.ones(len(lengths))
    terms = np.stack((ones, lengths), axis=1)
    scale = np.sqrt(weight) / seconds
    at, growth_s = np.linalg.lstsq(terms * scale[:, None], np.sqrt(weight), rcond=None)[0]
    if at <= 0 or growth_s < 0:
        at, growth_s = np.average(seconds, weights=weight), 0.0
    own = _STEPS**2 * weight
    found: Vector = np.exp(own * np.log(seconds) + (1 - own) * np.log(terms @ (at, growth_s)))
    return found


def _edged(relative: Vector) -> Vector:
    """Values over their medians, of which those that stand out count as the edge.

    A program that computes all the time delays many rounds, and short ones sometimes by their own
    length: then delays are a part of what a round costs, and the edge is far away.
    """
    spread = max(float(np.quantile(np.abs(relative - 1), _USUAL)) / _SIGMAS, LEAST_SPREAD)
    reach = EDGE * spread * (1 + (spread / _RESTLESS) ** 2)
    found: Vector = relative.clip(1 - reach, 1 + reach)
    return found


def _by_group(statistic: Callable[[Vector], Any], values: Vector, group: _Index) -> Vector:
    return np.array([statistic(values[group == index]) for index in range(group.max() + 1)])


def _growth_by_length(lengths: Vector, row: _Index, depth: Vector, seconds: Vector) -> Vector:
    """Growth of each length per token of depth.

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


def rising(values: Vector, weights: Vector) -> Vector:
    """Nearest curve that never falls, by weighted least squares.

    By the max-min formula of isotonic regression (Robertson, Wright and Dykstra 1988): at each
    place the greatest, over all that begin up to there, of the least means.
    """
    n = len(values)
    means = [
        [np.average(values[i:j], weights=weights[i:j]) if i < j else 0.0 for j in range(1, n + 1)]
        for i in range(n)
    ]
    return np.array([max(min(row[at:]) for row in means[: at + 1]) for at in range(n)])


def usual(values: Sequence[float] | Vector) -> float:
    """Mean of values, of which those that stand out count as the edge; 0 of nothing."""
    found = np.asarray(values, float)
    middle = float(np.median(found)) if len(found) else 0.0
    return middle * float(_edged(found / middle).mean()) if middle else 0.0


def floats(values: Iterable[float]) -> tuple[float, ...]:
    """Numpy's numbers as Python's own, for JSON."""
    return tuple(map(float, values))


_MAX_GROWN = 0.9
"""Share of a cost that may be due to the context: something is left of it without one."""


def fit_costs(probed: Probed, others: Sequence[Probed] = ()) -> Costs:
    """Fit the cost model.

    Args:
        probed: the target with the drafter whose costs are wanted.
        others: the same target with other drafters. Its costs of verifying, and of decoding alone,
            do not depend on the drafter: more rounds of it, spread over more time, reduce the
            influence of the machine's drift.

    Raises:
        ValueError: no round drafted anything, or no two in a row drafted nothing.
    """
    if not any(o.round.n_drafted for o in probed):
        raise ValueError("no round drafted anything")
    n_past = float(np.median([o.n_past for o in probed]))
    whole = pooled((probed, *others))
    if not any(o.is_alone for o in whole):
        raise ValueError("no two rounds in a row drafted nothing: the target alone was not seen")
    verify = Curve(whole, lambda r: r.times.verify_s, n_past)
    again = Curve(probed, lambda r: r.times.draft_s - r.chain_s, n_past)
    # The level of the machine while this drafter was measured.
    level = float(np.mean([verify.levels[group] for group in {o.group for o in probed}]))
    lengths = np.array(verify.lengths, float)
    step_s, step_growth_s = _chain_costs(probed, n_past)
    undone_s, rollback_s, rollback_token_s = _rollback_costs([o.round for o in probed])
    token_s = sum(o.round.times.sample_s for o in probed)
    token_s /= sum(len(o.round.tokens) for o in probed)
    fixed_s = usual([o.round.times.other_s for o in probed]) + undone_s
    costs = Costs(
        n_past=n_past,
        lengths=verify.lengths,
        verify_s=verify.seconds,
        verify_growth_s=verify.growth_s,
        again_s=floats(along(again.lengths, again.seconds, lengths) / level),
        again_growth_s=floats(
            np.maximum(along(again.lengths, again.growth_s, lengths), 0.0) / level
        ),
        step_s=step_s / level,
        step_growth_s=step_growth_s / level,
        token_s=token_s,
        fixed_s=fixed_s,
        rollback_s=rollback_s / level,
        rollback_token_s=rollback_token_s / level,
        # A round that drafts nothing does the same and more.
        off_s=min(verify.alone_s, verify.seconds[0]) + token_s + fixed_s,
        off_growth_s=verify.growth_s[0],
        mark_s=usual([o.round.mark_s for o in probed if o.round.n_drafted]) / level,
    )
    return _bounded(costs)


def _bounded(costs: Costs) -> Costs:
    """Costs that leave something of every part where the context is empty."""

    def bounded(growth_s: float, seconds: float) -> float:
        return min(growth_s, _MAX_GROWN * seconds / max(costs.n_past, 1.0))

    return replace(
        costs,
        verify_growth_s=tuple(map(bounded, costs.verify_growth_s, costs.verify_s)),
        again_growth_s=tuple(map(bounded, costs.again_growth_s, costs.again_s)),
        step_growth_s=bounded(costs.step_growth_s, costs.step_s),
        off_growth_s=bounded(costs.off_growth_s, costs.off_s),
    )


def _chain_costs(observed: Sequence[Observed], n_past: float) -> tuple[float, float]:
    """Seconds of a step at ``n_past``, and its growth."""
    chains = [o for o in observed if o.round.n_steps]
    more = np.array([o.n_past - n_past for o in chains], float)
    seconds = np.array([o.round.chain_s / o.round.n_steps for o in chains])
    growth_s = max(0.0, growth(more, seconds)[0])
    return max(0.0, usual(seconds - growth_s * more)), growth_s


def _rollback_costs(rounds: Sequence[Round]) -> tuple[float, float, float]:
    """Seconds of a round, more of one that ends in a mismatch, and per token it had accepted."""
    rejected = [one for one in rounds if one.end is RoundEnd.MISMATCH]
    undone_s = usual([_rewinding_s(one) for one in rounds if one.end is not RoundEnd.MISMATCH])
    accepted = np.array([one.n_accepted for one in rejected], float)
    seconds = np.array([_rewinding_s(one) - undone_s for one in rejected])
    slope = max(0.0, growth(accepted, seconds, apart=1)[0])
    return undone_s, max(0.0, usual(seconds - slope * accepted)), slope


def _rewinding_s(one: Round) -> float:
    """Seconds of rollback that depend on the round's outcome, so without the mark."""
    return one.times.rollback_s - one.mark_s
