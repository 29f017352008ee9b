"""Speedups and gains in figures that fit, whatever was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.format import duration_text, factor, gain_percent
from spectui.measure.statistics import Speedup
from spectui.measure.verdict import judge
from spectui.verify.comparison import gain_text, interval_text, verdict


def speedup(estimate: float, low: float | None, high: float | None) -> Speedup:
    return Speedup(estimate=estimate, low=low, high=high, n_pairs=6, n_prompts=6)


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (27.4, "+27 %"),
        (-3.0, "\N{MINUS SIGN}3 %"),
        (0.2, "0 %"),
        (999.4, "+999 %"),
        (999.6, "11.0×"),
        (44523.0, "446×"),
        (9_999_900.0, "1e+05×"),
    ],
)
def test_a_large_gain_is_told_as_a_speedup(gain: float, text: str) -> None:
    assert gain_percent(gain, 0) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.184, "1.18"), (9.99, "9.99"), (12.34, "12.3"), (446.23, "446")]
)
def test_a_speedup_has_the_digits_that_it_is_worth(value: float, text: str) -> None:
    assert factor(value) == text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_a_duration_has_its_two_units_that_matter(seconds: float, expected: str) -> None:
    assert duration_text(seconds) == expected


@given(gain=st.floats(-100, 1e12), decimals=st.integers(0, 3))
def test_no_gain_is_wider_than_a_column(gain: float, decimals: int) -> None:
    assert len(gain_percent(gain, decimals)) <= len("+999.999 %")


@given(value=st.floats(0, 1e12), decimals=st.integers(2, 3))
def test_no_speedup_is_wider_than_a_column(value: float, decimals: int) -> None:
    written = factor(value, decimals)
    assert len(written) <= len("10.000")
    assert float(written) == pytest.approx(value, rel=0.5, abs=0.01)


def test_an_interval_has_one_unit() -> None:
    wide = speedup(5.31, 1.2, 446.23)
    assert interval_text(wide) == "1.20× to 446×"
    assert gain_text(wide) == "5.31× (1.20× to 446×)"
    assert interval_text(speedup(1.3, 1.2, 1.4)) == "+20 to +40"
    assert verdict(None, wide) == "delivered: 5.31× (1.20× to 446×); nothing was promised"


def test_a_verdict_stays_readable() -> None:
    reason = judge(speedup(446.23, 440.0, 450.0), min_gain=0.02, what="it").reason
    assert reason == "Use it: it is worth 446× (95 % interval 440× to 450×, 6 prompts)."
    reason = judge(speedup(5.31, 1.2, 446.23), min_gain=0.02, what="it").reason
    assert reason == "Use it: it is worth +431 % (95 % interval +20 % to 446×, 6 prompts)."
