"""Prices of rounds by kind, and what counts cost with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.events import RoundPrice, Segment
from spectui.measure.predicted import Prices


def a_round(n_drafted: int, seconds: float = 0.0, *, is_redone: bool = False) -> RoundPrice:
    return RoundPrice(
        n_drafted=n_drafted, n_steps=n_drafted, n_tokens=1, is_redone=is_redone, seconds=seconds
    )


def segments(prices: dict[int, float], token_s: float, n: int = 6) -> Segment:
    """``n`` rounds of each length of draft, of which each costs so many tokens."""
    rounds = [a_round(length, price * token_s) for length, price in prices.items()] * n
    return Segment(baseline_s=(token_s,) * 8, rounds=tuple(rounds))


@given(
    prices=st.dictionaries(st.integers(0, 16), st.floats(1.0, 4.0), min_size=1),
    token_s=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=4),
    counts=st.lists(st.integers(0, 9), min_size=17, max_size=17),
)
def test_rounds_of_known_kinds_cost_what_they_did(
    prices: dict[int, float], token_s: list[float], counts: list[int]
) -> None:
    """However fast the machine was at any time."""
    known = Prices([segments(prices, each) for each in token_s])
    rounds = [a_round(length) for length in prices for _ in range(counts[length])]
    expected = sum(prices[length] * counts[length] for length in prices)
    assert known.cost(rounds) == pytest.approx(expected)


def test_another_kind_costs_what_its_neighbours_tell_and_a_slow_round_is_no_price() -> None:
    slow = Segment(baseline_s=(0.1,), rounds=(a_round(4, 20.0),))
    known = Prices([segments({2: 1.2, 4: 1.4, 8: 1.8}, 0.1), slow])
    for n_drafted, price in ((4, 1.4), (6, 1.6), (12, 2.2)):
        assert known.cost([a_round(n_drafted)]) == pytest.approx(price)
    assert known.cost([]) == 0
    # A round costs a token at least.
    assert Prices([segments({8: 1.5, 16: 4.0}, 0.1)]).cost([a_round(0)]) == 1.0


def test_without_rounds_there_are_no_prices() -> None:
    with pytest.raises(ValueError, match="no round"):
        Prices([Segment(baseline_s=(0.1,), rounds=())])
