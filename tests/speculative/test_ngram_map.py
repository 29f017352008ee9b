"""ngram-map-k and ngram-map-k4v against llama.cpp's rules."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.speculative.drafters import Draft
from spectui.speculative.ngram_hash import RollingHash
from spectui.speculative.ngram_map import N_SLOTS, NgramMapDrafter, NgramMapState
from tests.support.ngram_reference import (
    MapReference,
    Turn,
    assert_equal_drafts,
    long_chat,
    play,
    say,
    slot_32,
    turns,
)

FACTOR = 2654435761


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


@given(
    text=st.lists(st.integers(0, 2**31 - 1), max_size=40),
    size_n=st.integers(1, 12),
    last=st.integers(0, 2**31 - 1),
)
def test_a_rolling_hash_is_the_32_bit_one(text: list[int], size_n: int, last: int) -> None:
    found = RollingHash(size_n, FACTOR, N_SLOTS)
    for end in range(0, len(text) + 1, 3):
        found.grow(text[:end])
    found.grow(text)
    ngrams = [text[start : start + size_n] for start in range(len(text) - size_n + 1)]
    assert found.slots == [slot_32(ngram, N_SLOTS) for ngram in ngrams]
    if ngrams:
        assert found.ending(text, last) == slot_32([*ngrams[-1][1:], last], N_SLOTS)


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


TEXT = (9, 1, 2, 3, 4, 5, 6, 1)
FOUR = (9, 1, 2, 3, 4, 5, 6, 0, 0, 1)
"""For drafts of four tokens."""


def test_what_followed_before_is_proposed_where_the_text_has_room() -> None:
    assert begun(TEXT).draft(2, 9) == Draft(tokens=(3, 4))
    assert begun(TEXT).draft(2, 1) == Draft(tokens=(3,))
    assert begun(TEXT).draft(3, 9) == Draft()
    # The first token of a text is never found.
    assert begun(TEXT[1:]).draft(2, 9) == Draft()
    # Two n-grams and a draft.
    assert begun((9, 1, 2, 3, 4, 1)).draft(2, 9).tokens == (3, 4)
    assert begun((9, 1, 2, 3, 1)).draft(2, 9) == Draft()


def test_of_the_prompt_the_latest_place_counts() -> None:
    assert begun((0, 1, 2, 7, 7, 0, 1, 2, 8, 8, 6, 6, 1)).draft(2, 9).tokens == (8, 8)


def test_later_places_never_take_a_slot() -> None:
    drafter = begun((9, 1, 2, 3, 4, 5, 6, 7))
    assert drafter.draft(8, 9) == Draft()
    say(drafter, 8, 1, 2, 7, 7, 7, 7, 1)
    assert drafter.draft(2, 9).tokens == (3, 4)


@pytest.mark.parametrize(
    ("prompt", "output", "drafted"),
    [
        # The n-gram begins 6, 5 and 4 tokens before the end of the prompt, ...
        ((9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6), (7, 8, 5, 6, 1), (3, 4)),
        ((9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5), (6, 7, 8, 5, 6, 1), (3, 4)),
        ((9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4), (5, 6, 7, 8, 5, 1), ()),
        # ... right behind it, and one further.
        ((9,) * 12, (1, 2, 3, 4, 5, 1), ()),
        ((9,) * 12, (5, 1, 2, 3, 4, 1), (3, 4)),
    ],
)
def test_around_the_end_of_the_prompt_nothing_is_found(
    prompt: tuple[int, ...], output: tuple[int, ...], drafted: tuple[int, ...]
) -> None:
    drafter = begun(prompt)
    say(drafter, *output)
    assert drafter.draft(2, 9).tokens == drafted


@pytest.mark.parametrize(("n_slots", "later"), [(1, ()), (N_SLOTS, (3, 4))])
def test_an_ngram_without_a_slot_is_found_once(n_slots: int, later: tuple[int, ...]) -> None:
    drafter = begun(TEXT, state=NgramMapState(n_slots=n_slots))
    assert play(drafter, 2, 2) == (3, 4)
    say(drafter, 8, 1)
    assert drafter.draft(2, 9).tokens == later


@pytest.mark.parametrize(("other", "drafted"), [(5 + N_SLOTS, ()), (6 + N_SLOTS, (7,))])
def test_tokens_that_differ_by_the_size_of_the_table_collide(
    other: int, drafted: tuple[int, ...]
) -> None:
    drafter = begun((9, 5, 7, other, 8, 6, 6), n=1, m=1)
    assert drafter.draft(1, 9) == Draft()
    say(drafter, 1)
    assert drafter.draft(5, 9).tokens == drafted
    assert drafter.draft(other, 9).tokens == (8,)


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


def test_a_draft_that_a_bound_cut_stays_short() -> None:
    drafter = begun(FOUR, m=4)
    assert play(drafter, 2, 2, n_max=2) == (3, 4)
    say(drafter, 1)
    assert drafter.draft(2, 9).tokens == (3, 4)


def test_rounds_without_a_draft_change_no_lengths() -> None:
    drafter = begun(FOUR, m=4)
    assert play(drafter, 2, 4) == (3, 4, 5, 6)
    say(drafter, 7, 7, 1)
    assert drafter.draft(2, 9).tokens == (3, 4, 5, 6)


def test_without_values_min_hits_mean_nothing() -> None:
    drafter = NgramMapDrafter(2, 2, with_values=False, min_hits=5)
    drafter.begin(TEXT)
    assert drafter.draft(2, 9).tokens == (3, 4)


@pytest.mark.parametrize("min_hits", [1, 2, 4])
def test_with_values_an_ngram_must_be_found_often_enough(min_hits: int) -> None:
    drafter = with_values(TEXT, min_hits=min_hits)
    for _lookup in range(min_hits - 1):
        assert play(drafter, 2, 0) == ()
        say(drafter, 7, 1)
    assert drafter.draft(2, 9).tokens == (3, 4)


def test_the_draft_is_what_followed_the_place_and_not_the_frequent_value() -> None:
    drafter = with_values((0, *(1, 2, 3, 4) * 3, 1, 2, 5, 6, 0, 0, 0, 1))
    assert drafter.draft(2, 9).tokens == (5, 6)


def test_a_value_must_be_twice_as_frequent_as_all_others() -> None:
    drafter = with_values((0, 1, 2, 3, 4, 1, 2, 5, 6, 0, 0, 0, 1))
    assert play(drafter, 2, 0) == ()
    say(drafter, 0, 1)
    # Every lookup counts the place again that it finds.
    assert play(drafter, 2, 0) == (5, 6)


@pytest.mark.parametrize(("n_values", "drafted"), [(4, (13, 23)), (5, ())])
def test_a_fifth_value_is_not_counted(n_values: int, drafted: tuple[int, ...]) -> None:
    values = [token for value in range(n_values) for token in (1, 2, 10 + value, 20 + value)]
    drafter = with_values((0, *values, 0, 0, 0, 1))
    for _lookup in range(5):
        assert play(drafter, 2, 0) == ()
        say(drafter, 0, 1)
    assert drafter.draft(2, 9).tokens == drafted


def test_the_frequent_value_is_credited_with_what_was_accepted() -> None:
    drafter = with_values((0, *(1, 2, 3, 4) * 6, 1, 2, 5, 6, 0, 0, 0, 1))
    assert play(drafter, 2, 1) == (5, 6)
    say(drafter, 1)
    assert drafter.draft(2, 9).tokens == (5,)


def test_a_measurement_knows_nothing_and_a_chat_remembers() -> None:
    state = NgramMapState()
    first = begun(FOUR, m=4, state=state)
    assert play(first, 2, 1) == (3, 4, 5, 6)
    prompt = (*FOUR, 2, 3, 7, 7, 7, 1)
    assert begun(prompt, m=4).draft(2, 9).tokens == (3, 7, 7, 7)
    assert begun(prompt, m=4, state=state).draft(2, 9).tokens == (3,)


AGAIN = (9, 5, 7, 8, 0, 0, 5, 3, 4, 0, 0)


def test_a_shorter_text_forgets_what_stood_behind_it() -> None:
    drafter = begun(AGAIN, n=1)
    assert play(drafter, 5, 1) == (3, 4)
    drafter.begin(AGAIN[:6])
    # The place that hid an earlier one is gone, and the earlier one does not come back.
    assert drafter.draft(5, 9) == Draft()
    assert begun(AGAIN[:6], n=1).draft(5, 9).tokens == (7, 8)
    say(drafter, 0, 5, 3, 4, 0, 0)
    assert drafter.draft(5, 9).tokens == (3, 4)


def test_another_answer_to_the_same_prompt_remembers_the_prompt() -> None:
    drafter = begun(AGAIN, n=1)
    assert play(drafter, 5, 1) == (3, 4)
    assert play(drafter, 77, 0) == ()
    drafter.begin(AGAIN)
    assert drafter.draft(5, 9).tokens == (3,)


def test_what_was_learnt_of_a_longer_text_is_taken_for_another_one() -> None:
    drafter = begun((9, 5, 7, 8, 6, 6), n=1, m=1)
    assert play(drafter, 5, 0) == (7,)
    other = (9, 4, 7, 8, 4, 6, 0, 0)
    # 4 stands now where 5 did, whose draft was rejected.
    drafter.begin(other)
    assert drafter.draft(4, 9) == Draft()
    assert begun(other, n=1, m=1).draft(4, 9).tokens == (6,)


def test_of_two_keys_that_have_become_the_same_the_older_one_counts() -> None:
    drafter = begun((9, 5, 7, 8, 4, 6, 6, 6), n=1, m=1)
    assert play(drafter, 5, 0) == (7,)
    assert play(drafter, 4, 1) == (6,)
    # 3 stands where 5 and 4 stood, of whose drafts none and one token were accepted.
    other = (9, 3, 7, 8, 3, 0, 0, 0, 3, 2, 0, 0)
    drafter.begin(other)
    assert drafter.draft(3, 9) == Draft()
    assert begun(other, n=1, m=1).draft(3, 9).tokens == (2,)
