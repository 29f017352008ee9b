"""The cost model on rounds whose costs are known."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.speculative.counters import Round, RoundEnd, RoundTimes
from spectui.trace.costs import Costs
from spectui.trace.fit import Observed, fit_costs, rising

LENGTHS = (0, 1, 2, 4, 8, 16)
STEP_S, TOKEN_S, FIXED_S = 0.004, 0.0004, 0.0003
ROLLBACK_S, REDONE_S = 0.0002, 0.0001


def verify_s(n: int) -> float:
    return 0.05 + 0.006 * n


def again_s(n: int) -> float:
    return 0.003 + 0.001 * n


def observed(n: int, *, group: int, n_past: int, scale: float = 1.0) -> Observed:
    n_accepted = n // 2
    chain_s = scale * STEP_S * n
    return Observed(
        group=group,
        n_past=n_past,
        round=Round(
            draft=(1,) * n,
            probabilities=(0.5,) * n,
            tokens=(1,) * (n_accepted + 1),
            n_accepted=n_accepted,
            end=RoundEnd.MISMATCH if n else RoundEnd.EXHAUSTED,
            n_steps=n,
            chain_s=chain_s,
            times=RoundTimes(
                draft_s=chain_s + scale * again_s(n),
                verify_s=scale * verify_s(n),
                sample_s=TOKEN_S * (n_accepted + 1),
                rollback_s=(ROLLBACK_S + REDONE_S * n_accepted) * (n > 0),
                other_s=FIXED_S,
            ),
        ),
    )


def rounds(
    levels: Sequence[float], depths: Sequence[int], *, noise: float = 0.0, n_each: int = 3
) -> list[Observed]:
    dice = random.Random(1)  # noqa: S311 - a test needs no secrets
    return [
        replace(
            observed(
                n,
                group=group,
                n_past=depth + index,
                scale=level * (1 + noise * dice.uniform(-1, 1)),
            ),
            is_repeat=index == 1,
        )
        for group, (level, depth) in enumerate(zip(levels, depths, strict=True))
        for index, n in enumerate((0, *LENGTHS * n_each))
    ]


OFF_S = verify_s(0) + TOKEN_S + FIXED_S
"""Seconds of a token of the target alone: of a round that drafts nothing, without the draft's."""


def assert_costs(costs: Costs, tolerance: float) -> None:
    assert costs.lengths == LENGTHS
    assert costs.verify_s == pytest.approx([verify_s(n) for n in LENGTHS], rel=tolerance)
    assert costs.again_s == pytest.approx([again_s(n) for n in LENGTHS], rel=tolerance)
    assert costs.step_s == pytest.approx(STEP_S, rel=tolerance)
    assert costs.token_s == pytest.approx(TOKEN_S, rel=tolerance)
    assert costs.fixed_s == pytest.approx(FIXED_S, rel=tolerance)
    assert costs.rollback_s == pytest.approx(ROLLBACK_S, rel=tolerance)
    assert costs.rollback_token_s == pytest.approx(REDONE_S, rel=tolerance)


def test_known_costs_are_found() -> None:
    costs = fit_costs(rounds([1.0] * 5, [100] * 5))
    assert_costs(costs, 1e-9)
    assert costs.off_s == pytest.approx(OFF_S)
    assert set(costs.verify_growth_s) == {0.0}


MARK_S = 0.03


def marked(one: Observed) -> Observed:
    """The same round on a target that saves its state before each draft."""
    mark_s = MARK_S * (one.round.n_drafted > 0)
    times = replace(one.round.times, rollback_s=one.round.times.rollback_s + mark_s)
    return replace(one, round=replace(one.round, mark_s=mark_s, times=times))


def test_saving_the_state_is_paid_by_every_round_that_drafts_and_by_no_other() -> None:
    upheld = [
        replace(one, round=replace(one.round, end=RoundEnd.EXHAUSTED, times=times))
        for one in rounds([1.0] * 5, [100] * 5)
        for times in [replace(one.round.times, rollback_s=0.0)]
    ]
    plain = rounds([1.0] * 5, [100] * 5)
    for some in (plain, plain + upheld):
        costs = fit_costs([marked(one) for one in some])
        assert_costs(costs, 1e-9)
        assert costs.mark_s == pytest.approx(MARK_S)
        assert costs.off_s == pytest.approx(OFF_S)
        price = costs.prices(8).at(100)
        batch = [verify_s(n) + again_s(n) + MARK_S * (n > 0) for n in range(9)]
        assert price.batch.tolist() == pytest.approx(batch)
    # Another drafter's marks are not this one's.
    own, other = plain, list(map(marked, plain))
    assert fit_costs(own, [other]).mark_s == 0.0
    assert fit_costs(other, [own]).mark_s == pytest.approx(MARK_S)


