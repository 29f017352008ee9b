import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.statistics import (
    MIN_PROMPTS,
    PairedMeasurement,
    drift,
    paired_speedup,
    student_quantile,
)


def pair(
    prompt_id: object, off_s: float, on_s: float, off_tokens: int = 96, on_tokens: int = 96
) -> PairedMeasurement:
    return PairedMeasurement(
        prompt_id=str(prompt_id),
        category="prose",
        baseline_s=off_s,
        baseline_tokens=off_tokens,
        speculative_s=on_s,
        speculative_tokens=on_tokens,
    )


seconds = st.floats(0.5, 5.0)
runs = st.lists(st.tuples(seconds, seconds), min_size=MIN_PROMPTS, max_size=12)


def pairs(times: list[tuple[float, float]], scale: float = 1.0) -> list[PairedMeasurement]:
    return [pair(i, off * scale, on * scale) for i, (off, on) in enumerate(times)]


def bounds(measurements: list[PairedMeasurement], seed: int = 0) -> tuple[float, float, float]:
    result = paired_speedup(measurements, n_resamples=400, seed=seed)
    assert result.low is not None
    assert result.high is not None
    return result.low, result.estimate, result.high


def test_the_estimate_is_the_ratio_of_total_throughputs() -> None:
    measured = [pair("long", 10.0, 10.0), pair("short", 1.0, 0.25, 10, 20)]
    expected = ((96 + 20) / 10.25) / ((96 + 10) / 11.0)
    assert paired_speedup(measured).estimate == pytest.approx(expected)


def test_prompts_of_one_speedup_leave_no_doubt() -> None:
    low, estimate, high = bounds([pair(i, 1.0 + i, (1.0 + i) / 2) for i in range(8)])
    assert (low, estimate, high) == pytest.approx((2.0, 2.0, 2.0))
    equal = bounds([pair(i, 3.0, 1.5) for i in range(8)])
    assert equal == pytest.approx((2.0, 2.0, 2.0))


def test_one_outlier_widens_the_interval_without_exploding_it() -> None:
    low, _, high = bounds([pair(i, 1.0, 0.8) for i in range(7)] + [pair("odd", 1.0, 1.6)])
    assert 0.4 < low < 1.0
    assert 1.25 <= high < 1.5


def test_repeats_of_a_prompt_add_no_prompts() -> None:
    once = [pair(i, 2.0, 1.0 + 0.1 * i) for i in range(8)]
    twice = paired_speedup(once + once)
    assert (twice.n_pairs, twice.n_prompts) == (16, 8)
    assert (twice.low, twice.high) == (paired_speedup(once).low, paired_speedup(once).high)


def test_a_prompt_repeated_more_often_weighs_no_more() -> None:
    even = [pair("a", 2.0, 1.0), pair("b", 2.0, 4.0)]
    assert paired_speedup([*even, pair("a", 2.0, 1.0)]).estimate == pytest.approx(
        paired_speedup(even).estimate
    )


@pytest.mark.parametrize("n", [1, MIN_PROMPTS - 1])
def test_few_prompts_have_an_estimate_and_a_reason_for_no_interval(n: int) -> None:
    result = paired_speedup([pair(i % n, 2.0, 1.0) for i in range(9)])
    assert result.estimate == pytest.approx(2.0)
    assert (result.low, result.high) == (None, None)
    assert result.interval_reason is not None
    assert f"measured: {n}" in result.interval_reason


def test_enough_prompts_have_an_interval_and_no_reason() -> None:
    result = paired_speedup([pair(i, 2.0, 1.0 + 0.1 * i) for i in range(MIN_PROMPTS)])
    assert result.low is not None
    assert result.interval_reason is None


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="no pair"):
        paired_speedup([])


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_outside_0_and_1_is_an_error(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        paired_speedup([pair(0, 1.0, 1.0)], level=level)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_pair_without_throughput_is_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="prompt x"):
        pair("x", 1.0, bad)
    with pytest.raises(ValueError, match="prompt x"):
        pair("x", 1.0, 1.0, on_tokens=0)


@given(times=runs, seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_interval(times: list[tuple[float, float]], seed: int) -> None:
    assert bounds(pairs(times), seed) == bounds(pairs(times)[::-1], seed)


@given(times=runs)
def test_the_interval_contains_the_estimate(times: list[tuple[float, float]]) -> None:
    low, estimate, high = bounds(pairs(times))
    assert low <= estimate * (1 + 1e-9)
    assert estimate <= high * (1 + 1e-9)


@given(times=runs, scale=st.floats(0.01, 100))
def test_a_slower_machine_has_the_same_speedup(
    times: list[tuple[float, float]], scale: float
) -> None:
    assert bounds(pairs(times, scale)) == pytest.approx(bounds(pairs(times)), rel=1e-6)


@given(times=runs)
def test_exchanging_off_and_on_inverts_the_interval(times: list[tuple[float, float]]) -> None:
    low, estimate, high = bounds(pairs([(on, off) for off, on in times]))
    expected = bounds(pairs(times))
    assert (1 / high, 1 / estimate, 1 / low) == pytest.approx(expected, rel=1e-6)


def test_a_higher_level_is_wider() -> None:
    measured = [pair(i, 2.0, 1.0 + 0.1 * i) for i in range(8)]
    narrow, wide = paired_speedup(measured, level=0.8), paired_speedup(measured, level=0.99)
    assert None not in (narrow.low, narrow.high, wide.low, wide.high)
    assert wide.low < narrow.low < narrow.high < wide.high  # type: ignore[operator]


def test_eight_prompts_cover_the_truth_about_as_often_as_promised() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        off = np.exp(rng.normal(0, 0.05, 8))
        on = off * np.exp(rng.normal(-0.2, 0.15, 8) + rng.normal(0, 0.03, 8))
        low, _, high = bounds(pairs(list(zip(off.tolist(), on.tolist(), strict=True))))
        hits += low <= math.exp(0.2 - (0.15**2 + 0.03**2) / 2) <= high
    assert hits / 400 >= 0.92


def test_drift_is_fastest_over_slowest() -> None:
    assert drift([10.0, 12.0, 11.0]) == pytest.approx(0.2)
    assert drift([10.0, 10.0]) == 0


@pytest.mark.parametrize("anchors", [[], [10.0], [10.0, 0.0]])
def test_drift_of_less_than_two_anchors_is_unknown(anchors: list[float]) -> None:
    with pytest.raises(ValueError, match="two anchors"):
        drift(anchors)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (7, 2.3646), (23, 2.0687)],
)
def test_quantiles_of_students_t(freedom: int, quantile: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=1e-4)


def test_an_interval_is_no_narrower_than_students() -> None:
    measured = [pair(n, math.exp(0.1 * (n % 4)), 1.0) for n in range(8)]
    found = paired_speedup(measured)
    assert found.low is not None
    assert found.high is not None
    logs = np.array([0.1 * (n % 4) for n in range(8)])
    half = student_quantile(0.975, 7) * logs.std(ddof=1) / math.sqrt(8)
    assert math.log(found.high / found.low) >= 1.9 * half
