"""ngram-mod against llama.cpp's rules."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.speculative.drafters import Draft
from spectui.speculative.ngram_hash import RollingHash
from spectui.speculative.ngram_mod import N_ENTRIES, NgramModDrafter, NgramModState
from tests.support.ngram_reference import (
    ModReference,
    Turn,
    assert_equal_drafts,
    long_chat,
    play,
    say,
    slot_64,
    turns,
)

FACTOR = 6364136223846793005


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


@given(
    text=st.lists(st.integers(0, 2**31 - 1), max_size=40),
    n_match=st.integers(1, 24),
    last=st.integers(0, 2**31 - 1),
)
def test_a_rolling_hash_is_the_64_bit_one(text: list[int], n_match: int, last: int) -> None:
    found = RollingHash(n_match, FACTOR, N_ENTRIES)
    found.grow(text)
    ngrams = [text[start : start + n_match] for start in range(len(text) - n_match + 1)]
    assert found.slots == [slot_64(ngram, N_ENTRIES) for ngram in ngrams]
    if ngrams:
        assert found.ending(text, last) == slot_64([*ngrams[-1][1:], last], N_ENTRIES)


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


TEXT = (1, 2, 3, 4, 5, 1)
LONGER = (1, 2, 3, 4, 5, 6, 1)


def test_the_table_is_followed_from_token_to_token() -> None:
    assert begun(TEXT).draft(2, 9) == Draft(tokens=(3, 4, 5, 1))
    assert begun(TEXT, n_max=3).draft(2, 9) == Draft(tokens=(3, 4, 5))
    assert begun(TEXT).draft(2, 2) == Draft(tokens=(3, 4))
    assert begun(TEXT).draft(3, 9) == Draft()


@pytest.mark.parametrize(
    ("n_max", "n_min", "drafted"),
    [
        (9, 4, (3, 4, 5, 1)),
        (9, 5, ()),
        # Nothing is too short that ended at its own length.
        (3, 9, (3, 4, 5)),
    ],
)
def test_a_draft_that_meets_an_empty_entry_early_is_dropped(
    n_max: int, n_min: int, drafted: tuple[int, ...]
) -> None:
    assert begun(TEXT, n_max=n_max, n_min=n_min).draft(2, 99).tokens == drafted


def test_the_bound_of_a_round_does_not_drop_a_draft() -> None:
    assert begun(TEXT, n_min=4).draft(2, 1).tokens == (3,)


def test_the_latest_follower_counts() -> None:
    assert begun((1, 2, 3, 1, 2, 4, 1), n_max=9).draft(2, 9).tokens == (4, 1)


def test_a_text_shorter_than_an_ngram_drafts_nothing() -> None:
    drafter = begun((1,))
    assert play(drafter, 2, 0) == ()
    say(drafter, *(3, 1, 2) * 12, 3, 1)
    assert drafter.draft(2, 1).tokens == (3,)


@pytest.mark.parametrize(("n_fillers", "drafted"), [(26, ()), (27, (3,))])
def test_what_is_generated_is_learnt_in_pieces(n_fillers: int, drafted: tuple[int, ...]) -> None:
    drafter = begun((9, 9))
    say(drafter, 1, 2, 3, *range(100, 100 + n_fillers), 1)
    assert drafter.draft(2, 1).tokens == drafted


@pytest.mark.parametrize(
    ("n_entries", "other", "drafted"),
    [(16, 17, 8), (N_ENTRIES, 17, 7), (N_ENTRIES, 1 + N_ENTRIES, 8)],
)
def test_another_ngram_in_the_same_entry_is_taken_for_it(
    n_entries: int, other: int, drafted: int
) -> None:
    drafter = begun((1, 7, other, 8, 9), n=1, state=NgramModState(n_entries=n_entries))
    assert drafter.draft(1, 1).tokens == (drafted,)


@pytest.mark.parametrize(
    ("prompt", "drafted"), [((1, 2, 3, 4, 5), (2, 3, 4, 5)), ((1, 2, 3, 4, 5, 6), ())]
)
def test_a_prompt_that_fills_more_than_a_quarter_empties_the_table(
    prompt: tuple[int, ...], drafted: tuple[int, ...]
) -> None:
    drafter = begun(prompt, n=1, n_max=9, state=NgramModState(n_entries=16))
    assert drafter.draft(1, 9).tokens == drafted


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


def test_an_emptied_table_learns_the_whole_text_again() -> None:
    drafter = begun(LONGER)
    for _draft in range(5):
        play(drafter, 2, 0)
        say(drafter, 1)
    say(drafter, *range(100, 115), 1)
    assert drafter.draft(2, 9).tokens == (1, 100, 101, 102)


def test_what_a_bound_cut_off_counts_as_not_accepted() -> None:
    drafter = begun(LONGER, n_max=5)
    for _draft in range(5):
        assert play(drafter, 2, 1, n_max=1) == (3,)
        say(drafter, 1)
    assert drafter.draft(2, 9) == Draft()


def test_rounds_without_a_draft_are_no_bad_drafts() -> None:
    drafter = begun(LONGER)
    for _draft in range(4):
        play(drafter, 2, 0)
        say(drafter, 7, 8, 1)
    assert drafter.draft(2, 9).tokens == ALL


def test_a_measurement_knows_nothing_and_a_chat_remembers() -> None:
    state = NgramModState()
    first = begun(LONGER, state=state)
    for _draft in range(3):
        play(first, 2, 0)
        say(first, 1)
    assert begun((8, 8, 1)).draft(2, 9) == Draft()
    # Bad drafts add up over turns.
    second = begun((8, 8, 1), state=state)
    for _draft in range(2):
        assert play(second, 2, 0) == ALL
        say(second, 1)
    assert second.draft(2, 9) == Draft()


def test_slots_share_a_table_and_not_their_bad_drafts() -> None:
    one = NgramModState()
    other = NgramModState(entries=one.entries, n_low=4)
    drafter = begun(LONGER, state=one)
    neighbour = begun((8, 8, 1), state=other)
    assert play(neighbour, 2, 0) == ALL
    # That was the neighbour's fifth.
    assert drafter.draft(2, 9) == Draft()
    assert (one.n_low, other.n_low) == (0, 0)
