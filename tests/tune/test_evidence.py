"""Evidence of recorded prompts: who chooses for whom, and what the timed ones change."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.measure.arm import Arm
from spectui.measure.speedup import PairedMeasurement
from spectui.measure.verdict import Basis
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.evidence import FEW, Evidence, evidence_of
from spectui.tune.forecast import Answers, Forecast
from tests.support.search import known

N_PARTS = 4


def arm(longest: int) -> Arm:
    return Arm(draft="d", speculation=Speculation(DraftSimple(draft_max=longest)))


def forecast(longest: int, gains: npt.NDArray[np.float64]) -> Forecast:
    """Of a setting that gains so much on each part of each answer: [n, n_parts]."""
    off_s = np.ones_like(gains)
    answers = Answers(
        tokens=8 * off_s, drafted=7 * off_s, accepted=6 * off_s, on_s=off_s / gains, off_s=off_s
    )
    speedup = float(off_s.sum() / answers.on_s.sum())
    return Forecast(arm=arm(longest), speedup=speedup, n_drafted=9, n_accepted=6, answers=answers)


def evidence(*gains: npt.NDArray[np.float64], replay: Any = lambda _arm: None) -> Evidence:  # noqa: ANN401 - of the search
    """Of settings with so many drafted tokens each; the best of all text is chosen."""
    found = [forecast(index, each) for index, each in enumerate(gains, 1)]
    best = max(found, key=lambda one: one.speedup)
    names = [(f"p{index}", "") for index in range(len(gains[0]))]
    return known(evidence_of(best.arm, found, names, replay, {}, n_given=len(names)))


def found_in(chosen: Arm, found: list[Forecast], names: list[tuple[str, str]]) -> Evidence | None:
    return evidence_of(chosen, found, names, lambda _arm: None, {}, n_given=len(names))


def timed(one: Evidence, arm: Arm, *factors: float) -> list[PairedMeasurement]:
    """The first answers with a setting, each so many times as slow as it was forecast."""
    answers = known(one.answers(arm)).whole
    return [
        PairedMeasurement(
            prompt_id=f"p{index}",
            category="",
            baseline_s=float(answers.off_s[index, 0]),
            baseline_tokens=32,
            speculative_s=float(answers.on_s[index, 0]) * factor,
            speculative_tokens=32,
            n_accepted=20,
        )
        for index, factor in enumerate(factors)
    ]


def spike(n: int, at: int) -> npt.NDArray[np.float64]:
    """A setting that gains much on one answer, and loses on all others."""
    gains = np.full((n, N_PARTS), 0.9)
    gains[at] = 20.0
    return gains


def test_no_prompt_chooses_for_itself() -> None:
    """Each setting shines on one prompt: whoever chooses for itself is told of a gain."""
    n = FEW + 1
    one = evidence(*(spike(n, at) for at in range(n)))
    own = known(one.answers(one.chosen)).whole
    assert own.off_s.sum() / own.on_s.sum() > 0.94
    judged = one.by_prompts.whole
    # A fold that shines is judged by what the others choose, which loses there.
    assert (judged.off_s / judged.on_s)[: FEW - 1] == pytest.approx(0.9)
    assert one.basis is Basis.CROSSED


def test_no_part_of_an_answer_chooses_for_itself() -> None:
    gains = np.full((N_PARTS, 2, N_PARTS), 0.9)
    for part in range(N_PARTS):
        gains[part, :, part] = 20.0
    one = evidence(*gains)
    assert one.by_parts.off_s / one.by_parts.on_s == pytest.approx(0.9)
    assert one.basis is Basis.THESE


@given(st.integers(1, 30), st.floats(0.5, 2.0), st.integers(3, 8))
def test_an_error_of_prices_is_corrected_and_the_interval_reaches_to_their_forecast(
    n: int, factor: float, n_timed: int
) -> None:
    rng = np.random.default_rng(n)
    gains = np.exp(rng.normal(0.3, 0.1, (n, N_PARTS)))
    one = evidence(gains, gains * 0.8)
    expected = one.speedup(timed(one, arm(1), *[1.0] * min(n, n_timed)))
    found = one.speedup(timed(one, arm(1), *[factor] * min(n, n_timed)))
    assert found.estimate == pytest.approx(expected.estimate / factor)
    assert found.n_prompts == n
    if n * one.n_passes >= 3 and expected.interval is not None and min(n, n_timed) > 2:
        low, high = (end / factor for end in expected.interval)
        forecast = expected.estimate
        assert found.interval == pytest.approx((min(low, forecast), max(high, forecast)))


def test_few_prompts_are_told_of_with_what_others_gain() -> None:
    rng = np.random.default_rng(1)
    by_prompt = np.exp(rng.normal(0.3, 0.3, (8, 1)))
    one = evidence(
        np.repeat(by_prompt, N_PARTS, axis=1) * np.exp(rng.normal(0, 0.05, (8, N_PARTS)))
    )
    runs = timed(one, arm(1), *np.exp(rng.normal(0, 0.01, 8)))
    these, others = one.speedup(runs), known(one.of_others(runs))
    assert these.estimate == pytest.approx(others.estimate)
    (low, high), (wide_low, wide_high) = known(these.interval), known(others.interval)
    assert wide_low < low < high < wide_high
    assert (wide_high - wide_low) > 3 * (high - low)


def test_more_timing_is_worth_it_while_it_is_much_of_the_width() -> None:
    rng = np.random.default_rng(1)
    one = evidence(np.exp(rng.normal(0.3, 0.1, (24, 1))) * np.ones((24, N_PARTS)))
    noisy, quiet = (
        timed(one, arm(1), *np.exp(rng.normal(0, spread, 8))) for spread in (0.1, 0.005)
    )
    assert one.progress(quiet, 24) == 1.0
    # What counts have is there from the first run on; timing comes by its share.
    assert 8 / 24 < one.progress(noisy, 24) < 0.8
    assert one.progress(noisy, 8) == 1.0
    # Before anything is known of the width, it is the share of the runs.
    assert one.progress(noisy[:2], 24) == pytest.approx(2 / 24)


@given(st.integers(FEW + 1, 30), st.integers(1, 30))
def test_further_prompts_are_judged_by_a_choice_that_they_had_no_part_in(n: int, more: int) -> None:
    rng = np.random.default_rng(n)
    gains = np.exp(rng.normal(0.3, 0.1, (n + more, N_PARTS)))
    one = replace(evidence(gains[:n], gains[:n] * 0.8), n_planned=2 * n)
    assert one.share == 0.5
    further = forecast(1, gains[n:]).answers
    both = one.followed_by([(f"p{n + index}", "") for index in range(more)], further)
    assert both.share == min(1.0, (n + more) / (2 * n)) or n + more > 2 * n
    runs = timed(both, arm(1), *[1.0] * 8)
    found = both.speedup(runs)
    whole = known(evidence(gains, gains * 0.8).speedup(runs))
    # Here all of them chose alike, so that it is what all together would say.
    assert found.estimate == pytest.approx(whole.estimate)
    assert found.n_prompts == n + more
    assert found.interval == pytest.approx(whole.interval)
    assert [known(both.answers(arm(index))).on_s.shape[0] for index in (1, 2)] == [n + more, n]
    (category,) = both.by_category(runs)
    assert category.n_prompts == n + more


def test_the_answer_for_few_prompts_takes_in_those_that_were_recorded_later() -> None:
    gains = np.full((4, N_PARTS), 1.5) * np.linspace(0.9, 1.1, N_PARTS)
    one = evidence(gains)
    further = forecast(1, gains[:2]).answers
    both = one.followed_by([("p4", ""), ("p5", "")], further)
    runs = timed(both, arm(1), *[1.0] * 6)
    assert both.basis is Basis.THESE
    assert both.speedup(runs).n_prompts == 6
    assert both.speedup(runs).estimate == pytest.approx(
        one.speedup(timed(one, arm(1), *[1.0] * 4)).estimate
    )


def test_a_setting_of_the_users_is_counted_as_it_is() -> None:
    gains, own = np.full((14, N_PARTS), 1.4), np.full((14, N_PARTS), 1.2)
    one = evidence(gains, replay=lambda asked: forecast(9, own) if asked == arm(9) else None)
    assert one.answers(arm(9)) is not None
    assert one.answers(arm(12)) is None
    slower = timed(one, arm(1), 1.1, 1.1, 1.1)
    assert one.beside(arm(9), slower).estimate == pytest.approx(1.2 / 1.1)
    with pytest.raises(ValueError, match="max 12"):
        one.beside(arm(12), slower)


def test_a_round_that_emits_all_of_an_answer_leaves_nothing_to_its_other_parts() -> None:
    off_s = np.array([[4.0, 0.0, 0.0, 0.0]])
    counts = {"tokens": 8 * off_s, "drafted": 7 * off_s, "accepted": 6 * off_s}
    answers = Answers(**counts, on_s=off_s / 2, off_s=off_s)
    long = replace(forecast(16, np.full((1, N_PARTS), 2.0)), answers=answers)
    short = forecast(1, np.full((1, N_PARTS), 1.1))
    one = known(found_in(long.arm, [long, short], [("p0", "")]))
    assert one.speedup(timed(one, long.arm, 1.0)).n_prompts == 1


def test_answers_in_which_nothing_was_decoded_are_no_evidence() -> None:
    gains = np.full((14, N_PARTS), 1.4)
    empty = replace(
        forecast(1, gains),
        answers=Answers(*np.zeros((5, *gains.shape))),
    )
    assert found_in(empty.arm, [empty], [("p", "")] * 14) is None
    assert found_in(arm(2), [forecast(1, gains)], [("p", "")] * 14) is None
    # Some of them without text: they are no prompt of the interval.
    some = np.ones(gains.shape, bool)
    some[0] = False
    partly = replace(
        forecast(1, gains), answers=Answers(*np.where(some, forecast(1, gains).answers, 0.0))
    )
    one = known(
        evidence_of(
            partly.arm,
            [partly],
            [(f"p{i}", "") for i in range(14)],
            lambda _arm: None,
            {},
            n_given=14,
        )
    )
    full = evidence(gains)
    assert one.speedup(timed(full, arm(1), *[1.0] * 4)).n_prompts == 13


def test_categories_are_of_all_recorded_prompts_at_the_prices_of_the_timed_ones() -> None:
    gains = np.repeat([[1.5]] * 7 + [[1.2]] * 7, N_PARTS, axis=1)
    one = replace(evidence(gains), prompts=tuple((f"p{i}", "ab"[i // 7]) for i in range(14)))
    code, prose = one.by_category(timed(one, arm(1), 1.1, 1.1, 1.1))
    assert (code.category, code.n_prompts, prose.n_prompts) == ("a", 7, 7)
    assert code.speedup == pytest.approx(1.5 / 1.1)
    assert prose.speedup == pytest.approx(1.2 / 1.1)
    assert prose.acceptance_rate == pytest.approx(6 / 7)


@given(st.integers(3, 30), st.integers(0, 99))
def test_the_speedup_is_what_the_gains_by_category_give_together(n: int, seed: int) -> None:
    """Settings that other text has chosen are in both, whichever all text chooses."""
    rng = np.random.default_rng(seed)
    first, second = np.exp(rng.normal(0.2, 0.3, (2, n, N_PARTS)))
    names = tuple((f"p{i}", "ab"[i % 2]) for i in range(n))
    one = replace(evidence(first, second), prompts=names)
    runs = timed(one, one.chosen, 1.1, 0.9, 1.2)
    off_s = known(one.answers(one.chosen)).off_s.sum(axis=1)
    categories = one.by_category(runs)
    on_s = sum(
        off_s[[name == each.category for _id, name in names]].sum() / each.speedup
        for each in categories
    )
    assert off_s.sum() / on_s == pytest.approx(one.speedup(runs).estimate)


def test_of_many_prompts_a_few_that_time_allowed_are_not_the_answer() -> None:
    """They were not chosen by the user, who asked of all."""
    gains = np.full((8, N_PARTS), 1.4)
    names = [(f"p{i}", "") for i in range(8)]
    one = known(evidence_of(arm(1), [forecast(1, gains)], names, lambda _arm: None, {}, n_given=48))
    assert (one.basis, one.of_others(timed(one, arm(1), 1.0, 1.0, 1.0))) == (
        Basis.CROSSED,
        None,
    )
