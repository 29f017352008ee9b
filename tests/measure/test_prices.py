"""Robust prices: counts stay exact, and what disturbs the machine does not decide."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.events import Segment
from spectui.measure.prices import SteadySeconds, steady_seconds
from tests.support.timed import timed_round

OFF_S = 0.05


def true_price(n_drafted: int, *, is_redone: bool = False) -> float:
    return OFF_S * (1 + 0.25 * n_drafted + 0.6 * is_redone)


class Machine:
    """Runs work in time that other programs take a part of."""

    def __init__(
        self, rng: np.random.Generator, *, noise: float, busy: float, delays: float = 0.0
    ) -> None:
        """Begin quiet.

        Args:
            rng: chance.
            noise: standard deviation of the logarithm of what the same work takes.
            busy: factor of what it takes in bursts of 0.5 to 3 s, after 1 to 6 s without.
            delays: how often per second it waits for 15 ms.
        """
        self._delays = delays
        self._rng = rng
        self._noise = noise
        self._busy = busy
        self._now_s = 0.0
        self._begins_s = rng.uniform(1, 6)
        self._ends_s = self._begins_s + rng.uniform(0.5, 3)

    def seconds(self, work_s: float) -> float:
        left_s = work_s * self._rng.lognormal(-(self._noise**2) / 2, self._noise)
        began_s = self._now_s
        while left_s > 0:
            step_s = min(left_s, 0.005)
            left_s -= step_s
            is_busy = self._begins_s <= self._now_s < self._ends_s
            self._now_s += step_s * (self._busy if is_busy else 1.0)
            if self._now_s >= self._ends_s:
                self._begins_s = self._now_s + self._rng.uniform(1, 6)
                self._ends_s = self._begins_s + self._rng.uniform(0.5, 3)
        took_s = self._now_s - began_s
        return took_s + 0.015 * self._rng.poisson(self._delays * took_s)


def answer(machine: Machine, rng: np.random.Generator, *, redoes: bool = False) -> list[Segment]:
    """About 64 tokens in segments of half a second; drafts of up to 6 tokens."""
    found = []
    for number in range(16 if redoes else 8):
        rounds = []
        drafts = [int(rng.integers(0, 7)) for _ in range(4)]
        accepted = [int(rng.integers(0, n + 1)) for n in drafts]
        n_tokens = sum(accepted) + len(accepted)

        def alone(n: int = n_tokens) -> tuple[float, ...]:
            return tuple(machine.seconds(OFF_S) for _ in range(n))

        before = alone() if number % 2 else None
        for n, n_accepted in zip(drafts, accepted, strict=True):
            is_redone = redoes and n_accepted < n
            price = true_price(n, is_redone=is_redone)
            seconds = machine.seconds(price)
            rounds.append(timed_round(n, n_accepted + 1, seconds, is_redone=is_redone))
        found.append(Segment(baseline_s=before or alone(), rounds=tuple(rounds)))
    return found


def speedup(found: Sequence[SteadySeconds]) -> float:
    return sum(one.baseline_s for one in found) / sum(one.speculative_s for one in found)


def exact(answers: Sequence[Sequence[Segment]]) -> float:
    """Speedup by the counts and the true prices."""
    segments = [one for found in answers for one in found]
    on_s = sum(
        true_price(one.n_drafted, is_redone=one.is_redone)
        for part in segments
        for one in part.rounds
    )
    return OFF_S * sum(part.n_tokens for part in segments) / on_s


def measured(
    seed: int, *, busy: float, delays: float = 0.0, redoes: bool = False
) -> tuple[float, float]:
    """Error of the steady seconds' speedup, and of the stopwatch's, as logarithms."""
    rng = np.random.default_rng(seed)
    machine = Machine(rng, noise=0.03, busy=busy, delays=delays)
    answers = [answer(machine, rng, redoes=redoes) for _ in range(16)]
    true = exact(answers)
    steady = speedup(steady_seconds(answers))
    segments = [one for found in answers for one in found]
    on_s = sum(one.times.total_s for part in segments for one in part.rounds)
    raw = sum(one.baseline_decode_s for one in segments) / on_s
    return math.log(steady / true), math.log(raw / true)


@pytest.mark.parametrize("redoes", [False, True])
def test_a_quiet_machine_is_taken_as_it_is(*, redoes: bool) -> None:
    errors = [measured(seed, busy=1.0, redoes=redoes) for seed in range(10)]
    assert max(abs(steady) for steady, _raw in errors) < 0.01
    assert max(abs(steady - raw) for steady, raw in errors) < 0.005


def test_short_delays_favour_nobody() -> None:
    """They stand out more from a token than from a round."""
    errors = [measured(seed, busy=1.0, delays=4.0)[0] for seed in range(12)]
    assert abs(np.mean(errors)) < 0.01


@pytest.mark.parametrize("redoes", [False, True])
@pytest.mark.parametrize("busy", [1.5, 3.0, 10.0])
def test_bursts_do_not_decide(busy: float, *, redoes: bool) -> None:
    errors = np.array([measured(seed, busy=busy, redoes=redoes) for seed in range(12)])
    steady, raw = np.sqrt((errors**2).mean(axis=0))
    assert steady < 0.015
    assert steady < raw / 3
    assert abs(errors[:, 0].mean()) < 0.01


def part(off_s: float, *rounds: tuple[int, float], n_off: int = 5) -> Segment:
    return Segment(
        baseline_s=(off_s,) * n_off,
        rounds=tuple(timed_round(n, n + 1, seconds) for n, seconds in rounds),
    )


def test_equal_times_are_added_up_and_slow_ones_cost_what_is_usual() -> None:
    usual = part(0.1, (2, 0.2), (4, 0.3))
    found = steady_seconds([[usual] * 5, [usual] * 3])
    assert [one.baseline_s for one in found] == pytest.approx([0.1 * 8 * 5, 0.1 * 8 * 3])
    assert [one.speculative_s for one in found] == pytest.approx([0.5 * 5, 0.5 * 3])
    (slow,) = steady_seconds([[*[usual] * 9, part(0.1, (2, 2.0), (4, 0.3))]])
    assert slow.speculative_s == pytest.approx(5.0, rel=0.002)
    # A segment in which all is slow weighs no more than others.
    (alike,) = steady_seconds([[part(0.1, (2, 0.2))] * 9 + [part(0.7, (2, 1.4))]])
    assert (alike.baseline_s, alike.speculative_s) == pytest.approx((0.1 * 30, 0.2 * 10))


def test_rounds_of_a_rare_kind_cost_about_what_their_neighbours_let_expect() -> None:
    usual = [part(0.1, (2, 0.2), (4, 0.3), (6, 0.4))] * 10
    rare = [part(0.1, (2, 0.2), (8, 0.5)), part(0.1, (2, 0.2), (5, 5.0))]
    found = steady_seconds([usual, rare])[1]
    # The first is taken as it is; the second may cost half as much again as the line says.
    assert found.speculative_s == pytest.approx(0.2 + 0.5 + 0.2 + 0.35 * 1.5, rel=0.02)


@given(
    factors=st.lists(st.floats(0.1, 10.0), min_size=1, max_size=8),
    n_drafted=st.integers(0, 16),
    price=st.floats(0.01, 1.0),
)
def test_what_slows_both_sides_of_a_segment_alike_changes_nothing(
    factors: list[float], n_drafted: int, price: float
) -> None:
    segments = [part(0.1 * factor, (n_drafted, price * factor)) for factor in factors]
    found = steady_seconds([segments])
    assert speedup(found) == pytest.approx(0.1 * (n_drafted + 1) / price, rel=1e-6)
