"""What trials and forecasts together say, and when more trials are not worth it."""

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.estimates import estimates, finalist, forecast_error
from spectui.tune.forecast import Forecast
from spectui.tune.trials import PromptScore, TrialRecord, TrialState
from tests.support.search import known

ANCHOR = 10.0


def arm(draft_max: int) -> Arm:
    return Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=draft_max)))


def trial(which: Arm, speedup: float, *, spread: float = 0.04, number: int = 0) -> TrialRecord:
    """Eight prompts whose speedups differ by ``spread``, and are ``speedup`` in the mean."""
    dice = random.Random(which.label)  # noqa: S311 - scripted noise
    drawn = [dice.gauss(0, spread) for _ in range(8)]
    noise = [one - statistics.fmean(drawn) for one in drawn]
    prompts = tuple(
        PromptScore(
            prompt_id=f"p{index}",
            category="c",
            n_tokens=64,
            decode_s=64 / (ANCHOR * speedup * math.exp(noise[index])),
            n_drafted=0,
            n_accepted=0,
            n_rounds=64,
        )
        for index in range(8)
    )
    return TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        arm=which,
        prompts=prompts,
        anchor_tokens_per_s=ANCHOR,
    )


def forecast(which: Arm, speedup: float) -> Forecast:
    return Forecast(arm=which, speedup=speedup, n_drafted=1, n_accepted=1)


OFF_TRIAL = trial(OFF, 1.0, spread=0.0)
FAILED = TrialRecord(number=9, state=TrialState.FAIL, arm=arm(6), error="e")
AGAIN = TrialRecord(number=2, state=TrialState.INTERRUPTED, arm=arm(6), error="interrupted")
LOST = trial(arm(3), 0.80)
WON = trial(arm(3), 1.1, spread=0.0)


def test_an_estimate_is_the_mean_of_trial_and_calibrated_forecast() -> None:
    records = [OFF_TRIAL, *(trial(arm(n), 1.0 + n / 10, spread=0.0) for n in range(1, 6))]
    # All forecasts are 10 % too high; two are another 4 % off, the fifth is missing.
    off_by = {1: 1.04, 2: 1 / 1.04, 3: 1.0, 4: 1.0}
    forecasts = [forecast(arm(n), 1.1 * (1.0 + n / 10) * by) for n, by in off_by.items()]
    found = estimates(records, [*forecasts, forecast(arm(6), 1.1 * 1.6)])
    for n in range(1, 6):
        expected = math.log(1.0 + n / 10) + math.log(off_by.get(n, 1.0)) / 2
        assert found.value(arm(n)) == pytest.approx(expected)
    assert found.predicted[arm(6)] == pytest.approx(math.log(1.6))
    # Without forecasts the trials stand alone; failed ones and off do not count.
    alone = estimates([OFF_TRIAL, trial(arm(3), 1.3, spread=0.0), FAILED], ())
    assert alone.measured.keys() == {arm(3)}
    assert alone.value(arm(3)) == pytest.approx(math.log(1.3))
    assert alone.expected_improvement() is None


def test_an_error_of_the_forecasts_is_told_where_it_is_large() -> None:
    records = [OFF_TRIAL, *(trial(arm(n), 1.2, spread=0.0) for n in range(1, 4))]
    forecasts = [forecast(arm(n), 0.8) for n in range(1, 3)]
    told = forecast_error(estimates(records, [*forecasts, forecast(arm(3), 1.1)]).errors)
    assert known(told).startswith("3 settings did +50 % in trials against the forecast")
    right = [forecast(arm(n), 1.15) for n in range(1, 4)]
    assert forecast_error(estimates(records, right).errors) is None
    assert forecast_error(estimates([OFF_TRIAL], right).errors) is None


