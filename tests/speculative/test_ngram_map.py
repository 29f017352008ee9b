"""ngram-map-k and ngram-map-k4v against llama.cpp's rules."""

from collections.abc import Sequence

import pytest

from spectui.speculative.ngram_map import NgramMapDrafter, NgramMapState
from tests.support.ngrams import play, say


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
