"""One setting for all, or one per category: from trials whose truth is known."""

import random
from dataclasses import replace

import pytest

from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.categories import Profiles, judge_profiles, per_category, per_category_rows
from spectui.tune.trials import PromptScore, TrialRecord, TrialState

SHORT = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=2)))
LONG = Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=12)))
ARMS = tuple(
    Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=n))) for n in range(1, 11)
)
SPEEDS = {
    OFF: {"code": 1.0, "prose": 1.0},
    SHORT: {"code": 1.4, "prose": 1.2},
    LONG: {"code": 2.0, "prose": 0.7},
}


def trial(
    number: int,
    arm: Arm,
    speeds: dict[str, float],
    *,
    n_each: int,
    noise: float = 0.0,
    machine: float = 1.0,
) -> TrialRecord:
    dice = random.Random(number)  # noqa: S311 - a test needs no secrets
    scores = tuple(
        PromptScore(
            prompt_id=f"{category}{index}",
            category=category,
            n_tokens=40,
            decode_s=40 / (10 * machine * speed * dice.lognormvariate(0, noise)),
            n_drafted=0,
            n_accepted=0,
            n_rounds=40,
        )
        for category, speed in speeds.items()
        for index in range(n_each)
    )
    return TrialRecord(
        number=number,
        state=TrialState.COMPLETE,
        arm=arm,
        prompts=scores,
        anchor_tokens_per_s=10 * machine,
    )


def trials(n_each: int, noise: float = 0.0) -> list[TrialRecord]:
    return [
        # Every trial ran on a machine of another speed: the anchors take it out.
        trial(number, arm, speeds, n_each=n_each, noise=noise, machine=1 + 0.1 * number)
        for number, (arm, speeds) in enumerate(SPEEDS.items())
    ]


def test_the_fastest_of_each_category_stands_beside_the_winner() -> None:
    code, prose = per_category(trials(4), SHORT)
    assert (code.category, code.n_prompts, code.n_tokens) == ("code", 4, 160)
    assert (code.best, prose.best) == (LONG, SHORT)
    assert code.best_speedup == pytest.approx(2.0)
    assert (code.winner_speedup, prose.winner_speedup) == pytest.approx((1.4, 1.2))
    # Off can be the best, and alone it is the fastest of nothing.
    off, short, long = trials(2)
    _, prose = per_category([off, long], LONG)
    assert (prose.best, prose.best_speedup) == (OFF, 1.0)
    assert prose.winner_speedup == pytest.approx(0.7)
    alone = per_category([off], SHORT)
    assert [one.n_settings for one in alone] == [1, 1]
    rows = per_category_rows((), alone)
    assert all(row["trials"] is None for row in rows)
    assert "no setting but off" in rows[0]["trials_reason"]
    several = per_category([off, short, long], SHORT)
    assert all(row["trials"]["n_prompts"] == 2 for row in per_category_rows((), several))
    # A trial without all prompts is left out.
    found = per_category([off, short, long, trial(9, ARMS[8], {"code": 9.0}, n_each=2)], None)
    assert {one.best for one in found} == {LONG, SHORT}
    assert all(one.winner_speedup is None for one in found)
    # Repeated trials of a setting are averaged.
    repeats = [trial(n, SHORT, {"code": n, "prose": 1.0}, n_each=1) for n in (1, 2)]
    code, _ = per_category([trial(0, OFF, SPEEDS[OFF], n_each=1), *repeats], SHORT)
    assert code.best_speedup == pytest.approx(1 / ((1 + 0.5) / 2))


def test_profiles_are_worth_it_where_the_categories_differ_for_sure() -> None:
    found = judge_profiles(trials(12, noise=0.02), min_gain=0.02)
    assert found.recommended
    assert found.gain is not None
    # Per token and off-second: code 1/1.4, prose 1/1.2 for all; 1/2.0 and 1/1.2 with profiles.
    alone, apart = 1 / 1.4 + 1 / 1.2, 1 / 2.0 + 1 / 1.2
    assert found.gain == pytest.approx(alone / apart - 1, abs=0.04)
    assert found.reason.startswith("A setting per category: it gained +")


def test_a_gain_that_is_sure_has_to_be_the_least_one_as_well() -> None:
    """Each half of the prompts of code has a favourite that is slower on the other half."""
    records = trials(12, noise=0.02)
    other = trial(3, ARMS[5], SPEEDS[LONG], n_each=12)
    for record, favours in ((records.pop(), 0), (other, 1)):
        scores = (
            replace(one, decode_s=one.decode_s * (0.9 if n % 2 == favours else 1.15))
            for n, one in enumerate(record.prompts)
        )
        records.append(replace(record, prompts=tuple(scores)))
    found = judge_profiles(records, min_gain=0.0)
    assert found.recommended
    assert found.gain is not None
    assert found.apparent_gain is not None
    assert found.apparent_gain > found.gain
    between = (found.gain + found.apparent_gain) / 2
    assert not judge_profiles(records, min_gain=between).recommended


