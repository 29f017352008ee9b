"""ngram-mod against llama.cpp's rules."""

from collections.abc import Sequence

import pytest

from spectui.speculative.drafters import Draft
from spectui.speculative.ngram_mod import NgramModDrafter, NgramModState
from tests.support.ngrams import play, say


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
