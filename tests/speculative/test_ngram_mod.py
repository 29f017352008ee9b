"""ngram-mod against llama.cpp's rules."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.speculative.drafters import Draft
from spectui.speculative.ngram_mod import N_ENTRIES, NgramModDrafter, NgramModState
from tests.support.ngram_reference import (
    ModReference,
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
    n_match=st.sampled_from((1, 2, 3, 4, 7, 40)),
    n_max=st.integers(0, 9),
    n_min=st.sampled_from((0, 0, 1, 3, 12)),
    n_entries=st.sampled_from((8, 32, 128, N_ENTRIES)),
)
def test_drafts_are_llama_cpps(
    chat: list[Turn], n_match: int, n_max: int, n_min: int, n_entries: int
) -> None:
    state = NgramModState(n_entries=n_entries)
    assert_equal_drafts(
        lambda: NgramModDrafter(n_match, n_max, n_min=n_min, state=state),
        ModReference(n_match, n_max, n_min=n_min, n_entries=n_entries),
        chat,
    )


@pytest.mark.parametrize("n_entries", [64, 512, N_ENTRIES])
@pytest.mark.parametrize("seed", range(2))
def test_long_texts(seed: int, n_entries: int) -> None:
    # Tokens that differ by the size of the table share its entries.
    vocabulary = [*range(12), *range(N_ENTRIES, N_ENTRIES + 4)]
    state = NgramModState(n_entries=n_entries)
    n_drafted = assert_equal_drafts(
        lambda: NgramModDrafter(3, 12, n_min=2, state=state),
        ModReference(3, 12, n_min=2, n_entries=n_entries),
        long_chat(seed, vocabulary),
    )
    assert n_drafted > 0


def begun(
    text: Sequence[int],
    *,
    n: int = 2,
    n_max: int = 4,
    n_min: int = 0,
    state: NgramModState | None = None,
) -> NgramModDrafter:
    drafter = NgramModDrafter(n, n_max, n_min=n_min, state=state)
    drafter.begin(text)
    return drafter


LONGER = (1, 2, 3, 4, 5, 6, 1)


ALL = (3, 4, 5, 6)


@pytest.mark.parametrize(
    ("accepted", "drafted"),
    [
        ([0] * 4, ALL),
        ([0] * 5, ()),
        ([0] * 6, ()),
        # A quarter is enough.
        ([0, 0, 0, 0, 1], ALL),
        ([0, 0, 1, 0, 0, 0, 0], ALL),
        ([0, 0, 1, 0, 0, 0, 0, 0], ()),
    ],
)
def test_the_fifth_bad_draft_in_a_row_empties_the_table(
    accepted: list[int], drafted: tuple[int, ...]
) -> None:
    drafter = begun(LONGER)
    for n_accepted in accepted:
        play(drafter, 2, n_accepted)
        say(drafter, 1)
    assert drafter.draft(2, 9).tokens == drafted


def test_slots_share_a_table_and_not_their_bad_drafts() -> None:
    one = NgramModState()
    other = NgramModState(entries=one.entries, n_low=4)
    drafter = begun(LONGER, state=one)
    neighbour = begun((8, 8, 1), state=other)
    assert play(neighbour, 2, 0) == ALL
    # That was the neighbour's fifth.
    assert drafter.draft(2, 9) == Draft()
    assert (one.n_low, other.n_low) == (0, 0)
