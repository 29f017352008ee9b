"""Sampled drafts, replayed in expectation, against rounds that are drawn."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.speculative.decoder import Stop
from spectui.speculative.models import Rollback
from spectui.trace.costs import Prices
from spectui.trace.probabilistic import best_sampled, replay_sampled
from spectui.trace.record import Chains, Recording, Tail
from tests.support.replay import COSTS
from tests.support.search import known

Sums = npt.NDArray[np.float64]
DEPTH = 4
PRICES = Prices(
    chain=np.arange(DEPTH + 1.0),
    batch=10 + 2 * np.arange(DEPTH + 1.0),
    token=0.5,
    fixed=1.0,
    rollback=3.0,
    rollback_token=0.0,
)


def recording(target: list[float], draft: list[float]) -> Recording:
    """A text whose tokens the target had drawn with these probabilities, the draft with those."""
    n = len(target)
    chains = Chains(
        depth=DEPTH,
        tokens=(0,) * n,
        probabilities=(0.5,) * n,
        tails=(Tail(tokens=(), probabilities=()),) * n,
        of_output=(*draft[1:], 0.0),
    )
    return Recording(
        id="p",
        category="",
        prompt=(1, 2),
        output=tuple(range(10, 10 + n)),
        probabilities=tuple(target),
        stop=Stop.LENGTH,
        n_predict=n,
        n_ctx=512,
        chains={"d": chains},
        rollback=Rollback.TRUNCATE,
    )


def expected(one: Recording, longest: int, at: int = 0) -> Sums:
    """Seconds, drafted and accepted tokens from a token on, over all that may happen."""
    if at >= len(one.output) - 1:
        return np.zeros(3)
    of_output = one.chains["d"].of_output
    drafted = max(0, min(longest, one.n_predict - at - 2))
    found, reached = np.zeros(3), 1.0
    for accepted in range(drafted + 1):
        is_last = accepted == drafted
        place = at + accepted
        kept = 0.0 if is_last else min(1.0, of_output[place] / one.probabilities[place + 1])
        seconds = PRICES.chain[drafted] + PRICES.batch[drafted] + PRICES.fixed
        seconds += PRICES.token * (accepted + 1) + PRICES.rollback * (not is_last)
        own = np.array([seconds, drafted, accepted])
        found += reached * (1 - kept) * (own + expected(one, longest, place + 1))
        reached *= kept
    return found


chances = st.lists(st.tuples(st.floats(0.05, 1.0), st.floats(0.0, 1.0)), min_size=2, max_size=9)


@given(chances)
def test_counts_are_those_of_all_that_may_happen(pairs: list[tuple[float, float]]) -> None:
    target, draft = map(list, zip(*pairs, strict=True))
    one = recording(target, draft)
    for longest, found in enumerate(replay_sampled(one, one.chains["d"], PRICES), 1):
        assert found == pytest.approx(expected(one, longest))


def test_drafts_that_are_always_or_never_kept() -> None:
    sure, never = recording([0.4] * 11, [0.4] * 11), recording([0.4] * 11, [0.0] * 11)
    # Ten tokens after the first: five, and five of which the bonus token takes the last.
    assert replay_sampled(sure, sure.chains["d"], PRICES)[3, 1:].tolist() == [8, 8]
    assert replay_sampled(never, never.chains["d"], PRICES)[:, 2].tolist() == [0] * DEPTH


def test_the_best_length_is_over_the_target_alone() -> None:
    one = recording([0.5] * 20, [0.45] * 20)
    found = known(best_sampled([one], "d", COSTS, COSTS))
    lengths = np.arange(found.draft_max)
    assert found.acceptance_rate == pytest.approx((0.9 ** (lengths + 1)).mean(), abs=0.01)
    # Greedy text, and text of elsewhere, tell nothing.
    for lacking in (
        replace(one, probabilities=()),
        replace(one, chains={"d": replace(one.chains["d"], of_output=())}),
        replace(one, rollback=Rollback.CHECKPOINT),
    ):
        assert best_sampled([one, lacking], "d", COSTS, COSTS) is None
