"""N-gram drafters against llama.cpp's rule, and in the loop."""

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spectui.speculative.drafters import Draft
from spectui.speculative.ngram import NgramSimpleDrafter

tokens = st.lists(st.integers(1, 3), max_size=40)


def by_the_rule(text: Sequence[int], last: int, size_n: int, size_m: int) -> list[int]:
    """Search for the n-gram step by step, as ``common_ngram_simple_draft`` in llama.cpp does."""
    if len(text) <= size_n + size_m + 1:
        return []
    pattern = [text[place] for place in range(len(text) - size_n + 1, len(text))] + [last]
    start = len(text) - size_n - 1
    while start > 0 and list(text[start : start + size_n]) != pattern:
        start -= 1
    if start == 0:
        return []
    n_copied = min(size_m, len(text) - (start + size_n))
    if n_copied < size_n:
        return []
    return [text[start + size_n + offset] for offset in range(n_copied)]


@settings(max_examples=150)
@given(
    prompt=tokens,
    turns=st.lists(
        st.tuples(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(0, 6)),
        max_size=12,
    ),
    size_n=st.integers(1, 5),
    size_m=st.integers(1, 9),
    n_max=st.integers(1, 10),
)
@example(prompt=[1] * 12, turns=[([1], 0), ([1, 1, 1], 2)], size_n=1, size_m=2, n_max=9)
@example(prompt=[2, 1, 2, 1, 2], turns=[([1, 2], 1), ([1], 0)], size_n=1, size_m=1, n_max=1)
def test_drafts_are_llama_cpps(
    prompt: list[int], turns: list[tuple[list[int], int]], size_n: int, size_m: int, n_max: int
) -> None:
    drafter = NgramSimpleDrafter(size_n, size_m)
    drafter.begin(prompt)
    text = list(prompt)
    for batch, n_accepted in turns:
        expected = by_the_rule(text, batch[0], size_n, size_m)[:n_max]
        assert drafter.draft(batch[0], n_max) == Draft(tokens=tuple(expected))
        drafter.verified(batch)
        drafter.accept(min(n_accepted, len(batch) - 1))
        text += batch[: 1 + n_accepted]