def test_profiles_that_fit_only_the_prompts_that_chose_them_do_not_hold() -> None:
    """Each prompt has a favourite of its own, which tells nothing of its category."""
    speeds, dice = {"code": 1.0, "prose": 1.0}, random.Random(3)  # noqa: S311 - a test
    records = [trial(0, OFF, speeds, n_each=8)]
    favourites = [dice.choice(ARMS) for _ in range(16)]
    for n, arm in enumerate(ARMS, 1):
        measured = trial(n, arm, speeds, n_each=8)
        scores = (
            replace(score, decode_s=score.decode_s / (1.5 if arm == favourite else 1.0))
            for score, favourite in zip(measured.prompts, favourites, strict=True)
        )
        records.append(replace(measured, prompts=tuple(scores)))
    found = judge_profiles(records, min_gain=0.0)
    assert not found.recommended
    assert found.apparent_gain is not None
    assert found.apparent_gain > 0.02
    assert found.gain_ci is not None
    assert found.gain_ci[0] < 0
    document = found.document()
    assert (document["gain_ci"], document["gain_ci_level"]) == (list(found.gain_ci), 0.97)
    assert "(97 % interval" in found.reason
    assert "none per category held on prompts that did not choose it" in found.reason


def test_noise_is_not_taken_for_a_gain() -> None:
    """Ten settings that are all the same: the best of each category looks better than it is."""
    n_recommended, apparent, honest = 0, 0.0, 0.0
    for seed in range(200):
        speeds = {"code": 1.3, "prose": 1.3, "chat": 1.3, "math": 1.3}
        records = [trial(1000 * seed, OFF, dict.fromkeys(speeds, 1.0), n_each=2, noise=0.05)]
        records += [
            trial(1000 * seed + n, arm, speeds, n_each=2, noise=0.05)
            for n, arm in enumerate(ARMS, 1)
        ]
        n_recommended += judge_profiles(records, min_gain=0.02).recommended
        # Without a margin, all are judged on prompts that did not choose.
        found = judge_profiles(records, min_gain=0.0)
        apparent += (found.apparent_gain or 0.0) / 200
        honest += (found.gain or 0.0) / 200
    assert n_recommended <= 200 * 0.025
    assert apparent > 0.02
    assert abs(honest) < apparent / 2


ALONE = [trial(0, OFF, {"code": 1.0}, n_each=3), trial(1, SHORT, {"code": 1.2}, n_each=3)]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "the off arm was not measured"),
        (trials(1), "every category has one prompt"),
        (ALONE, "all of one category"),
        (trials(3)[:1], "fewer than two settings"),
    ],
)
def test_what_cannot_be_told_is_not_recommended(records: list[TrialRecord], words: str) -> None:
    found = judge_profiles(records, min_gain=0.02)
    assert not found.recommended
    assert found.gain is None
    assert words in found.reason
    few = judge_profiles(trials(2), min_gain=0.02)
    assert not few.recommended
    assert few.gain is not None
    assert "not decided" in few.reason


def test_what_gains_nothing_even_with_hindsight_is_decided() -> None:
    close = {OFF: {"code": 1.0, "prose": 1.0}, SHORT: {"code": 1.40, "prose": 1.21}}
    close[LONG] = {"code": 1.41, "prose": 1.20}
    records = [trial(n, arm, speeds, n_each=1) for n, (arm, speeds) in enumerate(close.items())]
    found = judge_profiles(records, min_gain=0.02)
    assert not found.recommended
    assert found.apparent_gain is not None
    assert 0 < found.apparent_gain < 0.02
    assert found.reason.startswith(
        "One setting for all: even one per category, chosen with hindsight"
    )


def test_the_same_setting_everywhere_needs_no_profiles() -> None:
    found = judge_profiles([t for t in trials(3) if t.arm != LONG], min_gain=0.02)
    assert found == Profiles(
        recommended=False,
        gain=0.0,
        gain_ci=None,
        apparent_gain=0.0,
        reason="One setting for all: the same one was fastest in every category.",
    )
    slow = trial(1, SHORT, {"code": 0.9, "prose": 0.8}, n_each=3)
    alone = judge_profiles([trial(0, OFF, SPEEDS[OFF], n_each=3), slow], min_gain=0.02)
    assert alone.reason == "One setting for all: off was fastest in every category."
