"""The second sample of a verdict: recorded prompts, counted and priced, some of them timed as well.

What one prompt gains more than another is nine tenths of an interval's width, and counts have it
exactly; what prices are off by is common to all prompts, and a few timed ones tell it. So the
speedup is that of all recorded prompts by counts and prices, times what the timed ones gained over
what was predicted of them (``statistics.changed``).

The best of thousands of settings on some prompts is partly the best for just these, and looks
better on them than it is. So each prompt is counted with the setting that the others have chosen
(cross-fitting; Chernozhukov et al. 2018, "Double/debiased machine learning"): all prompts judge,
and none chooses for itself. A choice that varies from prompt to prompt makes such an interval too
narrow by a tenth; ``CROSSED_ERROR`` allows for that (``benchmarks/race_coverage.py``).

From a dozen prompts or fewer hardly anything follows for others, and a user who gave them wants to
know of these. Then the answer is for these prompts, with the parts of their answers as the sample;
what others would gain is told beside it, as wide as it is.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from spectui.measure.arm import Arm
from spectui.measure.statistics import (
    MIN_PROMPTS,
    PairedMeasurement,
    Speedup,
    changed,
    paired_speedup,
    speedup_within,
)
from spectui.measure.verdict import Basis
from spectui.trace.stretches import Stretch
from spectui.tune.forecast import EVEN, Forecast, promising
from spectui.tune.looks import ERROR

FEW = 12
"""Prompts up to which the answer is for just these."""
CROSSED_ERROR = 0.02
"""Error of an interval over prompts that have chosen for each other, both sides."""
_FOLDS = 12
"""Groups of prompts that the others choose for."""
_TIMED_SHARE = 0.2
"""Share of the variance below which timing is not worth more of it."""
_N_RESAMPLES = 40_000
"""A look spends a part of the error: its interval lies far out in the tails."""
_LEVEL = 0.95
"""Level at which parts of an interval are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Widths:
    """Half-widths of an interval's parts, as logarithms."""

    counted: float
    timed: float

    def variance(self, share: float = 1.0) -> float:
        """Of both, if ``1 / share`` times as much were timed."""
        return self.counted**2 + share * self.timed**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Recorded prompts of a search."""

    chosen: Arm
    """The setting that all of them have chosen."""
    by_others: Mapping[str, Arm]
    """The setting that the other prompts have chosen, by recorded prompt."""
    stretches: Callable[[Arm], Sequence[Stretch]] = field(repr=False)
    """The recorded answers with a setting."""

    @property
    def is_of_few(self) -> bool:
        """Whether the answer is for just these prompts."""
        return len(self.by_others) <= FEW

    @property
    def basis(self) -> Basis:
        """Text that the setting is judged on."""
        return Basis.THESE if self.is_of_few else Basis.CROSSED

    @property
    def error(self) -> float:
        """Error that the looks of a race share, both sides."""
        return ERROR if self.is_of_few else CROSSED_ERROR

    @property
    def n_passes(self) -> int:
        """Passes over the prompts until enough are timed to know the error of a factor."""
        return -(-MIN_PROMPTS // max(len(self.by_others), 1))

    def covers(self, arm: Arm) -> bool:
        """Whether the recording holds what the setting would do."""
        return bool(self.stretches(arm))

    def speedup(
        self, arm: Arm, timed: Sequence[PairedMeasurement], *, level: float = _LEVEL
    ) -> Speedup:
        """The speedup that the verdict is on.

        Args:
            arm: the setting that was timed.
            timed: of recorded prompts.
            level: of the interval.

        Raises:
            ValueError: none of these prompts was recorded.
        """
        return self._changed(self._counted(arm, level), arm, timed)

    def of_others(self, arm: Arm, timed: Sequence[PairedMeasurement]) -> Speedup | None:
        """What prompts like these gain, where the verdict is on just these; else None."""
        if not self.is_of_few:
            return None
        whole = paired_speedup(self.judged(arm), level=1 - CROSSED_ERROR)
        return replace(self._changed(whole, arm, timed), level=_LEVEL)

    def judged(self, arm: Arm) -> list[PairedMeasurement]:
        """Each prompt with the setting that the others chose; with any other arm, with that."""
        if arm != self.chosen:
            return self._whole(arm, self.by_others)
        rows = []
        for one in dict.fromkeys(self.by_others.values()):
            rows += self._whole(one, [name for name, arm in self.by_others.items() if arm == one])
        return rows

    def progress(self, arm: Arm, timed: Sequence[PairedMeasurement], n_planned: int) -> float:
        """Share of the information that ``n_planned`` timed runs will have; 1 for all of it."""
        widths = self._widths(arm, timed)
        share = len(timed) / max(n_planned, len(timed))
        return share if widths is None else widths.variance(share) / widths.variance()

    def is_timed_enough(self, arm: Arm, timed: Sequence[PairedMeasurement]) -> bool:
        """Whether more timed runs would hardly narrow the interval."""
        widths = self._widths(arm, timed)
        return widths is not None and widths.timed**2 <= _TIMED_SHARE * widths.variance()

    def _widths(self, arm: Arm, timed: Sequence[PairedMeasurement]) -> _Widths | None:
        counted = self._counted(arm, _LEVEL)
        both = self._changed(counted, arm, timed)
        if counted.low is None or both.low is None or both.low == both.estimate:
            return None
        width, whole = (math.log(one.estimate / (one.low or 1.0)) for one in (counted, both))
        return _Widths(counted=width, timed=math.sqrt(max(0.0, whole**2 - width**2)))

    def _counted(self, arm: Arm, level: float) -> Speedup:
        if self.is_of_few:
            return speedup_within(self._parts(arm), level=level)
        return paired_speedup(self.judged(arm), level=level, n_resamples=_N_RESAMPLES)

    def _changed(self, whole: Speedup, arm: Arm, timed: Sequence[PairedMeasurement]) -> Speedup:
        """``whole`` as the timed runs change it.

        Few prompts are timed several times, and each run tells of the prices for itself.
        """
        expected = {one.prompt_id: one for one in self._whole(arm, self.by_others)}
        known = [one for one in timed if one.prompt_id in expected]
        theirs = [expected[one.prompt_id] for one in known]
        if self.n_passes > 1:
            known, theirs = (_numbered(rows) for rows in (known, theirs))
        return replace(changed(whole, known, theirs), n_timed=len({o.prompt_id for o in timed}))

    def _parts(self, arm: Arm) -> list[PairedMeasurement]:
        return [
            PairedMeasurement(
                prompt_id=one.id,
                category=one.category,
                baseline_s=one.off_s,
                baseline_tokens=one.n_tokens,
                speculative_s=one.seconds,
                speculative_tokens=one.n_tokens,
                n_accepted=one.n_accepted,
            )
            for one in self.stretches(arm)
        ]

    def _whole(self, arm: Arm, names: Collection[str]) -> list[PairedMeasurement]:
        """The answers to some prompts with a setting, each as a whole."""
        answers: dict[str, list[PairedMeasurement]] = {}
        for part in self._parts(arm):
            if part.prompt_id in names:
                answers.setdefault(part.prompt_id, []).append(part)
        return [
            replace(
                parts[0],
                baseline_s=sum(one.baseline_s for one in parts),
                baseline_tokens=sum(one.baseline_tokens for one in parts),
                speculative_s=sum(one.speculative_s for one in parts),
                speculative_tokens=sum(one.speculative_tokens for one in parts),
                n_accepted=sum(one.n_accepted or 0 for one in parts),
            )
            for parts in answers.values()
        ]


def _numbered(rows: Sequence[PairedMeasurement]) -> list[PairedMeasurement]:
    return [replace(one, prompt_id=f"{one.prompt_id} {n}") for n, one in enumerate(rows)]


def evidence_of(
    chosen: Arm,
    forecasts: Sequence[Forecast],
    stretches: Callable[[Arm], Sequence[Stretch]],
) -> Evidence | None:
    """What recorded prompts say of a setting that was chosen by them.

    Args:
        chosen: the best of ``forecasts``.
        forecasts: all that can be chosen.
        stretches: gives the recorded answers with a setting; none where it was not recorded.

    Returns:
        None where nothing was recorded with the setting.
    """
    names = list(dict.fromkeys(one.id for one in stretches(chosen)))
    return (
        Evidence(
            chosen=chosen,
            by_others=dict(zip(names, _by_others(chosen, forecasts, len(names)), strict=True)),
            stretches=cache(stretches),
        )
        if names
        else None
    )


def _by_others(chosen: Arm, forecasts: Sequence[Forecast], n: int) -> list[Arm]:
    """The setting that the other prompts choose, for each of ``n``."""
    each_s = np.array([one.each_s for one in forecasts])
    each_off_s = np.array([one.each_off_s for one in forecasts])
    # Recordings in which nothing was decoded have no part in it.
    decoded = each_off_s[0] > 0
    each_s, each_off_s = each_s[:, decoded], each_off_s[:, decoded]
    if n < 2:  # noqa: PLR2004 - a prompt alone has no others
        return [chosen] * n
    folds = np.arange(n) % min(n, _FOLDS)
    found = [chosen] * n
    for fold in range(folds.max() + 1):
        others = folds != fold
        speedups = each_off_s[:, others].sum(axis=1) / each_s[:, others].sum(axis=1)
        # Those from which a choice is made, as all prompts make it.
        near = np.flatnonzero(speedups >= (1 - EVEN) * speedups.max())
        (best,) = promising(
            [
                replace(
                    forecasts[index],
                    speedup=float(speedups[index]),
                    each_s=tuple(each_s[index, others].tolist()),
                    each_off_s=tuple(each_off_s[index, others].tolist()),
                )
                for index in near[np.argsort(-speedups[near], kind="stable")].tolist()
            ],
            n=1,
        )
        for index in np.flatnonzero(~others).tolist():
            found[index] = best
    return found
