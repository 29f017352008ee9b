"""Prompts of a chosen length."""

from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.workload import WorkItem, Workload, with_length
from spectui.options.setup import SamplingConfig

texts = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(texts=st.lists(texts, min_size=1, max_size=4), n_tokens=st.integers(1, 60))
def test_prompts_get_the_length_and_keep_their_ends(texts: list[list[int]], n_tokens: int) -> None:
    items = tuple(
        WorkItem(id=str(index), category="c", tokens=tuple(text))
        for index, text in enumerate(texts)
    )
    workload = Workload(items=items, n_predict=4, sampling=SamplingConfig(temp=0.0))
    for before, after in zip(items, with_length(workload, n_tokens).items, strict=True):
        assert (after.id, after.category) == (before.id, before.category)
        assert len(after.tokens) == n_tokens
        assert after.tokens[0] == before.tokens[0]
        n_own = min(len(before.tokens), n_tokens) - 1
        assert after.tokens[n_tokens - n_own :] == before.tokens[len(before.tokens) - n_own :]


def test_the_others_stand_before_a_prompt() -> None:
    items = (
        WorkItem(id="one", category="c", tokens=(1, 11, 12)),
        WorkItem(id="two", category="c", tokens=(2, 21, 22)),
    )
    workload = Workload(items=items, n_predict=4, sampling=SamplingConfig(temp=0.0))
    one, two = with_length(workload, 7).items
    assert one.tokens == (1, 22, 2, 21, 22, 11, 12)
    assert two.tokens == (2, 12, 1, 11, 12, 21, 22)
