"""Why there is no acceptance, in words."""

import pytest

from spectui.live.rounds import acceptance_state
from spectui.speculative.counters import Counters


@pytest.mark.parametrize(
    ("by_ngrams", "why"),
    [
        (False, "no draft in 7 rounds: draft_p_min or draft_min drops them all"),
        # An earlier turn may have found something, or this one something too short.
        (True, "no draft in 7 rounds of this turn: too little to repeat"),
    ],
    ids=["model", "ngrams"],
)
def test_a_turn_without_drafts_says_what_may_be_behind_it(*, by_ngrams: bool, why: str) -> None:
    state = acceptance_state(
        Counters(n_rounds=7), Counters(), (), speculates=True, by_ngrams=by_ngrams, step_s=None
    )
    assert state.reason == why
