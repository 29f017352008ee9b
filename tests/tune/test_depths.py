"""Depths: requests whose prompts are measured, with what time, and what follows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from spectui.documents import Known
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer, Pair
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import DraftSimple, NgramSimple
from spectui.options.request import RequestShape
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.tune.depths import Depth, DepthRuns
from spectui.tune.pace import Pace
from spectui.tune.progress import PhaseStarted, StepDone, TuneEvent
from spectui.tune.race import Standing
from spectui.tune.setup import Limits, SearchSetup
from tests.support.search import NoModels, known, result

LEADER = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))
NGRAM = Arm(draft=None, speculation=Speculation(NgramSimple()))
READ_TOKEN_S = 0.01
DRAFT_TOKEN_S = 0.005
N_PROMPTS = 8
"""Prompts of the race."""
N_TEXTS = 48
"""All prompts."""
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
    return Standing(arm=arm, speedup=paired_speedup(measured), pairs=pairs)


class Ground:
    """Depths of requests over a scripted measurer."""

    def __init__(self, *lengths: int, budget_s: float | None = None) -> None:
        self.measurer = DeepMeasurer()
        self.loads = Loads()
        self.events: list[TuneEvent] = []
        self.decoded: list[str] = []
        workload = Workload(items=items(N_TEXTS), n_predict=33, sampling=SamplingConfig(temp=0))
        unused: Any = None
        setup = SearchSetup(
            engine=cast("Any", NoModels()),
            study=unused,
            workload=workload,
            measurer=cast("Measurer", self.measurer),
            loader=cast("Any", self.loads),
            limits=Limits(time_budget_s=budget_s),
            on_event=self._hear,
            requests=tuple(map(shape, lengths)),
        )
        self.pace = Pace(setup, lambda: self.measurer.now_s)
        self.runs = DepthRuns(self.pace)

    def _hear(self, event: TuneEvent) -> None:
        self.events.append(event)
        if isinstance(event, StepDone):
            self.decoded.append(event.text.partition(":")[0])

    def run(self, leader: Standing | None = None) -> dict[int, Depth]:
        self.runs.run(leader or standing())
        return self.runs.found


def shape(n_prompt: int) -> RequestShape:
    return RequestShape(n_prompt=n_prompt, n_answer=33)


def test_the_leader_is_measured_behind_prompts_as_long_as_those_of_requests() -> None:
    ground = Ground(LENGTH, 400, 2000)
    found = ground.run()
    assert list(found) == [400, 2000]
    assert ground.measurer.measured == [(400, 4), (2000, 4)]
    assert ground.loads.loaded == ["good", "good"]
    assert ground.decoded == ["p0", "p1", "p2", "p3"] * 2
    started = [one for one in ground.events if isinstance(one, PhaseStarted)]
    assert [one.n_steps for one in started] == [4, 4]
    for event, n_tokens in zip(started, ("400", "2,000"), strict=True):
        assert event.text.endswith(f"on 4 prompts of {n_tokens} tokens")
    race = known(standing().speedup)
    for n, one in found.items():
        factor = (1 + LENGTH / HALVED_AT) / (1 + n / HALVED_AT)
        # Four prompts, of which two gain less than most: the race's gain changes, not theirs.
        assert one.speedup.estimate == pytest.approx(race.estimate * factor, rel=1e-3)
        assert one.speedup.n_prompts == 4
        prompts = known(one.prompts.value)
        assert prompts.off.seconds(n) == pytest.approx(READ_TOKEN_S * n)
        assert prompts.on_s(n) == pytest.approx((READ_TOKEN_S + DRAFT_TOKEN_S) * n)


def test_the_end_of_each_prompt_stays() -> None:
    own = {item.id: item.tokens for item in items()}
    (deep,) = Ground(250).run().values()
    for pair in deep.pairs:
        assert len(pair.item.tokens) == 250
        assert pair.item.tokens[-LENGTH + 1 :] == own[pair.item.id][1:]


@pytest.mark.parametrize("n_tokens", [125, N_TEXTS * LENGTH + 1])
def test_nothing_is_measured_for_prompts_that_are_known_or_longer_than_all_text(
    n_tokens: int,
) -> None:
    ground = Ground(n_tokens)
    assert ground.run() == {}
    assert ground.measurer.measured == []


def test_nothing_is_measured_without_a_race() -> None:
    ground = Ground(400)
    assert ground.run(replace(standing(), speedup=None)) == {}
    assert ground.measurer.measured == []


@pytest.mark.parametrize(
    ("budget_s", "measured"),
    [
        (1000.0, [(400, 4), (4000, 4)]),
        (280.0, [(400, 4), (4000, 3)]),
        (40.0, [(400, 3)]),
        (5.0, []),
    ],
)
def test_depths_keep_within_the_time(budget_s: float, measured: list[tuple[int, int]]) -> None:
    ground = Ground(400, 4000, budget_s=budget_s)
    ground.run()
    assert ground.measurer.measured == measured


@pytest.mark.parametrize(
    ("lengths", "n_beside_off", "kept_s"),
    [
        ((400,), None, 3 * (400 * 0.015 + 5)),
        # Servers evaluate a deep prompt twice.
        ((400,), 1, 3 * (2 * 400 * 0.015 + 5)),
        # No time is kept for what does not fit, nor more than a third.
        ((400, 4000), None, 3 * (400 * 0.015 + 5)),
        ((1000, 2000), None, 3 * (1000 * 0.015 + 5)),
    ],
)
def test_the_race_leaves_time_for_three_prompts_of_each_depth(
    lengths: tuple[int, ...], n_beside_off: int | None, kept_s: float
) -> None:
    ground = Ground(*lengths, budget_s=300.0)
    ground.measurer.n_beside_off = n_beside_off
    ground.runs.reserve(5.0)
    assert ground.pace.left_s == pytest.approx(300 - kept_s)
    endless = Ground(*lengths)
    endless.runs.reserve(5.0)
    assert endless.pace.left_s == float("inf")


def test_the_clock_ends_a_depth_whose_prompts_take_longer_than_thought() -> None:
    ground = Ground(2000, budget_s=90.0)
    ground.measurer.prompt_token_s = 0.003
    (deep,) = ground.run().values()
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
    assert list(ground.runs.found) == [400]


def test_a_long_request_rests_on_its_depth() -> None:
    ground = Ground(LENGTH, 800)
    depths = ground.run()
    found = known(ground.runs.requests(standing()).value)
    assert [one.beyond for one in found] == [(), ()]
    assert found[0].decoding == standing().speedup
    assert found[1].decoding == depths[800].speedup
    assert found[1].token_s == pytest.approx(0.1 * 1.1)
    assert found[1].prompt_on_s == pytest.approx(800 * 0.015)


def test_a_longer_request_rests_on_the_deepest_depth() -> None:
    ground = Ground(800, 1600)
    depths = ground.run()
    ground.runs.setup = replace(ground.runs.setup, requests=(shape(1000), shape(4000)))
    covered, beyond = known(ground.runs.requests(standing()).value)
    assert (covered.beyond, beyond.beyond) == ((), ("prompt",))
    assert covered.decoding == depths[800].speedup
    assert beyond.decoding == depths[1600].speedup
    assert beyond.token_s == pytest.approx(0.1 * 1.2)
    assert beyond.prompt_off_s == pytest.approx(40)


def test_an_answer_longer_than_all_that_were_measured_is_extrapolated() -> None:
    runs = Ground(LENGTH).runs
    longest = runs.setup.workload.n_predict
    runs.setup = replace(
        runs.setup,
        requests=(
            replace(shape(LENGTH), n_answer=longest),
            replace(shape(10 * LENGTH), n_answer=2 * longest),
        ),
    )
    same, longer = known(runs.requests(standing()).value)
    assert same.beyond == ()
    assert longer.beyond == ("prompt", "answer")
    assert "no prompt or answer was as long" in longer.summary


def test_a_depth_whose_prompts_were_known_still_tells_of_decoding() -> None:
    ground = Ground(2000)
    deep = ground.run()[2000]
    pairs = tuple(
        replace(
            pair,
            baseline=replace(pair.baseline, n_evaluated=0),
            speculative=replace(pair.speculative, n_evaluated=0, n_read=0),
        )
        for pair in deep.pairs
    )
    ground.runs.found[2000] = replace(deep, pairs=pairs, prompts=Known(None, "nothing new"))
    (found,) = known(ground.runs.requests(standing()).value)
    assert found.decoding == deep.speedup
    assert found.token_s == pytest.approx(0.1 * 1.25)
    # Without its depth a request is extrapolated, and without a race there is none.
    runs = Ground(2000).runs
    (alone,) = known(runs.requests(standing()).value)
    for one in (found, alone):
        assert one.prompt_on_s == pytest.approx(2000 * 0.015, rel=1e-3)
        assert one.beyond == ("prompt",)
    unconfirmed = replace(standing(), speedup=None)
    assert runs.requests(unconfirmed).value is None


def test_ngram_drafters_read_no_prompt() -> None:
    (found,) = known(Ground(LENGTH).runs.requests(standing(NGRAM)).value)
    assert found.prompt_on_s == found.prompt_off_s
