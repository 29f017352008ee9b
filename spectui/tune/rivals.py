"""Which draft is raced, where forecasts of several are near each other.

Forecasts with one draft share the errors of its prices, so they rank its settings well. Those with
two drafts do not: while one of them was measured, the machine may have been busy. So the best
setting of each draft is timed on the same few prompts, and its forecast is corrected by what these
gained over what was predicted of them. The runs choose, and have no part in the verdict.
"""

import math
from collections.abc import Sequence

from spectui.measure.speedup import PairedMeasurement
from spectui.measure.statistics import paired_speedup
from spectui.tune.forecast import Forecast

N_TIMED = 4
"""Prompts that the best setting of each draft is timed on."""
_NEAR = math.log(1.5)
"""Distance of two forecasts that prices of a busy machine may be off by."""
_MOST = 3
"""Drafts that are timed."""


def rivals(forecasts: Sequence[Forecast]) -> tuple[Forecast, ...]:
    """The best forecast with each draft, n-gram drafters alone as one more, the best first.

    Those far below the best are left out.
    """
    best: dict[str | None, Forecast] = {}
    for one in sorted(forecasts, key=lambda one: -one.shrunk):
        if one.n_drafted and one.answers is not None:
            best.setdefault(one.arm.draft, one)
    found = tuple(best.values())
    return tuple(one for one in found if one.shrunk > found[0].shrunk - _NEAR)[:_MOST]


def corrected(
    forecast: Forecast, prompts: Sequence[str], timed: Sequence[PairedMeasurement]
) -> float:
    """Logarithm of the gain that is forecast, corrected by timed runs on some of its prompts.

    Args:
        forecast: with answers.
        prompts: [n_recordings]: their names.
        timed: runs of the setting; of recorded prompts.

    Raises:
        ValueError: nothing was timed, or the forecast is of totals alone.
    """
    if not timed or forecast.answers is None:
        raise ValueError(f"no timed run corrects the forecast of {forecast.arm.label}")
    answers = forecast.answers.whole
    rows = [prompts.index(one.prompt_id) for one in timed]
    predicted = float(answers.off_s[rows].sum() / answers.on_s[rows].sum())
    gained = paired_speedup(timed, n_resamples=1).estimate
    return forecast.shrunk + math.log(gained / predicted)
