"""Which prompts choose and which judge."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.events import GenerationResult
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem, Workload
from spectui.options.setup import SamplingConfig
from spectui.speculative.decoder import Stop
from spectui.tune.division import JUDGES, Division, divide
from tests.support.search import result

N_PREDICT = 33


def prompts(n: int, n_categories: int = 4) -> tuple[WorkItem, ...]:
    return tuple(
        WorkItem(id=f"p{i}", category=f"c{i % n_categories}", tokens=(1, 2, i)) for i in range(n)
    )


def division(items: tuple[WorkItem, ...], tried: tuple[str, ...] = ()) -> Division:
    return divide(
        Workload(items=items, n_predict=N_PREDICT, sampling=SamplingConfig(temp=0.0)), 8, tried
    )


def written(*items: WorkItem, stop: Stop = Stop.LENGTH) -> dict[str, GenerationResult]:
    return {item.id: replace(result(10.0), stop=stop) for item in items}


@given(n=st.integers(1, 60), n_categories=st.integers(1, 9))
def test_no_prompt_does_both_and_none_is_lost(n: int, n_categories: int) -> None:
    items = prompts(n, n_categories)
    found = division(items)
    assert sorted((*found.trial_items, *found.unseen), key=items.index) == list(items)
    assert 1 <= len(found.trial_items) <= 8
    assert found == division(items)
    if n >= 12:
        assert len(found.unseen) >= JUDGES
        items, basis = found.judged({}, n_predict=N_PREDICT, n_ctx=4096)
        assert basis is Basis.UNSEEN
        assert items == found.planned == found.unseen


@pytest.mark.parametrize(
    ("n", "choosing"),
    [(1, 1), (2, 1), (6, 3), (11, 5), (12, 4), (14, 6), (16, 8), (24, 8), (100, 8)],
)
def test_the_race_is_given_what_it_needs(n: int, choosing: int) -> None:
    assert len(division(prompts(n)).trial_items) == choosing


def test_categories_have_their_share_and_take_turns() -> None:
    found = division(prompts(24, 8))
    assert Counter(item.category for item in found.trial_items) == {f"c{i}": 1 for i in range(8)}
    assert len({item.category for item in found.unseen[:8]}) == 8


def test_what_an_older_study_tried_chooses() -> None:
    items = prompts(24)
    tried = tuple(item.id for item in items[:8])
    found = division(items, tried)
    assert {item.id for item in found.trial_items} == set(tried)
    assert len(found.unseen) == 16
    few = division(items[:10], tried)
    items, basis = few.judged(written(*few.trial_items), n_predict=N_PREDICT, n_ctx=4096)
    assert basis is Basis.LATER
    assert items[:2] == few.unseen
    assert len({item.id for item in items}) == 10


def test_a_study_that_goes_on_is_divided_as_before() -> None:
    items = prompts(20)
    before = division(items)
    assert division(items, tuple(item.id for item in before.trial_items)) == before


def test_later_text_follows_what_the_target_wrote() -> None:
    found = division(prompts(8))
    items, basis = found.judged(written(*found.trial_items), n_predict=N_PREDICT, n_ctx=4096)
    assert basis is Basis.LATER
    assert items[:4] == found.unseen
    for item, before in zip(items[4:], found.trial_items, strict=True):
        tokens, n_prefix = (*before.tokens, *range(33)), len(before.tokens)
        assert item == replace(before, tokens=tokens, n_prefix=n_prefix)


def test_unseen_prompts_may_do_alone_where_the_others_have_ended() -> None:
    found = division(prompts(11))
    ended = written(*found.trial_items, stop=Stop.END_OF_GENERATION)
    items, basis = found.judged(ended, n_predict=N_PREDICT, n_ctx=4096)
    assert (items, basis) == (found.unseen, Basis.UNSEEN)


@pytest.mark.parametrize(("n_ended", "expected"), [(2, Basis.LATER), (3, Basis.SAME)])
def test_an_answer_that_ended_has_no_later_text(n_ended: int, expected: Basis) -> None:
    found = division(prompts(8))
    ended = written(*found.trial_items[:n_ended], stop=Stop.END_OF_GENERATION)
    answers = {**ended, **written(*found.trial_items[n_ended:])}
    items, basis = found.judged(answers, n_predict=N_PREDICT, n_ctx=4096)
    assert basis is expected
    assert len(items) == (6 if basis is Basis.LATER else 8)


@pytest.mark.parametrize(("n_ctx", "expected"), [(70, Basis.LATER), (69, Basis.SAME)])
def test_later_text_fits_in_the_context(n_ctx: int, expected: Basis) -> None:
    found = division(prompts(8))
    _items, basis = found.judged(written(*found.trial_items), n_predict=N_PREDICT, n_ctx=n_ctx)
    assert basis is expected
