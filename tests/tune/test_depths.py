"""Depths: what is measured behind longer prompts, with what time, and what follows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.documents import Known
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.statistics import paired_ratio, paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.request import RequestShape
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.depths import Depth, DepthRuns, Depths, deep_speedup, raced_requests, raced_times
from spectui.tune.division import divide
from spectui.tune.events import RunsStarted, TuneEvent
from spectui.tune.pace import Pace
from spectui.tune.race import Standing
from spectui.tune.setup import Limits, SearchSetup
from tests.support.search import known, result

LEADER = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))
NGRAM = Arm(draft=None, speculation=Speculation(NgramSimple()))
READ_TOKEN_S = 0.01
DRAFT_TOKEN_S = 0.005
N_PROMPTS = 8
LENGTH = 100
HALVED_AT = 4000
"""Tokens of a prompt at which speculation has lost half of its speed."""


def items(n: int = N_PROMPTS) -> tuple[WorkItem, ...]:
    return tuple(
        WorkItem(id=f"p{i}", category="c", tokens=tuple(range(1000 * i, 1000 * i + LENGTH)))
        for i in range(n)
    )


def off_result(item: WorkItem) -> GenerationResult:
    n = len(item.tokens)
    seconds = READ_TOKEN_S * n
    return replace(
        result(10 / (1 + n / 8000)),
        n_prompt_tokens=n,
        prompt_s=seconds,
        n_evaluated=n,
        prompt_draft_s=0.0,
        n_read=0,
    )


def gain_of(item: WorkItem) -> float:
    """Prompts differ, and all gain less the deeper they are."""
    own = 1.5 + 0.05 * (int(item.id[1:]) % 4)
    return own / (1 + len(item.tokens) / HALVED_AT)


def pair_of(item: WorkItem, *, reads: bool = True) -> Pair:
    n, off = len(item.tokens), off_result(item)
    draft_s = DRAFT_TOKEN_S * n if reads else 0.0
    on = replace(
        result((off.tokens_per_s or 0.0) * gain_of(item), drafted=48),
        n_prompt_tokens=n,
        prompt_s=off.prompt_s + draft_s,
        n_evaluated=n,
        prompt_draft_s=draft_s,
        n_read=n if reads else 0,
    )
    return Pair(item=item, baseline=off, speculative=on)


class DeepMeasurer:
    """Has what depths use of a measurer; the clock goes on with what is measured."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.prompt_token_s = READ_TOKEN_S + DRAFT_TOKEN_S
        self.n_beside_off: int | None = None
        self.measured: list[tuple[int, int]] = []
        self.interrupt_at: int | None = None

    def pairs(self, some: Sequence[WorkItem], _speculation: Speculation | None) -> Iterator[Pair]:
        self.measured.append((len(some[0].tokens), len(some)))
        for item in some:
            if len(item.tokens) == self.interrupt_at:
                raise KeyboardInterrupt
            pair = pair_of(item)
            runs = (pair.baseline, pair.speculative)
            self.now_s += pair.speculative.prompt_s + sum(run.decode_s for run in runs)
            yield pair


class Loads:
    def __init__(self) -> None:
        self.loaded: list[str | None] = []

    def load(self, draft: str | None) -> None:
        self.loaded.append(draft)


def standing(arm: Arm = LEADER) -> Standing:
    pairs = tuple(pair_of(item, reads=arm.draft is not None) for item in items())
    measured = [one for pair in pairs if (one := pair.measurement) is not None]
    return Standing(arm=arm, speedup=paired_speedup(measured), n_pairs=len(pairs), pairs=pairs)


class Ground:
    """Depths over a scripted measurer."""

    def __init__(
        self,
        *depths: int,
        requests: tuple[RequestShape, ...] = (),
        budget_s: float | None = None,
    ) -> None:
        self.measurer = DeepMeasurer()
        self.loads = Loads()
        self.events: list[TuneEvent] = []
        self.decoded: list[str] = []
        workload = Workload(items=items(), n_predict=33, sampling=SamplingConfig(temp=0))
        unused: Any = None
        setup = SearchSetup(
            engine=unused,
            study=unused,
            workload=workload,
            division=divide(workload, 4),
            n_ctx=100_000,
            measurer=cast("Measurer", self.measurer),
            loader=cast("Any", self.loads),
            limits=Limits(time_budget_s=budget_s),
            min_gain=0.02,
            on_event=self.events.append,
            depths=depths,
            requests=requests,
        )
        self.pace = Pace(budget_s, lambda: self.measurer.now_s, setup.measurer, ())
        self.runs = DepthRuns(setup, self.pace, lambda item, _result: self.decoded.append(item.id))

    def run(self, leader: Standing | None = None) -> Depths:
        self.runs.run(leader or standing())
        return self.runs.conclude()