@given(
    st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=6, max_size=20),
    st.lists(st.floats(min_value=-0.05, max_value=0.05), min_size=6, max_size=20),
)
def test_expected_improvement_is_never_negative_and_at_least_the_predicted_gain(
    speedups: list[float], errors: list[float]
) -> None:
    arms = [arm(n) for n in range(1, 1 + min(len(speedups), len(errors)))]
    forecasts = [forecast(one, speedup) for one, speedup in zip(arms, speedups, strict=False)]
    records = [OFF_TRIAL] + [
        trial(one, speedup * math.exp(error), spread=0.0)
        for one, speedup, error in list(zip(arms, speedups, errors, strict=False))[:5]
    ]
    found = estimates(records, forecasts)
    gain = found.expected_improvement()
    if len(arms) == 5:
        assert gain is None
        return
    best = max(0.0, *(found.value(one) for one in found.measured))
    untried = max(value for one, value in found.predicted.items() if one not in found.measured)
    assert known(gain) >= max(0.0, untried - best) - 1e-12


@pytest.mark.parametrize(
    ("speedup", "untried", "low", "high"),
    [(1.2, 1.19, 0.0, 0.02), (1.2, 1.5, 0.22, 0.226), (0.5, 0.8, 0.0, 0.001)],
    ids=["no better", "far ahead", "below off"],
)
def test_more_trials_are_worth_it_while_something_untried_is_predicted_far_ahead(
    speedup: float, untried: float, low: float, high: float
) -> None:
    records = [OFF_TRIAL, *(trial(arm(n), speedup, spread=0.0) for n in range(1, 6))]
    forecasts = [*(forecast(arm(n), speedup) for n in range(1, 6)), forecast(arm(9), untried)]
    assert low <= known(estimates(records, forecasts).expected_improvement()) < high


@pytest.mark.parametrize(
    ("records", "forecasts", "best"),
    [
        ([trial(arm(3), 1.20), trial(arm(6), 1.21), trial(arm(16), 0.9)], {}, 6),
        # Off is faster than all.
        ([trial(arm(3), 0.97), trial(arm(6), 0.96)], {}, 3),
        # What was not tried is raced if it is forecast to be faster.
        ([LOST], {3: 0.9, 6: 1.5}, 6),
        ([WON], {3: 0.9, 6: 1.5}, 6),
        ([LOST, FAILED], {3: 0.9, 6: 1.5}, 3),
        # What forecasts of the trials were wrong by is taken off first.
        ([LOST], {3: 0.9, 6: 1.1}, 3),
        # Without a trial of a setting the best forecast is.
        ([], {6: 1.3, 3: 1.2}, 6),
        ([FAILED], {6: 1.3, 3: 1.2}, 3),
        ([], {}, None),
        # A repeat that was interrupted does not hide what was measured.
        ([trial(arm(2), 1.1), trial(arm(6), 1.2), AGAIN], {}, 6),
    ],
)
def test_the_finalist_is_the_best_alone(
    records: list[TrialRecord], forecasts: dict[int, float], best: int | None
) -> None:
    forecast_ = [forecast(arm(n), speedup) for n, speedup in forecasts.items()]
    found = finalist([OFF_TRIAL, *records], forecast_, min_gain=0.02)
    assert found == (None if best is None else arm(best))


def test_nothing_is_expected_of_what_does_the_same_as_a_measured_one() -> None:
    arms = [arm(n) for n in range(1, 6)]
    records = [OFF_TRIAL] + [trial(one, 1.0 + n / 50) for n, one in enumerate(arms)]
    forecasts = [forecast(one, 1.0 + n / 50) for n, one in enumerate(arms)]
    assert estimates(records, forecasts).expected_improvement() == 0.0
    best = arms[-1].speculation
    twin = Arm(
        draft="d",
        speculation=Speculation(DraftSimple(draft_max=known(best).own.longest, draft_min=1)),
    )
    same = forecast(twin, forecasts[-1].speedup)
    assert estimates(records, [*forecasts, same]).expected_improvement() == 0.0
    better = forecast(twin, 1.05 * forecasts[-1].speedup)
    gain = estimates(records, [*forecasts, better]).expected_improvement()
    assert known(gain) > 0.02
