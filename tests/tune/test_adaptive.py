"""What adaptive draft length could add, in words and as JSON."""

from dataclasses import replace

import pytest

from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.speculation import Speculation
from spectui.trace.policies import AUTOTUNE, Policies, Policy
from spectui.tune.forecast import Adaptive
from spectui.tune.recorded import Recorded
from spectui.tune.space import SearchSpace
from tests.support.replay import COSTS, DEPTH, SCENE, record
from tests.support.search import known

FIXED = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=4)))


def beside(least_s: float, best_s: float, fixed: Arm = FIXED) -> Adaptive:
    """Beside 10 seconds."""
    rules = (Policy("rule", 8, 0.5, best_s), Policy(AUTOTUNE, 16, None, 20.0))
    policies = Policies(least_s=least_s, rules=rules)
    return Adaptive(draft="d", fixed=fixed, fixed_s=10.0, policies=policies)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (
            beside(8.0, 9.8),
            (
                "Adaptive draft length could add at most 25 %, if it knew the text beforehand; "
                "the best of 2 known rules adds 2 % (rule: draft_max 8, draft_p_min 0.5)."
            ),
        ),
        (
            beside(8.0, 10.0),
            (
                "Adaptive draft length could add at most 25 %, if it knew the text beforehand; "
                "none of 2 known rules adds anything."
            ),
        ),
        (beside(9.95, 10.0), "Adaptive draft length could add at most 0.5 %."),
        (
            beside(9.95, 10.0, OFF),
            "Adaptive draft length could add at most 0.5 % over the target alone.",
        ),
        (
            beside(10.1, 11.0, OFF),
            (
                "By counts and prices no draft length makes this draft pay, not even one that fits "
                "the text each time."
            ),
        ),
    ],
)
def test_the_bound_is_told_with_the_best_rule_where_it_matters(one: Adaptive, text: str) -> None:
    assert one.sentence == text


def test_a_rule_has_its_numbers_as_far_as_it_takes_any() -> None:
    found = beside(8.0, 9.8).document()
    assert found["most_gain"] == pytest.approx(0.25)
    assert found["fixed"] == FIXED.document()
    own, tuner = found["rules"]
    assert own == {"rule": "rule", "draft_max": 8, "draft_p_min": 0.5, "gain": 10 / 9.8 - 1}
    assert tuner == {"rule": AUTOTUNE, "draft_max": 16, "gain": -0.5}


def test_the_best_forecast_of_a_model_alone_is_taken_beside_off() -> None:
    space = SearchSpace(drafts=("draft",), max_draft=DEPTH)
    recorded = Recorded(recordings=[record(SCENE)[0]], costs={"draft": COSTS}, space=space)
    ordered = recorded.forecasts(recorded.totals())
    ngrams = [one for one in ordered if one.arm.draft is None]
    models = [one for one in ordered if one.arm.draft is not None]
    best = models[0]
    chained = Arm(draft="draft", speculation=Speculation(DraftSimple(), (NgramSimple(),)))
    found = known(recorded.adaptive((ngrams[0], replace(best, arm=chained), *models)).value)
    seconds = known(best.answers)
    off_s = float(seconds.off_s.sum())
    assert found.draft == "draft"
    assert found.fixed_s == pytest.approx(min(off_s / best.speedup, off_s))
    assert found.fixed == (best.arm if best.speedup >= 1 else OFF)
    slow = replace(recorded, costs={"draft": replace(COSTS, off_s=COSTS.off_s / 10)})
    worse = known(slow.adaptive(slow.forecasts(slow.totals())).value)
    assert worse.fixed.is_off
    assert recorded.adaptive(ngrams).value is None
