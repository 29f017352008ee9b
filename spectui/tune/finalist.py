"""The setting to race against off, and how far forecasts were from what was measured."""

import math
import statistics
from collections.abc import Sequence

from spectui.format import counted, percent_text
from spectui.measure.arm import Arm
from spectui.tune.forecast import Forecast, promising
from spectui.tune.race import Standing
from spectui.tune.trials import TrialRecord, TrialState, best_trial

_LARGE_ERROR = 0.1
_UNMEASURABLE = frozenset({TrialState.FAIL, TrialState.PRUNED})


def choosable(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> list[Forecast]:
    """The forecasts of settings that have not failed in a trial, in their order."""
    failed = {one.arm for one in records if one.state in _UNMEASURABLE}
    return [one for one in forecasts if one.arm not in failed]


def finalist(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> Arm | None:
    """The best forecast that has not failed in a trial; without forecasts, the best trial.

    A forecast is off by 1 to 2 %, a trial of eight prompts by 5 % (``benchmarks/replay_times.py``):
    where there is a forecast, a trial says no more than whether the setting runs at all.

    A close second is not raced: what it may gain beyond the best is about the least gain, and its
    runs take time from the prompts that decide between on and off.

    Args:
        records: trials of arms that may be recommended.
        forecasts: best first.
    """
    chosen = promising(choosable(records, forecasts), n=1)
    if chosen:
        return chosen[0]
    best = best_trial(records)
    return None if best is None else best.arm


def forecast_errors(
    standings: Sequence[Standing], forecasts: Sequence[Forecast]
) -> tuple[float, ...]:
    """Logarithms of raced over forecast speedups, one per finalist that has both."""
    predicted = {one.arm: one.speedup for one in forecasts if one.speedup > 0}
    return tuple(
        math.log(one.speedup.estimate / predicted[one.arm])
        for one in standings
        if one.speedup is not None and one.arm in predicted
    )


def forecast_error(errors: Sequence[float]) -> str | None:
    """By how much forecasts of a search are off, in words; None within 10 %, or without any.

    Args:
        errors: logarithms of measured over forecast speedups, one per setting.
    """
    if not errors or abs(gain := math.expm1(statistics.median(errors))) < _LARGE_ERROR:
        return None
    what = "the timed speedup is"
    if len(errors) > 1:
        what = f"in the median of {counted(len(errors), 'setting')} {what}"
    side = "above" if gain > 0 else "below"
    return (
        f"{what} {percent_text(abs(gain))} {side} the forecast: forecasts rank settings, and what "
        "was timed decides"
    )