def test_the_drift_of_the_machine_is_taken_out() -> None:
    levels = [0.7, 0.9, 1.0, 1.2, 1.6]
    costs = fit_costs(rounds(levels, [100] * 5, noise=0.05))
    assert_costs(costs, 0.06)
    assert costs.off_s == pytest.approx(OFF_S, rel=0.06)


def test_rounds_without_a_chain_have_no_step() -> None:
    def without_chain(one: Observed) -> Observed:
        times = replace(one.round.times, draft_s=again_s(one.round.n_drafted))
        return replace(one, round=replace(one.round, n_steps=0, chain_s=0.0, times=times))

    costs = fit_costs([without_chain(one) for one in rounds([1.0] * 3, [100] * 3)])
    assert costs.step_s == 0.0
    assert costs.verify_s == pytest.approx([verify_s(n) for n in LENGTHS])
    assert costs.again_s == pytest.approx([again_s(n) for n in LENGTHS])


GROWTH_S = {0: 2e-6, **{n: 3e-6 + 2e-6 * n for n in LENGTHS[1:]}}
"""By length: what verifying grows by per token of depth."""


def deep(one: Observed, level: float = 1.0) -> Observed:
    more, n = one.n_past - 900, one.round.n_drafted
    times = one.round.times
    chain_s = level * (STEP_S + 1e-6 * more) * n
    second_s = level * (again_s(n) + 5e-7 * (n + 1) * more)
    verified_s = level * (verify_s(n) + GROWTH_S[n] * more)
    changed = replace(times, draft_s=chain_s + second_s, verify_s=verified_s)
    return replace(one, round=replace(one.round, chain_s=chain_s, times=changed))


def test_growth_with_depth_is_found_for_each_length() -> None:
    depths = [100, 400, 900, 1600, 2500]
    costs = fit_costs([deep(one) for one in rounds([1.0] * 5, depths)])
    assert dict(zip(LENGTHS, costs.verify_growth_s, strict=True)) == pytest.approx(GROWTH_S)
    assert costs.off_growth_s == pytest.approx(GROWTH_S[0])
    assert costs.step_growth_s == pytest.approx(1e-6)
    near, far = costs.at(900), costs.at(1900)
    assert near.verify_s == pytest.approx([verify_s(n) for n in LENGTHS])
    assert far.verify_s == pytest.approx([verify_s(n) + 1000 * GROWTH_S[n] for n in LENGTHS])
    assert far.again_s == pytest.approx([again_s(n) + 5e-4 * (n + 1) for n in LENGTHS])
    assert far.step_s == pytest.approx(STEP_S + 1e-3)
    price = costs.prices(4).at(1900)
    assert price.chain[3] == pytest.approx(3 * far.step_s)
    assert price.batch[2] == pytest.approx(far.verify_s[2] + far.again_s[2])
    assert costs.off_seconds(2, 1900.5) == pytest.approx(2 * far.off_s, rel=1e-3)
    # Close depths tell nothing of it.
    costs = fit_costs([deep(one) for one in rounds([1.0] * 3, [600, 700, 800])])
    assert set(costs.verify_growth_s) == {0.0}
    assert costs.step_growth_s == 0.0
    # And it is found through drift.
    levels, depths = [0.9, 1.1, 1.0, 0.95, 1.05, 1.0], [100, 200, 400, 900, 1600, 2500]
    costs = fit_costs([deep(one, levels[one.group]) for one in rounds([1.0] * 6, depths)])
    long_s = costs.at(2000).verify_s[-1]
    assert long_s == pytest.approx(verify_s(16) + 1100 * GROWTH_S[16], rel=0.1)


