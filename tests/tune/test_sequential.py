"""Levels of intervals that are looked at more than once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.tune.race import ERROR, Looks, spent

fractions = st.lists(
    st.floats(min_value=0.05, max_value=1.0), min_size=1, max_size=6, unique=True
).map(sorted)


def test_all_of_the_error_is_spent_at_the_end() -> None:
    assert spent(1.0) == pytest.approx(ERROR)
    assert spent(1.7) == pytest.approx(ERROR)


def test_an_early_look_spends_little() -> None:
    assert spent(1 / 3) == pytest.approx(ERROR / 9)
    assert spent(2 / 3) == pytest.approx(ERROR * 4 / 9)


def test_one_look_at_the_end_is_the_plain_interval() -> None:
    assert Looks().level(1.0) == pytest.approx(1 - ERROR)


@given(fractions)
def test_all_looks_together_spend_no_more_than_the_error(points: list[float]) -> None:
    looks = Looks()
    found = [looks.level(point) for point in points]
    assert sum(1 - level for level in found) <= ERROR + 1e-9
    assert looks.n == len(points)


def test_a_look_at_the_same_data_sees_the_same_and_one_at_less_is_refused() -> None:
    looks = Looks()
    first = looks.level(0.5)
    assert looks.level(0.5) == first
    assert looks.n == 1
    with pytest.raises(ValueError, match="too late"):
        looks.level(0.4)


def test_a_look_at_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to look at"):
        Looks().level(0.0)
