"""Speedup of speculation over the baseline, with an interval, paired by prompt.

What a user gains is throughput over the whole workload, so the estimate is a ratio of totals:
tokens per second with speculation over tokens per second without. A mean of per-prompt speedups
would answer another question, and short prompts would weigh in it as much as long ones.

The interval is a bootstrap-t on the log of that ratio (Efron and Tibshirani 1993, "An Introduction
to the Bootstrap", section 12.5; Hesterberg 2015, "What Teachers Should Know About the Bootstrap").
The plain percentile bootstrap covers the truth in 87 to 91 % of the cases instead of
95 % when there are 8 prompts. BCa is hardly better, and Student's t and the expanded percentile
fall short where speedups are skewed, which they are when a few prompts gain much and most little.
``benchmarks/interval_coverage.py`` holds the comparison. With few prompts and errors that are not
skewed the bootstrap-t is the narrower one, and its lower end lies above the truth in 4 of 100 cases
instead of 2.5; so each end is the outer one of both intervals, which costs 8 % of the width with 8
prompts and 3 % with 16 (``benchmarks/race_coverage.py``).

Categories of prompts are strata (Cochran 1977, "Sampling Techniques", section 5A.9): what one
category gains more than another does not widen the interval, which holds for prompts in this mix.

Prompts are resampled whole, with all their repeats, since repeats of one prompt say nothing about
other prompts. Repeats are not resampled again within a prompt: the spread between prompts contains
their noise already, and would count it twice (Davison and Hinkley 1997, "Bootstrap Methods and
their Application", section 3.8).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from spectui.measure.speedup import CEILING_DIGITS, PairedMeasurement, Speedup

MIN_PROMPTS = 6
"""Fewer prompts give no interval: resamples of one and the same prompt become too frequent."""

_LEAST_STRATUM = 3
"""Prompts of a category that is a stratum of its own: of two, the spread is hardly known."""
_FEWEST_STRATIFIED = 12
"""Prompts from which on categories are strata: of fewer, each stratum costs more than it gains."""

_LEVEL = 0.95
_N_RESAMPLES = 10_000
_N_ANGLES = 1 << 16
"""Places of the grid for quantiles of Student's t: errors below a millionth."""

_Array = npt.NDArray[np.float64]
_Index = npt.NDArray[np.int_]

# Columns are speculative tokens, speculative seconds, baseline tokens, baseline seconds; where two
# speedups are compared, those of the other one follow.
_SIGNS: _Array = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0])


def paired_speedup(
    measurements: Sequence[PairedMeasurement],
    *,
    level: float = _LEVEL,
    n_resamples: int = _N_RESAMPLES,
) -> Speedup:
    """Estimate the speedup and its interval; the same input gives the same answer.

    Every prompt counts once, however often it was repeated, so that an interrupted second pass
    does not give the first prompts more weight.

    Raises:
        ValueError: there is no measurement, or ``level`` is not between 0 and 1.
    """
    if not measurements:
        raise ValueError("no pair was measured, so there is no speedup to speak of")
    totals, strata = _per_prompt(measurements), _strata(measurements)
    found = _resampled(totals, strata, level, n_resamples)
    return replace(_with_ceiling(found, measurements), n_pairs=len(measurements))


def speedup_within(parts: Sequence[PairedMeasurement], *, level: float = 0.95) -> Speedup:
    """Estimate the speedup on just these prompts, whose answers are known part by part.

    Parts of one answer are the sample, and prompts are strata of it (Cochran 1977, "Sampling
    Techniques", section 5.6): what differs from prompt to prompt does not widen the interval, which
    says nothing about other prompts. Student's t, with the parts beyond one of each prompt as
    degrees of freedom.

    Args:
        parts: of the answers, each under the name of its prompt.
        level: of the interval.

    Raises:
        ValueError: there is no part.
    """
    if not parts:
        raise ValueError("no answer was counted, so there is no speedup to speak of")
    rows = np.array(list(map(_row, parts)))
    prompts: _Index = np.unique([one.prompt_id for one in parts], return_inverse=True)[1]
    n_prompts = int(prompts.max()) + 1
    found = _without_interval(rows, level, "the answers are too short")
    found = replace(_with_ceiling(found, parts), n_prompts=n_prompts)
    freedom = len(parts) - n_prompts
    if not freedom:
        return found
    error = math.sqrt(_stratified_variance(rows, prompts))
    reach = student_quantile((1 + level) / 2, freedom) * error
    return _with_interval(found, _log_ratio(rows.mean(axis=0)).item(), reach, reach)