def test_a_machine_that_stood_still_once_does_not_spoil_the_prediction() -> None:
    calm = fit_costs(rounds([1.0] * 8, [100] * 8))
    stalled, *others = rounds([1.0] * 8, [100] * 8)
    times = replace(stalled.round.times, other_s=10.0)
    stalled = replace(stalled, round=replace(stalled.round, times=times))
    found = fit_costs([stalled, *others])
    assert found.off_s == pytest.approx(calm.off_s, rel=0.02)
    assert found.verify_s == pytest.approx(calm.verify_s, rel=0.02)


def test_costs_never_fall_to_nothing_towards_an_empty_context() -> None:
    def steep(one: Observed) -> Observed:
        times = replace(one.round.times, verify_s=2e-6 * one.n_past**2)
        return replace(one, round=replace(one.round, times=times))

    costs = fit_costs([steep(one) for one in rounds([1.0] * 4, [700, 1200, 1800, 2500])])
    assert min(costs.verify_growth_s) > 0
    assert min(costs.at(0).verify_s) > 0
    assert costs.off_seconds(1, 0) > 0
    assert (costs.prices(4).at(10).batch > 0).all()


@given(seed=st.integers(0, 2**32 - 1), slower=st.sampled_from([1.0, 3.0, 20.0]))
def test_nothing_costs_less_than_nothing_however_unsteady_the_machine(
    seed: int, slower: float
) -> None:
    """Growth is taken from a machine that slowed down when contexts had become deep."""
    dice = random.Random(seed)  # noqa: S311 - a test needs no secrets

    def unsteady(one: Observed) -> Observed:
        busy = slower if one.n_past > 700 and dice.random() < 0.7 else 1.0
        level = busy * math.exp(dice.gauss(0, 0.3))
        times = replace(one.round.times, verify_s=level * one.round.times.verify_s)
        return replace(one, round=replace(one.round, times=times))

    depths = [dice.randrange(1200) for _ in range(5)]
    some = [unsteady(one) for one in rounds([1.0] * 5, depths)]
    costs = fit_costs(some)
    for at in (costs, costs.at(0), costs.at(4000)):
        assert min(*at.verify_s, at.off_s) > 0
        assert min(*at.again_s, at.step_s) >= 0
    assert min(costs.token_s, costs.fixed_s, costs.rollback_s, costs.rollback_token_s) >= 0


def test_a_machine_that_stands_still_in_some_rounds_bends_no_curve() -> None:
    """A fifth of the rounds of each length take up to forty times as long."""

    def stalled(index: int, one: Observed) -> Observed:
        slower = (3.0, 40.0)[index % 2] if index % 5 == 0 else 1.0
        slow = replace(one.round.times, verify_s=slower * one.round.times.verify_s)
        return replace(one, round=replace(one.round, times=slow))

    some = rounds([0.9, 1.0, 1.1], [100] * 3, noise=0.02, n_each=4)
    by_length = sorted(some, key=lambda one: one.round.n_drafted)
    costs = fit_costs([stalled(index, one) for index, one in enumerate(by_length)])
    calm = fit_costs(some)
    assert costs.verify_s == pytest.approx(calm.verify_s, rel=0.05)
    assert costs.off_s == pytest.approx(calm.off_s, rel=0.05)


def test_a_program_that_computes_all_the_time_slows_short_and_long_rounds_alike() -> None:
    """Each delay is as long as two tokens, and comes once in as much work.

    Many tokens meet none, and hardly a long round does, so that medians would favour tokens.
    """
    dice, delay_s = np.random.default_rng(0), 2 * OFF_S

    def delayed(seconds: float) -> float:
        return seconds + delay_s * dice.poisson(seconds / delay_s)

    def beside(one: Observed) -> Observed:
        found, times = one.round, one.round.times
        chain_s = delayed(found.chain_s)
        rest_s = delayed(times.draft_s - found.chain_s)
        slow = replace(times, verify_s=delayed(times.verify_s), draft_s=chain_s + rest_s)
        return replace(one, round=replace(found, times=slow, chain_s=chain_s))

    calm = rounds([1.0] * 40, [100] * 40, noise=0.02)
    costs, expected = fit_costs([beside(one) for one in calm]), fit_costs(calm)

    def speedup(costs: Costs, n: int) -> float:
        price = costs.prices(16).at(100)
        return float(costs.off_s / (price.batch[n] + price.chain[n]))

    assert costs.off_s > 1.5 * expected.off_s
    for n in (2, 4, 8):
        assert speedup(costs, n) == pytest.approx(speedup(expected, n), rel=0.15)


