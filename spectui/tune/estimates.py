"""Estimates of every setting from trials and forecasts, and whether more trials are worth it.

A trial is right but noisy, a forecast exact in its counts but wrong in its prices. Both errors are
a few per cent, and independent; so their mean is better than either, once the bias that all
forecasts of this machine share is taken out.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from spectui.format import counted, gain_percent
from spectui.measure.arm import Arm
from spectui.tune.forecast import Forecast, promising
from spectui.tune.trials import TrialRecord, TrialState, speedup_estimate

_MIN_COMPARED = 4
"""Settings both measured and forecast, below which the scatter of forecasts is not known."""
_MIN_SCATTER = 0.01
_LARGE_ERROR = 0.1
_SAME = 0.005
"""Difference of logarithms: forecasts that differ by under half a per cent have the same speed."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Speedups over off, as logarithms, by arm."""

    measured: dict[Arm, float]
    """Mean over the arm's trials."""
    predicted: dict[Arm, float]
    """Forecasts, their common bias taken out."""
    errors: tuple[float, ...]
    """Measured minus forecast, of each setting that has both."""
    scatter: float | None
    """Standard deviation of measured minus predicted; None while too few arms have both."""

    def value(self, arm: Arm) -> float:
        """Log speedup of an arm that was measured."""
        measured = self.measured[arm]
        predicted = self.predicted.get(arm)
        return measured if predicted is None else (measured + predicted) / 2

    @property
    def ranking(self) -> tuple[Arm, ...]:
        """Measured arms, best first."""
        return tuple(sorted(self.measured, key=lambda arm: -self.value(arm)))

    def expected_improvement(self) -> float | None:
        """Expected gain in speedup of the best further trial, relative to the speedup.

        By the forecasts of settings that were not measured, and are not forecast to do the same as
        a measured one of the same drafter and length, whose error they share (Jones, Schonlau and
        Welch 1998, "Efficient Global Optimization of Expensive Black-Box Functions", equation 15),
        over the best measured setting or over off, whichever is faster. None if forecasts or their
        scatter are not known, 0 if all of them have been tried.
        """
        untried = self.untried()
        if not untried:
            return 0.0 if self.predicted else None
        if self.scatter is None:
            return None
        incumbent = max(0.0, *(self.value(arm) for arm in self.measured))
        z = (max(untried.values()) - incumbent) / self.scatter
        return self.scatter * (z * _NORMAL.cdf(z) + _NORMAL.pdf(z))

    def untried(self) -> dict[Arm, float]:
        """Forecasts that are above those of what was measured in their place."""
        tried: dict[tuple[str, int], float] = {}
        for arm in self.measured.keys() & self.predicted.keys():
            place = _place(arm)
            tried[place] = max(tried.get(place, -math.inf), self.predicted[arm])
        return {
            arm: value
            for arm, value in self.predicted.items()
            if arm not in self.measured and value > tried.get(_place(arm), -math.inf) + _SAME
        }


def _place(arm: Arm) -> tuple[str, int]:
    """Drafter and length, along which forecasts err."""
    return arm.drafter, 0 if arm.speculation is None else arm.speculation.own.longest


def estimates(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> Estimates:
    """Put trials and forecasts together."""
    measured = _measured(records)
    raw = {one.arm: math.log(one.speedup) for one in forecasts if one.speedup > 0}
    both = [measured[arm] - raw[arm] for arm in measured if arm in raw]
    bias = statistics.fmean(both) if both else 0.0
    enough = len(both) >= _MIN_COMPARED
    return Estimates(
        errors=tuple(both),
        measured=measured,
        predicted={arm: value + bias for arm, value in raw.items()},
        scatter=max(_MIN_SCATTER, statistics.stdev(both)) if enough else None,
    )


def _measured(records: Sequence[TrialRecord]) -> dict[Arm, float]:
    found: dict[Arm, list[float]] = {}
    for record in records:
        speedup = speedup_estimate(record, records)
        is_measured = record.state is TrialState.COMPLETE and record.arm.speculation is not None
        if is_measured and speedup:
            found.setdefault(record.arm, []).append(math.log(speedup))
    return {arm: statistics.fmean(values) for arm, values in found.items()}


def forecast_error(errors: Sequence[float]) -> str | None:
    """By how much forecasts of a search are off, in words; None within 10 %, or without a trial.

    Args:
        errors: logarithms of measured over forecast speedups, one per setting.
    """
    if not errors or abs(gain := math.expm1(statistics.median(errors))) < _LARGE_ERROR:
        return None
    settings = counted(len(errors), "setting")
    return (
        f"{settings} did {gain_percent(100 * gain, 0)} in trials against the forecast (median): "
        "forecasts rank settings, and what was measured decides"
    )


def finalist(
    records: Sequence[TrialRecord], forecasts: Sequence[Forecast], *, min_gain: float
) -> Arm | None:
    """The setting to race against off.

    The best one measured, or one that time left untried and that is forecast to be better by more
    than ``min_gain``. Where no trial of a setting could be afforded, the best forecast. None if
    there is neither.

    A close second is not raced: what it may gain beyond the best is about ``min_gain``, and its
    runs take time from the prompts that decide between on and off.
    """
    unmeasurable = {TrialState.FAIL, TrialState.PRUNED}
    failed = {record.arm for record in records if record.state in unmeasurable}
    known = estimates(records, [one for one in forecasts if one.arm not in failed])
    if not known.measured:
        return next(iter(promising([one for one in forecasts if one.arm not in failed], n=1)), None)
    best, untried = known.ranking[0], known.untried()
    ahead = max(untried, key=lambda arm: untried[arm], default=best)
    least = max(0.0, known.value(best)) + math.log1p(min_gain)
    return ahead if untried.get(ahead, -math.inf) > least else best
