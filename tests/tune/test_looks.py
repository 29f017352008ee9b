"""Levels of intervals that are looked at more than once."""

from itertools import accumulate, pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.tune.looks import ERROR, Looks, spent

NORMAL = NormalDist()
n_data = st.lists(st.integers(min_value=1, max_value=12), min_size=1, max_size=8).map(
    lambda steps: list(accumulate(steps))
)
"""Data that are in at each look."""


def levels(points: list[int], error: float = ERROR) -> list[float]:
    looks = Looks(error)
    return [looks.level(n, n / points[-1]) for n in points]


def test_all_of_the_error_is_spent_at_the_end() -> None:
    assert spent(1.0) == pytest.approx(ERROR)
    assert spent(1.7) == pytest.approx(ERROR)


def test_each_prompt_spends_as_much() -> None:
    assert spent(1 / 3) == pytest.approx(ERROR / 3)
    assert spent(2 / 3) == pytest.approx(ERROR * 2 / 3)


def test_one_look_at_the_end_is_the_plain_interval() -> None:
    assert Looks().level(8, 1.0) == pytest.approx(1 - ERROR)


@pytest.mark.parametrize(("n_looks", "bound"), [(2, 2.178), (3, 2.289), (5, 2.413)])
def test_equal_boundaries_are_those_of_the_literature(n_looks: int, bound: float) -> None:
    """Pocock 1977, "Group Sequential Methods in the Design and Analysis of Clinical Trials"."""
    points = range(10, 10 * n_looks + 1, 10)
    errors = [2 * (1 - NORMAL.cdf(bound))]
    data = np.random.default_rng(0).normal(size=(400_000, n_looks)).cumsum(axis=1)
    for n in range(2, n_looks):
        is_outside = (abs(data[:, :n]) > bound * np.arange(1, n + 1) ** 0.5).any(axis=1)
        errors.append(float(is_outside.mean()))
    looks = Looks(0.05)
    for n, error in zip(points, (*errors, 0.05), strict=True):
        assert quantile(looks.level(n, error / 0.05)) == pytest.approx(bound, abs=0.025)


def quantile(level: float) -> float:
    return NORMAL.inv_cdf((1 + level) / 2)


@pytest.mark.ci
@settings(max_examples=15)
@given(n_data)
def test_a_level_is_between_that_of_all_errors_together_and_that_of_its_own(
    points: list[int],
) -> None:
    shares = [0.0, *(spent(n / points[-1]) for n in points)]
    for level, (before, after) in zip(levels(points), pairwise(shares), strict=True):
        assert 1 - after - 1e-6 <= level <= 1 - (after - before) + 1e-3 * (after - before) + 1e-9


@pytest.mark.parametrize("points", [[8, 16, 24], [5, 10, 15, 20, 25, 30, 35, 40], [3, 20, 22]])
def test_sums_leave_their_boundaries_as_often_as_the_error_says(points: list[int]) -> None:
    n = 200_000
    bounds = [quantile(level) for level in levels(points)]
    data = np.random.default_rng(0).normal(size=(n, points[-1])).astype(np.float32)
    sums = data.cumsum(axis=1)[:, [one - 1 for one in points]]
    is_outside = (abs(sums) > np.array(bounds) * np.sqrt(points)).any(axis=1)
    # Few leave both the upper and the lower ones.
    assert is_outside.mean() == pytest.approx(ERROR, abs=4 * (ERROR / n) ** 0.5)


def test_a_look_at_the_same_data_sees_the_same_and_one_at_less_is_refused() -> None:
    looks = Looks()
    first = looks.level(8, 0.5)
    assert looks.level(8, 0.5) == first
    assert looks.n == 1
    with pytest.raises(ValueError, match="too late"):
        looks.level(8, 0.4)
    with pytest.raises(ValueError, match="too late"):
        looks.level(7, 0.6)


def test_a_look_that_turns_out_to_be_the_last_spends_the_rest() -> None:
    looks, alone = Looks(), Looks()
    looks.level(8, 0.4)
    looks.level(16, 0.8)
    alone.level(8, 0.4)
    assert looks.level(16, 1.0) == pytest.approx(alone.level(16, 1.0))
    assert looks.n == 2


def test_a_look_at_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to look at"):
        Looks().level(8, 0.0)