def test_the_leader_is_measured_behind_longer_prompts() -> None:
    ground = Ground(0, 400, 2000)
    found = ground.run().found
    assert [one.n_tokens for one in found] == [0, 400, 2000]
    assert ground.measurer.measured == [(400, 4), (2000, 4)]
    assert ground.loads.loaded == ["good", "good"]
    assert ground.decoded == ["p0", "p1", "p2", "p3"] * 2
    started = [one for one in ground.events if isinstance(one, RunsStarted)]
    assert [one.n_runs for one in started] == [4, 4]
    for event, n_tokens in zip(started, ("400", "2,000"), strict=True):
        assert event.text.endswith(f"on 4 prompts of {n_tokens} tokens")
    for one, n in zip(found[1:], (400, 2000), strict=True):
        race = found[0].speedup
        factor = (1 + LENGTH / HALVED_AT) / (1 + n / HALVED_AT)
        # Four prompts, of which two gain less than most: the race's gain changes, not theirs.
        assert one.speedup.estimate == pytest.approx(race.estimate * factor, rel=1e-3)
        assert one.token_s == pytest.approx(0.1 * (1 + n / 8000))
        assert one.counters.acceptance_rate == 0.5
        prompts = known(one.prompts.value)
        assert prompts.off.seconds(n) == pytest.approx(READ_TOKEN_S * n)
        assert prompts.on_s(n) == pytest.approx((READ_TOKEN_S + DRAFT_TOKEN_S) * n)


