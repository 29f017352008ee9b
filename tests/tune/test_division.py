"""Which prompts choose and which judge."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem, Workload
from spectui.options.setup import SamplingConfig
from spectui.tune.setup import JUDGES, Division, divide

N_PREDICT = 33


def prompts(n: int, n_categories: int = 4) -> tuple[WorkItem, ...]:
    return tuple(
        WorkItem(id=f"p{i}", category=f"c{i % n_categories}", tokens=(1, 2, i)) for i in range(n)
    )


def division(items: tuple[WorkItem, ...]) -> Division:
    return divide(Workload(items=items, n_predict=N_PREDICT, sampling=SamplingConfig(temp=0.0)))


@given(n=st.integers(1, 60), n_categories=st.integers(1, 9))
def test_no_prompt_does_both_and_none_is_lost(n: int, n_categories: int) -> None:
    items = prompts(n, n_categories)
    found = division(items)
    assert sorted((*found.trial_items, *found.unseen), key=items.index) == list(items)
    assert 1 <= len(found.trial_items) <= 8
    assert found == division(items)
    if n >= 12:
        assert len(found.unseen) >= JUDGES
        assert found.basis is Basis.UNSEEN
        assert found.judges == found.unseen


@pytest.mark.parametrize(
    ("n", "choosing"),
    [(1, 1), (2, 1), (6, 3), (7, 1), (11, 5), (12, 4), (14, 6), (16, 8), (24, 8), (100, 8)],
)
def test_the_race_is_given_what_it_needs(n: int, choosing: int) -> None:
    assert len(division(prompts(n)).trial_items) == choosing


def test_categories_have_their_share_and_take_turns() -> None:
    found = division(prompts(24, 8))
    assert Counter(item.category for item in found.trial_items) == {f"c{i}": 1 for i in range(8)}
    assert len({item.category for item in found.unseen[:8]}) == 8


@pytest.mark.parametrize(("n", "expected"), [(6, Basis.SAME), (7, Basis.UNSEEN)])
def test_few_prompts_may_be_too_few_to_judge(n: int, expected: Basis) -> None:
    assert division(prompts(n)).basis is expected
