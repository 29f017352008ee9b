"""ngram-cache against llama.cpp's rules."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from spectui.speculative.ngram_cache import (
    Followers,
    NgramCacheDrafter,
    NgramCacheState,
    NgramCounts,
)

Table = Mapping[tuple[int, ...], Mapping[int, int]]


def counts(table: Table) -> NgramCounts:
    found: NgramCounts = {}
    for ngram, followers in table.items():
        found[ngram] = Followers()
        for token, count in followers.items():
            found[ngram].add(token, count)
    return found


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
        ((0, 1, 5), {6: 2, 7: 1}, (6,)),
        ((3, 0, 1, 5), {6: 2}, (6,)),
        ((3, 0, 1, 5), {6: 2, 7: 1}, (6,)),
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
