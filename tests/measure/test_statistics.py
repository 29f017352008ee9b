import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from spectui.measure.speedup import PairedMeasurement
from spectui.measure.statistics import (
    FEWEST_CHANGED,
    MIN_PROMPTS,
    paired_speedup,
    rescaled,
    speedup_within,
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


def bounds(measurements: list[PairedMeasurement]) -> tuple[float, float, float]:
    result = paired_speedup(measurements, n_resamples=400)
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


def test_an_interval_takes_enough_prompts_or_has_a_reason() -> None:
    for n in (1, MIN_PROMPTS - 1, MIN_PROMPTS):
        result = paired_speedup([pair(i % n, 2.0, 1.0 + 0.1 * (i % n)) for i in range(9)])
        assert (result.interval is None) is (n < MIN_PROMPTS)
        assert (result.interval_reason or "").endswith(f"measured: {n}" if n < MIN_PROMPTS else "")


def test_what_has_no_throughput_or_no_level_is_an_error() -> None:
    with pytest.raises(ValueError, match="no pair"):
        paired_speedup([])
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match="level"):
            paired_speedup([pair(0, 1.0, 1.0)], level=level)
    for seconds_, tokens in ((0.0, 96), (-1.0, 96), (math.nan, 96), (math.inf, 96), (1.0, 0)):
        with pytest.raises(ValueError, match="prompt x"):
            pair("x", 1.0, seconds_, on_tokens=tokens)


@given(times=runs)
def test_the_order_of_the_prompts_changes_nothing(times: list[tuple[float, float]]) -> None:
    assert bounds(pairs(times)) == bounds(pairs(times)[::-1])


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


def bootstrap_t(measured: list[PairedMeasurement], level: float) -> tuple[float, float]:
    """The interval as its sources write it, with loops over resamples and prompts."""
    n = len(measured)
    rows = [
        (m.speculative_tokens, m.speculative_s, m.baseline_tokens, m.baseline_s) for m in measured
    ]

    def estimated(counts: Sequence[float]) -> tuple[float, float]:
        """Log of the speedup, and the delta method's variance of it."""
        sums = [sum(k * row[at] for k, row in zip(counts, rows, strict=True)) for at in range(4)]
        logs = [math.log(total) for total in sums]
        shares = [[value / total for value, total in zip(row, sums, strict=True)] for row in rows]
        off = [n * (one[0] - one[1] - one[2] + one[3]) for one in shares]
        spread = sum(k * one * one for k, one in zip(counts, off, strict=True))
        return logs[0] - logs[1] - logs[2] + logs[3], spread / (n * (n - 1))

    estimate, variance = estimated([1] * n)
    ts = []
    for counts in np.random.default_rng(0).multinomial(n, [1 / n] * n, size=100).tolist():
        drawn, own = estimated(counts)
        ts.append((drawn - estimate) / math.sqrt(max(own, variance / (2 * n))))
    student = student_quantile((1 + level) / 2, n - 1)
    low, high = np.quantile(ts, [(1 - level) / 2, (1 + level) / 2]).tolist()
    error = math.sqrt(variance)
    ends = (estimate - max(high, student) * error, estimate - min(low, -student) * error)
    return math.exp(ends[0]), math.exp(ends[1])


@settings(max_examples=10)
@given(times=runs, level=st.sampled_from([0.8, 0.95, 0.99]))
@example(times=[(1.0, 0.8)] * 7 + [(1.0, 1.6)], level=0.95)
@example(times=[(1.0, 0.8)] * 7 + [(1.0, 0.5)], level=0.8)
@example(times=[(1.0, math.exp(-0.1 * (n % 4))) for n in range(8)], level=0.95)
def test_the_interval_is_a_bootstrap_t_with_a_floor_and_no_narrower_than_students(
    times: list[tuple[float, float]], level: float
) -> None:
    measured = pairs(times[:10])
    assume(len({off / on for off, on in times[:10]}) > 1)
    found = paired_speedup(measured, level=level, n_resamples=100)
    assert found.interval == pytest.approx(bootstrap_t(measured, level), rel=1e-6)


def test_eight_prompts_cover_the_truth_about_as_often_as_promised() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        off = np.exp(rng.normal(0, 0.05, 8))
        on = off * np.exp(rng.normal(-0.2, 0.15, 8) + rng.normal(0, 0.03, 8))
        low, _, high = bounds(pairs(list(zip(off.tolist(), on.tolist(), strict=True))))
        hits += low <= math.exp(0.2 - (0.15**2 + 0.03**2) / 2) <= high
    assert hits / 400 >= 0.92


def test_quantiles_of_students_t() -> None:
    for freedom, quantile in (
        *((1, 12.7062), (2, 4.3027), (3, 3.1824)),
        *((4, 2.7764), (7, 2.3646), (23, 2.0687)),
    ):
        assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=1e-4)


def test_prompts_that_differ_do_not_widen_an_interval_for_just_these() -> None:
    """Two answers of four parts: Cochran's variance of a stratified sample."""
    parts = [pair(name, 1.0, on) for name in "ab" for on in (0.4, 0.5, 0.5, 0.6)]
    alike = speedup_within(parts)
    assert alike.estimate == pytest.approx(2.0)
    # Each influence is 1 - on / 0.5; their variance in each answer is 0.08 / 3.
    reach = student_quantile(0.975, 6) * math.sqrt(0.08 / 3 / 8)
    assert alike.interval == pytest.approx((2 * math.exp(-reach), 2 * math.exp(reach)))
    assert (alike.n_prompts, alike.n_pairs) == (2, 8)
    apart = speedup_within(
        [pair(o.prompt_id, 1.0, o.speculative_s * (1 + (o.prompt_id == "b"))) for o in parts]
    )
    assert apart.high is not None
    assert apart.high / apart.estimate < 1.5