def test_the_end_of_each_prompt_stays() -> None:
    later = tuple(replace(item, n_prefix=LENGTH // 2) for item in items())
    leader = replace(standing(), pairs=tuple(map(pair_of, later)))
    own = {item.id: item.tokens for item in items()}
    for n_tokens in (LENGTH // 4, 250):
        *_, deep = sorted(Ground(n_tokens).run(leader).found, key=lambda one: bool(one.n_tokens))
        assert {pair.item.n_prefix for pair in deep.pairs} == {0}
    for pair in deep.pairs:
        assert len(pair.item.tokens) == 250
        assert pair.item.tokens[-LENGTH + 1 :] == own[pair.item.id][1:]
    # Text that repeats is told.
    (_, fits, repeats) = Ground(N_PROMPTS * LENGTH, N_PROMPTS * LENGTH + 1).run().found
    assert (fits.repeats_text, repeats.repeats_text) == (False, True)


@pytest.mark.parametrize("is_asked", [False, True])
def test_nothing_is_measured_unless_asked_for_and_confirmed(*, is_asked: bool) -> None:
    ground = Ground(*[400] * is_asked, requests=(RequestShape(n_prompt=125, n_answer=33),))
    leader = replace(standing(), speedup=None) if is_asked else standing()
    assert ground.run(leader) == Depths(min_gain=0.02)
    assert ground.measurer.measured == []


@pytest.mark.parametrize(
    ("budget_s", "measured", "left_out"),
    [
        (1000.0, [(400, 4), (4000, 4)], ()),
        (280.0, [(400, 4), (4000, 3)], ()),
        (40.0, [(400, 3)], (4000,)),
        (5.0, [], (400, 4000)),
    ],
)
def test_depths_keep_within_the_time(
    budget_s: float, measured: list[tuple[int, int]], left_out: tuple[int, ...]
) -> None:
    ground = Ground(400, 4000, budget_s=budget_s)
    found = ground.run()
    assert ground.measurer.measured == measured
    assert found.left_out == left_out


@pytest.mark.parametrize(
    ("depths", "n_beside_off", "kept_s"),
    [
        ((400,), None, 3 * (400 * 0.015 + 5)),
        # Servers evaluate a deep prompt twice.
        ((400,), 1, 3 * (2 * 400 * 0.015 + 5)),
        # No time is kept for what does not fit, nor more than a third.
        ((400, 30_000), None, 3 * (400 * 0.015 + 5)),
        ((1000, 2000), None, 3 * (1000 * 0.015 + 5)),
    ],
)
def test_the_race_leaves_time_for_three_prompts_of_each_depth(
    depths: tuple[int, ...], n_beside_off: int | None, kept_s: float
) -> None:
    ground = Ground(*depths, budget_s=300.0)
    ground.measurer.n_beside_off = n_beside_off
    ground.runs.reserve(5.0)
    assert ground.pace.left_s == pytest.approx(300 - kept_s)
    endless = Ground(*depths)
    endless.runs.reserve(5.0)
    assert endless.pace.left_s == float("inf")


def test_the_clock_ends_a_depth_whose_prompts_take_longer_than_thought() -> None:
    ground = Ground(2000, budget_s=90.0)
    ground.measurer.prompt_token_s = 0.003
    (_, deep) = ground.run().found
    assert ground.measurer.measured == [(2000, 4)]
    assert ground.decoded == ["p0", "p1"]
    assert len(deep.pairs) == 2
    assert deep.speedup.interval_reason is not None
    assert ground.pace.left_s > 0


def test_an_interrupt_leaves_what_was_measured() -> None:
    ground = Ground(400, 2000)
    ground.measurer.interrupt_at = 2000
    with pytest.raises(KeyboardInterrupt):
        ground.run()
    assert [one.n_tokens for one in ground.runs.conclude().found] == [0, 400]


def depth(n_tokens: int, estimate: float) -> Depth:
    found = Speedup(estimate=estimate, low=None, high=None, n_pairs=4, n_prompts=4)
    pairs = (pair_of(items()[0]),)
    return Depth(n_tokens=n_tokens, pairs=pairs, speedup=found, prompts=Known(None, "unknown"))


def limit(*gains: tuple[int, float]) -> int | None:
    return Depths(found=tuple(depth(n, gain) for n, gain in gains), min_gain=0.02).limit


@pytest.mark.parametrize(
    ("gains", "found"),
    [
        (((0, 1.32), (4096, 1.12), (16384, 0.92)), round(4096 + 0.5 * 12288)),
        (((0, 1.3), (4096, 1.2)), None),
        (((0, 1.0), (4096, 0.9)), None),
        (((0, 0.9), (4096, 1.1)), None),
        ((), None),
        # The prompts of the race stand at their length.
        (((0, 1.12), (LENGTH + 200, 0.92)), LENGTH + 100),
    ],
)
def test_between_two_depths_it_stops_paying(
    gains: tuple[tuple[int, float], ...], found: int | None
) -> None:
    assert limit(*gains) == found


def test_documents_list_depths_in_order_and_have_no_limit_where_all_pay() -> None:
    document = Ground(0, LENGTH // 2, 400).run().document()
    assert [one["depth"] for one in document["depths"]] == [LENGTH // 2, 0, 400]
    assert document["depth_limit"] is None
    assert document["depths_left_out"] == []
    times = {"off": pytest.approx(4.0), "on": pytest.approx(6.0)}
    assert document["depths"][2]["prompt_s"] == times


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=6))
def test_the_limit_lies_between_a_depth_that_pays_and_one_that_does_not(gains: list[float]) -> None:
    told = [(1000 * n, gain) for n, gain in enumerate(gains, 1)]
    found = limit(*told)
    crossings = [n for (n, high), (_, low) in pairwise(told) if high >= 1.02 > low]
    assert (found is None) is not bool(crossings)
    if found is not None:
        assert crossings[0] <= found <= crossings[0] + 1000


def test_a_long_request_rests_on_its_depth() -> None:
    near, far = (RequestShape(n_prompt=n, n_answer=201) for n in (LENGTH, 800))
    ground = Ground(requests=(near, far))
    depths = ground.run()
    assert ground.measurer.measured == [(800, 4)]
    found = raced_requests(standing(), (near, far), depths).value
    assert found is not None
    assert [one.is_covered for one in found] == [True, True]
    assert found[0].decoding == standing().speedup
    assert found[1].decoding == depths.found[0].speedup
    assert found[1].token_s == pytest.approx(0.1 * 1.1)
    assert found[1].prompt_on_s == pytest.approx(800 * 0.015)


def test_a_depth_whose_prompts_were_known_still_tells_of_decoding() -> None:
    far = RequestShape(n_prompt=2000, n_answer=201)
    depths = Ground(requests=(far,)).run()
    (deep,) = depths.found
    unread = replace(depths, found=(replace(deep, prompts=Known(None, "nothing new")),))
    (found,) = known(raced_requests(standing(), (far,), unread).value)
    assert found.decoding == deep.speedup
    assert found.token_s == pytest.approx(0.1 * 1.25)
    # Without its depth a request is extrapolated, and without a race there is none.
    (alone,) = known(raced_requests(standing(), (far,), Depths()).value)
    for one in (found, alone):
        assert one.prompt_on_s == pytest.approx(2000 * 0.015, rel=1e-3)
        assert not one.is_covered
    unconfirmed = replace(standing(), speedup=None)
    assert raced_requests(unconfirmed, (far,), Depths()).value is None


def test_text_that_repeats_shows_no_gain_of_a_request() -> None:
    far = RequestShape(n_prompt=2000, n_answer=201)
    depths = Ground(requests=(far,)).run()
    (deep,) = depths.found
    assert deep.repeats_text
    race = known(standing().speedup)
    for speedup, kept in ((deep.speedup, deep.speedup), (replace(race, estimate=9.0), race)):
        told = replace(depths, found=(replace(deep, speedup=speedup),))
        (found,) = known(raced_requests(standing(), (far,), told).value)
        assert found.decoding == kept
        assert not found.is_covered


def test_ngram_drafters_read_no_prompt() -> None:
    times = known(raced_times(standing(NGRAM)).value)
    assert times.on_s(100) == times.off.seconds(100)


def measured(
    gains: Sequence[float], *, tokens: int = 32, n_accepted: int | None = None
) -> list[PairedMeasurement]:
    """A prompt for each gain."""
    return [
        PairedMeasurement(
            prompt_id=f"p{n}",
            category="c",
            baseline_s=1.0,
            baseline_tokens=tokens,
            speculative_s=1 / gain,
            speculative_tokens=tokens,
            n_accepted=n_accepted,
        )
        for n, gain in enumerate(gains)
    ]


def raced(low: float = 1.1, high: float = 1.3, ceiling: float | None = None) -> Speedup:
    return Speedup(
        estimate=1.2, low=low, high=high, n_pairs=16, n_prompts=16, ceiling=ceiling, n_looks=2
    )


@given(
    st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)), min_size=3, max_size=4),
    st.floats(1.0, 1.2),
    st.floats(1.2, 1.5),
)
def test_an_interval_at_depth_is_no_narrower_than_the_races(
    gains: list[tuple[float, float]], low: float, high: float
) -> None:
    deep, own = (measured(each) for each in zip(*gains, strict=True))
    race = raced(low, high)
    found = deep_speedup(race, deep, own)
    assert found.estimate == pytest.approx(1.2 * paired_ratio(deep, own).estimate)
    assert known(found.interval)[0] <= found.estimate * low / 1.2 + 1e-9
    assert known(found.interval)[1] >= found.estimate * high / 1.2 - 1e-9
    assert (found.n_prompts, found.n_looks) == (len(gains), 2)


