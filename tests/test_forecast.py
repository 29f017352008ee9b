"""Forecasts: what a recording says of the space, and what is chosen from it."""

from itertools import pairwise

from spectui.config import SpeculationConfig
from spectui.tune.forecast import Forecast, forecasts, promising
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.tracing import Tracing
from spectui.tune.trials import Arm
from tests.support.replay import COSTS, DEPTH, SCENE, record

RECORDING, _ = record(SCENE)
TRACING = Tracing(
    recordings=(RECORDING,),
    baseline_s=1.0,
    draft_s=1.0,
    costs={"draft": COSTS},
    interrupted=False,
)
SPACE = SearchSpace(drafts=("draft",), max_draft=DEPTH)


def test_the_whole_space_is_replayed_best_first() -> None:
    found = forecasts(TRACING, SPACE)
    # Of 6 lengths and 5 least lengths, those pairs that can draft at all; 20 floors.
    assert len(found) == 20 * (2 + 3 + 4 + 5 + 5 + 5)
    assert all(one.speedup >= other.speedup for one, other in pairwise(found))
    assert all(one.n_accepted <= one.n_drafted for one in found)
    assert {one.arm.draft for one in found} == {"draft"}


def test_only_what_is_tuned_varies() -> None:
    space = SearchSpace(
        drafts=("draft",), max_draft=DEPTH, tuned=frozenset({Parameter.DRAFT_P_MIN})
    )
    found = forecasts(TRACING, space)
    assert {one.arm.speculation.draft_max for one in found if one.arm.speculation} == {3}
    assert len(found) == 20


def test_a_draft_without_costs_has_no_forecast() -> None:
    assert forecasts(TRACING, SearchSpace(drafts=("other",), max_draft=DEPTH)) == ()
    nothing = Tracing(recordings=(), baseline_s=0, draft_s=0, costs={}, interrupted=False)
    assert forecasts(nothing, SPACE) == ()


def test_promising_are_the_best_of_each_length() -> None:
    def one(draft: str, draft_max: int, p_min: float, speedup: float) -> Forecast:
        speculation = SpeculationConfig(draft_max=draft_max, draft_p_min=p_min)
        arm = Arm(draft=draft, speculation=speculation)
        return Forecast(arm=arm, speedup=speedup, n_drafted=1, n_accepted=1)

    ordered = [
        one("a", 5, 0.1, 1.9),
        one("a", 5, 0.2, 1.8),
        one("b", 5, 0.1, 1.7),
        one("a", 6, 0.1, 1.6),
        one("a", 4, 0.1, 1.5),
    ]
    chosen = promising(ordered, 3)
    assert chosen == (ordered[0].arm, ordered[2].arm, ordered[3].arm)
    assert promising((), 3) == ()
