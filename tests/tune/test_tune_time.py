"""The part of ``tune``'s time budget that llama-server gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.measurer import Pair
from spectui.prompts import Prompt
from spectui.tune.served import Cost, cost_of, room_of, spread
from tests.support.search import items, result

COST = Cost(prompt_s=2.0, starts_s=10.0)


@given(
    left_s=st.floats(-10, 1e4),
    n_settings=st.integers(1, 2),
    n_prompts=st.integers(1, 50),
    prompt_s=st.floats(0.01, 50),
    starts_s=st.floats(0, 100),
)
def test_what_is_measured_fits_in_what_is_left(
    left_s: float, n_settings: int, n_prompts: int, prompt_s: float, starts_s: float
) -> None:
    cost = Cost(prompt_s=prompt_s, starts_s=starts_s)
    room = room_of(left_s, cost, n_settings=n_settings, n_prompts=n_prompts)
    assert room.n_settings * cost.seconds(room.n_prompts) <= max(left_s, 0) + 1e-6
    assert room.n_settings <= n_settings
    assert room.n_prompts <= n_prompts
    if room.n_settings:
        assert room.n_prompts >= min(6, n_prompts)
    is_all = (room.n_settings, room.n_prompts) == (n_settings, n_prompts)
    assert (room.reason is None) is is_all


@pytest.mark.parametrize(
    ("left_s", "n_settings", "n_prompts", "said"),
    [
        (None, 2, 24, None),
        (1000.0, 2, 24, None),
        (80.0, 2, 13, "llama-server was given 13 of 24 prompts"),
        (40.0, 1, 13, "llama-server was given 13 of 24 prompts"),
        (24.0, 0, 0, "of the time budget 24 s are left, and 6 prompts take about 25 s; give"),
        (-3.0, 0, 0, "of the time budget 0 s are left"),
    ],
)
def test_rather_one_setting_well_than_two_badly(
    left_s: float | None, n_settings: int, n_prompts: int, said: str | None
) -> None:
    room = room_of(left_s, COST, n_settings=2, n_prompts=24)
    assert (room.n_settings, room.n_prompts) == (n_settings, n_prompts)
    assert said is None if room.reason is None else said is not None and said in room.reason


def test_a_cost_is_that_of_the_race_and_of_the_starts() -> None:
    pairs = [Pair(item=one, baseline=result(10.0), speculative=result(20.0)) for one in items(3)]
    cost = cost_of(pairs, n_starts=2, model_bytes=3 * 10**9)
    assert (cost.prompt_s, cost.starts_s) == pytest.approx((3.2 + 1.6 + 0.2, 10.0))


def test_fewer_prompts_are_of_as_many_categories() -> None:
    prompts = [Prompt(id=f"{kind}{n}", category=kind, text="x") for kind in "abc" for n in range(3)]
    assert [one.id for one in spread(prompts, 5)] == ["a0", "b0", "c0", "a1", "b1"]
