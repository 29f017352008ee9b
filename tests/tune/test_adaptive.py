"""What adaptive draft length could add, in words and as JSON."""

import pytest

from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.speculation import Speculation
from spectui.trace.policies import AUTOTUNE, Policies, Policy
from spectui.trace.replay import off_seconds
from spectui.tune.adaptive import Adaptive, adaptive_length
from tests.support.replay import COSTS, SCENE, record
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
                "Adaptive draft length could add at most 25.0 %, if it knew the text beforehand; "
                "the best of 2 known rules adds 2.0 % (rule: draft_max 8, draft_p_min 0.5)."
            ),
        ),
        (
            beside(8.0, 10.0),
            (
                "Adaptive draft length could add at most 25.0 %, if it knew the text beforehand; "
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
            "No draft length makes this draft pay, not even one that fits the text each time.",
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


def test_the_draft_of_the_best_forecast_is_replayed_beside_what_is_faster() -> None:
    recordings = [record(SCENE)[0]]
    (off_s,) = off_seconds(recordings, COSTS)
    arm = Arm(draft="draft", speculation=Speculation(DraftSimple(draft_max=2)))
    costs = {"draft": COSTS}
    faster = adaptive_length(recordings, arm, costs, fixed_s=0.9 * off_s, off_s=off_s)
    assert known(faster.value).fixed == arm
    slower = adaptive_length(recordings, arm, costs, fixed_s=1.1 * off_s, off_s=off_s)
    assert known(slower.value).fixed.is_off
    assert known(slower.value).fixed_s == off_s


@pytest.mark.parametrize(
    "arm",
    [
        Arm(draft=None, speculation=Speculation(NgramSimple())),
        Arm(draft="draft", speculation=Speculation(DraftSimple(), (NgramSimple(),))),
    ],
)
def test_rules_of_models_say_nothing_of_ngrams(arm: Arm) -> None:
    found = adaptive_length([record(SCENE)[0]], arm, {"draft": COSTS}, fixed_s=1.0, off_s=1.0)
    assert found.value is None
    assert found.reason == "n-gram drafters draft in the best forecast"
