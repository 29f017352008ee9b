"""N-gram drafters against llama.cpp's rule, and in the loop."""

from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spectui.options.drafters import NgramSimple
from spectui.speculative.drafters import Draft
from spectui.speculative.ngram import NgramSimpleDrafter, ngram_drafter

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


TEXT = (9, 1, 2, 3, 4, 5, 6, 7, 8, 1)


def drafted(
    text: Sequence[int], last: int, *, size_n: int = 2, size_m: int = 4, n_max: int = 99
) -> tuple[int, ...]:
    drafter = ngram_drafter(NgramSimple(size_n=size_n, size_m=size_m))
    drafter.begin(text)
    return drafter.draft(last, n_max).tokens


def test_where_an_ngram_is_looked_for_and_what_is_copied() -> None:
    assert drafted(TEXT, 2) == (3, 4, 5, 6)
    assert drafted(TEXT, 3) == ()
    # The bound of a round shortens a draft and never drops it.
    assert drafted(TEXT, 2, n_max=1) == (3,)
    # The latest place counts, but never the first token of a text.
    assert drafted((0, 1, 2, 7, 7, 7, 0, 1, 2, 8, 8, 8, 1), 2) == (8, 8, 8, 1)
    assert drafted(TEXT[1:], 2, size_m=3) == ()
    # A text must be longer than both sizes.
    assert drafted(TEXT, 2, size_m=6) == (3, 4, 5, 6, 7, 8)
    assert drafted(TEXT, 2, size_m=7) == ()
    # The latest 1, 2 has one token after it, and a draft needs as many as the n-gram has.
    assert drafted((0, 1, 2, 5, 5, 5, 5, 1, 2, 1), 2) == ()
    assert drafted((0, 1, 2, 5, 5, 5, 5, 1, 2, 6, 1), 2) == (6, 1)
