"""ngram-map-k and ngram-map-k4v against llama.cpp's rules."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.speculative.ngram_map import N_SLOTS, NgramMapDrafter, NgramMapState
from tests.support.ngram_reference import (
    MapReference,
    Turn,
    assert_equal_drafts,
    long_chat,
    play,
    say,
    turns,
)


@settings(max_examples=100, deadline=None)
@given(
    chat=st.sampled_from(((1, 2), (1, 2, 3), (1, 2, 3, 4, 5))).flatmap(turns),
    size_n=st.integers(1, 4),
    size_m=st.integers(1, 6),
    with_values=st.booleans(),
    min_hits=st.integers(1, 3),
    n_slots=st.sampled_from((1, 2, 8, 64, 1024)),
)
def test_drafts_are_llama_cpps(
    *, chat: list[Turn], size_n: int, size_m: int, with_values: bool, min_hits: int, n_slots: int
) -> None:
    state = NgramMapState(n_slots=n_slots)
    assert_equal_drafts(
        lambda: NgramMapDrafter(
            size_n, size_m, with_values=with_values, min_hits=min_hits, state=state
        ),
        MapReference(size_n, size_m, with_values=with_values, min_hits=min_hits, n_slots=n_slots),
        chat,
    )


@pytest.mark.parametrize("with_values", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_long_texts_with_the_real_table(seed: int, *, with_values: bool) -> None:
    # Tokens that differ by the size of the table share its slots.
    vocabulary = [*range(12), *range(N_SLOTS, N_SLOTS + 4)]
    state = NgramMapState()
    n_drafted = assert_equal_drafts(
        lambda: NgramMapDrafter(2, 5, with_values=with_values, state=state),
        MapReference(2, 5, with_values=with_values, min_hits=1, n_slots=N_SLOTS),
        long_chat(seed, vocabulary),
    )
    assert n_drafted > 0


def begun(
    text: Sequence[int], *, n: int = 2, m: int = 2, state: NgramMapState | None = None
) -> NgramMapDrafter:
    drafter = NgramMapDrafter(n, m, with_values=False, state=state)
    drafter.begin(text)
    return drafter


def with_values(text: Sequence[int], *, min_hits: int = 1) -> NgramMapDrafter:
    drafter = NgramMapDrafter(2, 2, with_values=True, min_hits=min_hits)
    drafter.begin(text)
    return drafter


FOUR = (9, 1, 2, 3, 4, 5, 6, 0, 0, 1)
"""For drafts of four tokens."""


def test_a_draft_is_as_long_as_the_last_one_was_accepted() -> None:
    drafter = begun(FOUR, m=4)
    assert play(drafter, 2, 1) == (3, 4, 5, 6)
    say(drafter, 1)
    assert play(drafter, 2, 1) == (3,)
    say(drafter, 1)
    assert play(drafter, 2, 0) == (3,)
    for _attempt in range(3):
        # What was wholly rejected is not drafted again.
        say(drafter, 1)
        assert play(drafter, 2, 0) == ()


@pytest.mark.parametrize(("n_values", "drafted"), [(4, (13, 23)), (5, ())])
def test_a_fifth_value_is_not_counted(n_values: int, drafted: tuple[int, ...]) -> None:
    values = [token for value in range(n_values) for token in (1, 2, 10 + value, 20 + value)]
    drafter = with_values((0, *values, 0, 0, 0, 1))
    for _lookup in range(5):
        assert play(drafter, 2, 0) == ()
        say(drafter, 0, 1)
    assert drafter.draft(2, 9).tokens == drafted