def test_an_interval_for_just_these_takes_answers_of_several_parts() -> None:
    with pytest.raises(ValueError, match="no answer"):
        speedup_within([])
    assert (
        speedup_within([pair("a", 2.0, 1.0), pair("b", 2.0, 1.5)]).interval_reason
        == "the answers are too short"
    )
    # An answer of one part says nothing of its own spread: all that it differs by counts.
    known_ = [pair("a", 1.0, on) for on in (0.5, 0.5, 0.5)]
    low, high = speedup_within([*known_, pair("b", 1.0, 1.0)]).interval or (0, 0)
    assert low < 1.6 < high


@given(st.lists(seconds, min_size=FEWEST_CHANGED, max_size=8), st.floats(0.5, 2.0))
def test_an_error_common_to_all_is_taken_off_and_the_interval_reaches_to_what_was_forecast(
    on_s: list[float], factor: float
) -> None:
    whole = paired_speedup([pair(i, 2.0, 1.0 + 0.1 * i) for i in range(12)], n_resamples=400)
    theirs = [pair(i, 2.0, one) for i, one in enumerate(on_s)]
    ours = [pair(i, 2.0, one * factor) for i, one in enumerate(on_s)]
    found = rescaled(whole, ours, theirs)
    assert found.estimate == pytest.approx(whole.estimate / factor)
    low, high = (end / factor for end in whole.interval or ())
    reaches = min(low, whole.estimate), max(high, whole.estimate)
    assert found.interval == pytest.approx(reaches)
    assert (found.n_prompts, found.n_timed) == (12, len(on_s))


def test_runs_that_scatter_widen_the_interval_as_their_number_allows() -> None:
    whole = paired_speedup([pair(i, 2.0, 1.0) for i in range(12)])
    theirs = [pair(i, 2.0, 1.0) for i in range(4)]
    ours = [pair(i, 2.0, on) for i, on in enumerate((0.9, 1.0, 1.0, 1.1))]
    low, high = rescaled(whole, ours, theirs).interval or (0, 0)
    # Of equal weights the jackknife has the standard error of the mean.
    reach = student_quantile(0.975, 3) * math.sqrt(0.02 / 3 / 4)
    assert (math.log(low / 2), math.log(high / 2)) == pytest.approx((-reach, reach), rel=0.05)
    few = rescaled(whole, ours[:2], theirs)
    assert (few.interval, few.interval_reason) == (
        None,
        "an interval needs at least 3 timed prompts, measured: 2",
    )
    with pytest.raises(ValueError, match="both sides"):
        rescaled(whole, [pair("other", 1.0, 1.0)], theirs)


def of_category(one: PairedMeasurement, category: str) -> PairedMeasurement:
    return replace(one, category=category)


@given(runs, st.integers(0, 3))
def test_categories_change_the_width_and_not_the_estimate(
    times: list[tuple[float, float]], n_categories: int
) -> None:
    one = pairs(times)
    split = [of_category(pair, f"c{i % max(n_categories, 1)}") for i, pair in enumerate(one)]
    low, estimate, high = bounds(split)
    assert estimate == bounds(one)[1]
    assert low <= estimate <= high
    if n_categories <= 1:
        assert (low, high) == bounds(one)[::2]


def test_what_categories_differ_by_does_not_widen_the_interval() -> None:
    rng = np.random.default_rng(5)
    gains = np.where(np.arange(24) % 2, 1.5, 1.0) * np.exp(rng.normal(0, 0.02, 24))
    one = [pair(i, 1.0, 1.0 / gain) for i, gain in enumerate(gains.tolist())]
    kinds = [of_category(pair, "code" if i % 2 else "prose") for i, pair in enumerate(one)]
    wide, narrow = (bounds(each) for each in (one, kinds))
    assert narrow[2] - narrow[0] < (wide[2] - wide[0]) / 5
    # Of two prompts of a category nothing is known: such categories are one together.
    pairwise = [of_category(pair, f"c{i // 2}") for i, pair in enumerate(one)]
    assert bounds(pairwise) == wide


def test_a_machine_that_changes_meanwhile_widens_the_interval() -> None:
    names = [f"p{i:02}" for i in range(16)]
    theirs = [pair(name, 1.0, 0.8) for name in names]
    whole = paired_speedup([pair(i, 1.0, 0.8 + i / 500) for i in range(16)])
    late = [pair(name, 1.0, 0.8 if i < 8 else 0.9) for i, name in enumerate(names)]
    mixed = [pair(name, 1.0, 0.9 if i % 2 else 0.8) for i, name in enumerate(names)]
    steps, noise = (rescaled(whole, ours, theirs) for ours in (late, mixed))
    assert steps.estimate == pytest.approx(noise.estimate)
    assert steps.low is not None
    assert noise.low is not None
    assert steps.estimate - steps.low > 1.5 * (noise.estimate - noise.low)