def with_verify(observed: Observed, factor: float) -> Observed:
    times = observed.round.times
    slow = replace(times, verify_s=factor * times.verify_s)
    return replace(observed, round=replace(observed.round, times=slow))


def test_where_rounds_differ_much_the_lengths_support_each_other() -> None:
    """Means of three rounds of a length would be off by a fifth."""

    def worst(seed: int) -> float:
        dice = np.random.default_rng(seed)
        some = rounds([1.0] * 3, [100] * 3, n_each=1)
        costs = fit_costs([with_verify(one, dice.lognormal(0.0, 0.35)) for one in some])
        found = np.array(costs.verify_s) / costs.verify_s[0]
        expected = np.array([verify_s(n) / verify_s(0) for n in LENGTHS])
        return float(np.abs(np.log(found / expected)).mean())

    assert np.median([worst(seed) for seed in range(40)]) < 0.12


def test_on_a_quiet_machine_a_step_between_two_lengths_stays_a_step() -> None:
    def stepped(n: int) -> float:
        return 1.7 if n > 4 else 1.0

    some = rounds([1.0] * 4, [100] * 4, noise=0.02)
    costs = fit_costs([with_verify(one, stepped(one.round.n_drafted)) for one in some])
    expected = [stepped(n) * verify_s(n) for n in LENGTHS]
    assert costs.verify_s == pytest.approx(expected, rel=0.03)


def test_prices_reach_between_and_beyond_what_was_measured() -> None:
    price = fit_costs(rounds([1.0] * 3, [100] * 3)).prices(20).at(100)
    expected = [verify_s(n) + again_s(n) for n in range(21)]
    assert price.batch.tolist() == pytest.approx(expected)
    assert price.chain.tolist() == pytest.approx([STEP_S * n for n in range(21)])


def test_the_target_alone_costs_less_than_a_round_behind_a_draft() -> None:
    """Behind a batch of another size llama.cpp builds its graph anew."""

    def rebuilt(one: Observed) -> Observed:
        times = replace(one.round.times, verify_s=one.round.times.verify_s + 0.004)
        return one if one.is_repeat else replace(one, round=replace(one.round, times=times))

    costs = fit_costs([rebuilt(one) for one in rounds([1.0] * 5, [100] * 5)])
    assert costs.off_s == pytest.approx(OFF_S)
    assert costs.verify_s == pytest.approx([verify_s(n) + 0.004 for n in LENGTHS])


def test_rounds_with_and_without_drafted_tokens_are_needed() -> None:
    with pytest.raises(ValueError, match="no two rounds in a row drafted nothing"):
        fit_costs([observed(2, group=0, n_past=5)])
    with pytest.raises(ValueError, match="no round drafted anything"):
        fit_costs([observed(0, group=0, n_past=5)])


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.5, 9)), min_size=1, max_size=12))
def test_rising_never_falls_and_keeps_the_mean(pairs: list[tuple[float, float]]) -> None:
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    found = rising(values, weights)
    assert (np.diff(found) >= -1e-12).all()
    assert np.dot(found, weights) == pytest.approx(np.dot(values, weights))
    if (np.diff(values) >= 0).all():
        assert found.tolist() == pytest.approx(values.tolist())


def test_what_is_the_targets_is_pooled_over_the_drafts() -> None:
    # The second draft was measured when the machine was half as fast.
    first, second = rounds([1.0] * 5, [100] * 5), rounds([2.0] * 5, [100] * 5)
    one, two = fit_costs(first, [second]), fit_costs(second, [first])
    for name in ("verify_s", "again_s", "step_s", "off_s"):
        # Sampling was as fast as ever in both, which the level of a half cannot know.
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=0.02), name
    # As if it had been all the time as fast as in the median.
    assert one.verify_s[3] / one.off_s == pytest.approx(verify_s(4) / OFF_S, rel=0.02)


def test_a_draft_may_have_been_measured_at_fewer_lengths() -> None:
    whole = rounds([1.0] * 3, [100] * 3)
    short = [one for one in rounds([1.0] * 3, [100] * 3) if one.round.n_drafted <= 4]
    costs = fit_costs(short, [whole])
    assert costs.lengths == LENGTHS
    assert costs.again_s == pytest.approx([again_s(n) for n in LENGTHS])