_BLOCK = 4
"""Consecutive prompts of a block, which share the machine's error at that time."""
FEWEST_CHANGED = 3
"""Prompts below which the error of a factor is not known."""


def rescaled(
    whole: Speedup, ours: Sequence[PairedMeasurement], theirs: Sequence[PairedMeasurement]
) -> Speedup:
    """``whole`` times the ratio of the speedup of ``ours`` to that of ``theirs``.

    Double sampling: all prompts are known in a way that has an error common to all, and some of
    them in a better way as well (Cochran 1977, "Sampling Techniques", chapter 12). The factor has
    an error of its own, found by leaving out each of its prompts in turn, which adds to that of
    ``whole`` in quadrature: with Student's t, so that few prompts count for few. Where prompts that
    followed each other differ from those before and after, the machine has changed meanwhile: then
    blocks of them are left out in turn, which is the larger error (Künsch 1989, "The Jackknife and
    the Bootstrap for General Stationary Observations").

    ``whole`` was measured at another time. A machine that differs between the two times will differ
    again, so the interval reaches to the estimate of ``whole`` as well.

    Args:
        whole: of all prompts.
        ours: some of them, in the better way, in the order of measuring.
        theirs: the same ones as ``whole`` has them.

    Raises:
        ValueError: no prompt is in both.
    """
    ours, totals = _on_both(ours, theirs)
    n = len(totals)
    found = replace(
        whole,
        estimate=whole.estimate * math.exp(_log_ratio(totals.mean(axis=0)).item()),
        low=None,
        high=None,
        n_pairs=len(ours),
        n_timed=n,
    )
    if whole.interval is None:
        return found
    if n < FEWEST_CHANGED:
        reason = f"an interval needs at least {FEWEST_CHANGED} timed prompts, measured: {n}"
        return replace(found, interval_reason=reason)
    order = {name: at for at, name in enumerate(dict.fromkeys(one.prompt_id for one in ours))}
    n_blocks = max(1, n // _BLOCK)
    blocks = np.array([min(order[name] // _BLOCK, n_blocks - 1) for name in sorted(order)])
    error = max(_left_out(totals, np.arange(n)), _left_out(totals, blocks))
    wide = student_quantile((1 + whole.level) / 2, n - 1) * error
    below, above = (math.hypot(reach, wide) for reach in interval_reach(whole))
    moved = math.log(found.estimate / whole.estimate)
    return _with_interval(found, math.log(found.estimate), max(below, moved), max(above, -moved))


def _left_out(totals: _Array, groups: _Index) -> float:
    """Error of the log ratio, from leaving out each group of prompts in turn; 0 for one group."""
    n = int(groups.max()) + 1
    if n == 1:
        return 0.0
    logs = _log_ratio(np.array([totals[groups != group].sum(axis=0) for group in range(n)]))
    return math.sqrt((n - 1) / n * float(((logs - logs.mean()) ** 2).sum()))


def product(one: Speedup, other: Speedup) -> Speedup:
    """One speedup on top of another that was measured apart: errors add in quadrature of logs."""
    found = replace(
        other, estimate=one.estimate * other.estimate, low=None, high=None, ceiling=None
    )
    if one.interval is None or other.interval is None:
        return found
    below, above = map(math.hypot, interval_reach(one), interval_reach(other))
    return _with_interval(found, math.log(found.estimate), below, above)


def paired_ratio(ours: Sequence[PairedMeasurement], theirs: Sequence[PairedMeasurement]) -> Speedup:
    """Ratio of the speedup of ``ours`` to that of ``theirs``, on the prompts of both.

    1 for two that agree. What makes one prompt gain more than another is common to both, and so
    does not widen the interval.

    Raises:
        ValueError: no prompt is in both.
    """
    ours, totals = _on_both(ours, theirs)
    return replace(_resampled(totals, np.zeros(len(totals), int)), n_pairs=len(ours))


def _on_both(
    ours: Sequence[PairedMeasurement], theirs: Sequence[PairedMeasurement]
) -> tuple[list[PairedMeasurement], _Array]:
    """``ours`` on the prompts of both, and the totals of both by prompt: ``[n_prompts, 8]``.

    Raises:
        ValueError: no prompt is in both.
    """
    names = {one.prompt_id for one in ours} & {one.prompt_id for one in theirs}
    if not names:
        raise ValueError("no prompt was measured on both sides")
    both = [[one for one in each if one.prompt_id in names] for each in (ours, theirs)]
    return both[0], np.hstack(list(map(_per_prompt, both)))


def interval_reach(speedup: Speedup) -> tuple[float, float]:
    """Distances of an interval's ends below and above the estimate, in logs; 0 without one."""
    low, high = speedup.interval or (speedup.estimate, speedup.estimate)
    return math.log(speedup.estimate / low), math.log(high / speedup.estimate)


def _without_interval(totals: _Array, level: float, reason: str) -> Speedup:
    """The speedup by totals of prompts, or of parts of them."""
    return Speedup(
        estimate=math.exp(_log_ratio(totals.mean(axis=0)).item()),
        low=None,
        high=None,
        level=level,
        n_pairs=len(totals),
        n_prompts=len(totals),
        interval_reason=reason,
    )


def _with_interval(speedup: Speedup, log: float, below: float, above: float) -> Speedup:
    """The speedup, of which this is the log, with an interval that reaches so far around that."""
    low, high = math.exp(log - below), math.exp(log + above)
    return replace(speedup, low=low, high=high, interval_reason=None)


def _resampled(
    totals: _Array, strata: _Index, level: float = _LEVEL, n_resamples: int = _N_RESAMPLES
) -> Speedup:
    """The speedup by prompt's totals, with its bootstrap-t interval."""
    if not 0 < level < 1:
        raise ValueError(f"level {level} is not between 0 and 1")
    n = len(totals)
    reason = f"an interval needs at least {MIN_PROMPTS} prompts, measured: {n}"
    found = _without_interval(totals, level, reason)
    if n < MIN_PROMPTS:
        return found
    counts = _resamples(n, n_resamples)
    below, above = _bootstrap_t(totals, counts, strata, level=level)
    return _with_interval(found, _log_ratio(totals.mean(axis=0)).item(), below, above)


def _with_ceiling(speedup: Speedup, measurements: Sequence[PairedMeasurement]) -> Speedup:
    """The speedup with its ceiling, that of every prompt as fast as it can be; 1 if no gain.

    Unchanged where it is not known what was accepted.
    """
    fastest = [found for one in measurements if (found := one.fastest) is not None]
    if len(fastest) < len(measurements):
        return speedup
    ceiling = math.exp(_log_ratio(_per_prompt(fastest).mean(axis=0)).item())
    return replace(
        speedup,
        ceiling=max(1.0, round(ceiling, CEILING_DIGITS)),
        n_accepting=len({one.prompt_id for one in measurements if one.n_accepted}),
    )


def _row(one: PairedMeasurement) -> tuple[float, ...]:
    return (one.speculative_tokens, one.speculative_s, one.baseline_tokens, one.baseline_s)


def _per_prompt(measurements: Sequence[PairedMeasurement]) -> _Array:
    """Mean over the repeats of each prompt, as ``[n_prompts, 4]``."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    for one in measurements:
        rows.setdefault(one.prompt_id, []).append(_row(one))
    # Sorted, so that the order in which prompts were measured changes nothing.
    return np.array([np.mean(rows[prompt_id], axis=0) for prompt_id in sorted(rows)])


def _strata(measurements: Sequence[PairedMeasurement]) -> _Index:
    """Number of each prompt's category, ``[n_prompts]``; small categories are one together."""
    categories = {one.prompt_id: one.category for one in measurements}
    names = [categories[prompt_id] for prompt_id in sorted(categories)]
    if len(names) < _FEWEST_STRATIFIED:
        return np.zeros(len(names), int)
    sizes = Counter(names)
    small = [name for name, n in sizes.items() if n < _LEAST_STRATUM]
    if sum(sizes[name] for name in small) < _LEAST_STRATUM:
        # Too few even together: they go with the largest.
        small.append(max(sizes, key=lambda name: sizes[name]))
    found: _Index = np.unique(
        ["" if name in small else f"{name} " for name in names], return_inverse=True
    )[1]
    return found


def _log_ratio(means: _Array) -> _Array:
    """Log of the speedup from the four totals in the last axis; of the ratio of two from eight."""
    ratio: _Array = np.log(means) @ _SIGNS[: means.shape[-1]]
    return ratio


def _variance(totals: _Array, counts: _Array) -> _Array:
    """Delta-method variance of the log ratio for each resample, a row of ``counts``."""
    n = len(totals)
    gradients = _SIGNS[: totals.shape[1]] / (counts @ totals / n)  # [n_resamples, n_columns]
    influence = gradients @ totals.T  # [n_resamples, n_prompts], weighted mean 0
    variance: _Array = (counts * influence**2).sum(axis=1) / (n * (n - 1))
    return variance


def _stratified_variance(totals: _Array, strata: _Index) -> float:
    """Delta-method variance of the log ratio, of the spread within the strata alone.

    A row that is alone in its stratum has no spread there: all of its influence counts.
    """
    influence = totals @ (_SIGNS[: totals.shape[1]] / totals.mean(axis=0))
    sizes = np.bincount(strata)
    means = np.where(sizes > 1, np.bincount(strata, influence) / sizes, 0.0)
    weights = (sizes / np.maximum(sizes - 1, 1))[strata]
    return float((weights * (influence - means[strata]) ** 2).sum()) / len(totals) ** 2


@lru_cache(maxsize=8)
def _resamples(n_prompts: int, n_resamples: int) -> _Array:
    """How often each prompt is in each resample; drawing that takes longest, and is kept."""
    rng = np.random.default_rng(0)
    shares = np.full(n_prompts, 1 / n_prompts)
    counts: _Array = rng.multinomial(n_prompts, shares, size=n_resamples).astype(np.float64)
    counts.flags.writeable = False
    return counts


def _bootstrap_t(
    totals: _Array, counts: _Array, strata: _Index, *, level: float
) -> tuple[float, float]:
    """Reach of the interval below and above the estimate, in logs.

    Quantiles of t over all prompts, times the error within the strata.
    """
    n = len(totals)
    observed = _variance(totals, np.ones((1, n))).item()
    if observed == 0:
        return 0.0, 0.0
    # A resample that happens to hold nearly equal prompts has next to no variance, and would make
    # the interval explode; the floor costs no coverage from 8 prompts on.
    variance = np.maximum(_variance(totals, counts), observed / (2 * n))
    t = (_log_ratio(counts @ totals / n) - _log_ratio(totals.mean(axis=0))) / np.sqrt(variance)
    tail = (1 - level) / 2
    t_low, t_high = np.quantile(t, [tail, 1 - tail]).tolist()
    student = student_quantile(1 - tail, n - len(set(strata.tolist())))
    error = math.sqrt(_stratified_variance(totals, strata))
    # Crosswise: where resamples fall far below the estimate, the truth may lie far above it.
    return max(t_high, student) * error, max(-t_low, student) * error


@lru_cache(maxsize=256)
def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t, for a probability above one half.

    With ``t = sqrt(freedom) * tan(angle)`` the density of the angle is ``cos(angle)`` to the power
    of ``freedom - 1``, but for a factor. Its integral is taken on a grid, and inverted.
    """
    angles = np.linspace(0.0, math.pi / 2, _N_ANGLES)
    density = np.cos(angles) ** (freedom - 1)
    within = np.append(0.0, np.cumsum(density[:-1] + density[1:]))
    angle = float(np.interp(2 * probability - 1, within / within[-1], angles))
    return math.sqrt(freedom) * math.tan(angle)
