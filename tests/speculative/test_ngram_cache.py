"""ngram-cache against llama.cpp's rules."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.speculative.ngram_cache import (
    Followers,
    NgramCacheDrafter,
    NgramCacheState,
    NgramCounts,
    walked,
)
from tests.support.ngram_reference import (
    CacheReference,
    Counts,
    Turn,
    UnorderedMap,
    assert_equal_drafts,
    long_chat,
    turns,
)

Table = Mapping[tuple[int, ...], Mapping[int, int]]


def counts(table: Table) -> NgramCounts:
    found: NgramCounts = {}
    for ngram, followers in table.items():
        found[ngram] = Followers()
        for token, count in followers.items():
            found[ngram].add(token, count)
    return found


def reference_counts(table: Table) -> Counts:
    found: Counts = {}
    for ngram, followers in table.items():
        found[ngram] = UnorderedMap()
        for token, count in followers.items():
            found[ngram].add(token, count)
    return found


# 1, 14 and 27 share a bucket until a map has more than 13 elements.
VOCABULARY = (1, 2, 14, 27, 3)
followers = st.lists(
    st.tuples(st.sampled_from(VOCABULARY), st.integers(1, 6)),
    min_size=1,
    max_size=5,
    unique_by=lambda pair: pair[0],
).map(dict)


def tables(
    min_size: int, max_size: int
) -> st.SearchStrategy[dict[tuple[int, ...], dict[int, int]]]:
    ngram = st.lists(st.sampled_from(VOCABULARY), min_size=min_size, max_size=max_size).map(tuple)
    return st.dictionaries(ngram, followers, max_size=25)


@settings(max_examples=100, deadline=None)
@given(
    chat=st.sampled_from((VOCABULARY[:2], VOCABULARY[:3], VOCABULARY)).flatmap(turns),
    dynamic=st.just({}) | tables(1, 4),
    static=st.just({}) | tables(2, 2),
)
def test_drafts_are_llama_cpps(chat: list[Turn], dynamic: Table, static: Table) -> None:
    state = NgramCacheState(dynamic=counts(dynamic), static=counts(static))
    assert_equal_drafts(
        lambda: NgramCacheDrafter(state=state),
        CacheReference(dynamic=reference_counts(dynamic), static=reference_counts(static)),
        chat,
    )


@pytest.mark.parametrize("with_static", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_long_texts(seed: int, *, with_static: bool) -> None:
    vocabulary = range(40)
    pairs = [(one, other) for one in vocabulary for other in vocabulary if (one * other) % 3]
    static: Table = {
        pair: {(pair[0] + step) % 40: 1 + step % 3 for step in range(1, 20)}
        for pair in (pairs if with_static else [])
    }
    state = NgramCacheState(static=counts(static))
    n_drafted = assert_equal_drafts(
        lambda: NgramCacheDrafter(state=state),
        CacheReference(dynamic={}, static=reference_counts(static)),
        long_chat(seed, vocabulary),
    )
    assert n_drafted > 0


@given(tokens=st.lists(st.integers(0, 200) | st.integers(0, 2**18), unique=True, max_size=200))
def test_a_map_is_walked_as_libstdcxx_walks_it(tokens: list[int]) -> None:
    reference = UnorderedMap()
    for token in tokens:
        reference.add(token, 1)
    assert walked(tokens) == reference.walk()


NOTHING: Table = MappingProxyType({})


def begun(
    text: Sequence[int],
    *,
    context: Table = NOTHING,
    dynamic: Table = NOTHING,
    static: Table = NOTHING,
) -> NgramCacheDrafter:
    state = NgramCacheState(context=counts(context), dynamic=counts(dynamic), static=counts(static))
    drafter = NgramCacheDrafter(state=state)
    drafter.begin(text)
    return drafter


CERTAIN: dict[str, list[tuple[tuple[int, ...], dict[int, int], tuple[int, ...]]]] = {
    "context": [
        ((5,), {6: 1}, ()),
        ((5,), {6: 2}, (6,)),
        ((5,), {6: 2, 7: 1}, (6,)),
        ((5,), {6: 3, 7: 2}, ()),
        ((1, 5), {6: 1}, ()),
        ((1, 5), {6: 2}, (6,)),
        ((1, 5), {6: 2, 7: 2}, (7,)),
        ((1, 5), {7: 2, 6: 2}, (6,)),
        ((1, 5), {6: 2, 7: 2, 8: 1}, ()),
        ((0, 1, 5), {6: 1}, (6,)),
        ((0, 1, 5), {6: 1, 7: 1}, (7,)),
        ((0, 1, 5), {6: 1, 7: 1, 8: 1}, ()),
        ((3, 0, 1, 5), {6: 1}, (6,)),
    ],
    "dynamic": [
        ((5,), {6: 3}, ()),
        ((5,), {6: 4}, (6,)),
        ((5,), {6: 3, 7: 1}, (6,)),
        ((5,), {6: 5, 7: 2}, ()),
        ((1, 5), {6: 2}, ()),
        ((1, 5), {6: 3}, (6,)),
        ((1, 5), {6: 2, 7: 1}, (6,)),
        ((1, 5), {6: 3, 7: 2}, ()),
        ((0, 1, 5), {6: 1}, ()),
        ((0, 1, 5), {6: 2}, (6,)),
        ((3, 0, 1, 5), {6: 2, 7: 2}, ()),
    ],
    "static": [
        ((1, 5), {6: 1}, ()),
        ((1, 5), {6: 2}, (6,)),
        ((1, 5), {6: 1, 7: 1}, (7,)),
        ((1, 5), {6: 2, 7: 3, 8: 1}, (7,)),
        ((1, 5), {6: 2, 7: 3, 8: 2}, ()),
    ],
}


@pytest.mark.parametrize("table", CERTAIN)
def test_how_certain_the_text_earlier_runs_and_a_corpus_must_be(table: str) -> None:
    for ngram, followers, drafted in CERTAIN[table]:
        drafter = begun((3, 0, 1), **{table: {ngram: followers}})
        assert drafter.draft(5, 9).tokens == drafted, (ngram, followers)