def test_prompts_that_change_otherwise_widen_the_interval() -> None:
    """Four equal baselines: the log of the factor follows from the sum of seconds."""
    alike = deep_speedup(raced(), measured([1.0, 0.8, 0.6]), measured([1.5, 1.2, 0.9]))
    assert alike.interval == pytest.approx((1.1 * 2 / 3, 1.3 * 2 / 3))
    factors = (0.7, 0.9, 1.1, 1.3)
    found = deep_speedup(raced(), measured(factors), measured([1.0] * 4))
    seconds = [1 / one for one in factors]
    logs = [math.log(3 / (sum(seconds) - one)) for one in seconds]
    error = 3.182 * math.sqrt(3 / 4 * sum((one - sum(logs) / 4) ** 2 for one in logs))
    low, _high = known(found.interval)
    wide = math.hypot(math.log(1.2 / 1.1), error)
    assert low == pytest.approx(found.estimate * math.exp(-wide), rel=1e-3)
    assert low < 0.7 * found.estimate


def test_an_interval_at_depth_needs_three_prompts_and_one_of_the_race() -> None:
    few = deep_speedup(raced(), measured([1.0, 0.9, 1.0]), measured([1.2, 1.2]))
    told = "an interval needs at least 3 timed prompts, measured: 2"
    assert (few.interval, few.interval_reason) == (None, told)
    race = replace(raced(), low=None, high=None, interval_reason="too few")
    found = deep_speedup(race, measured([1.0] * 4), measured([1.2] * 4))
    assert (found.interval, found.interval_reason) == (None, "too few")


def test_what_can_be_at_depth_follows_from_what_was_accepted_there() -> None:
    own, deep = measured([1.2] * 3, n_accepted=8), measured([1.8] * 3, n_accepted=16)
    found = deep_speedup(raced(ceiling=1.3), deep, own)
    assert found.estimate == pytest.approx(1.8)
    assert found.ceiling == pytest.approx(1.3 * 2 / (32 / 24))
    assert not found.is_noise
    impossible = deep_speedup(raced(ceiling=1.3), measured([1.8] * 3, n_accepted=8), own)
    assert impossible.is_noise
    assert deep_speedup(raced(ceiling=1.3), measured([1.8] * 3), own).ceiling is None
