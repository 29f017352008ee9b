"""Where the target runs fastest by itself, on an engine whose speeds follow a formula."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.engine.commands import Generate, LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError, DoesNotFitError, EngineDiedError
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import product
from spectui.measure.workload import Workload
from spectui.options.request import RequestShape
from spectui.options.setup import (
    ContextOptions,
    Devices,
    ModelOptions,
    SamplingConfig,
    SplitMode,
    TensorOverride,
)
from spectui.speculative.decoder import Stop
from spectui.tune.places import GIVEN, Knob, Parameter, Placing, Values, knobs_of, moved, text_of
from spectui.tune.placing import PlaceSearch
from spectui.tune.studies.study import TuningStudy
from tests.support.search import items, known, open_study, result
from tests.support.timed import timed_round

pytestmark = pytest.mark.usefixtures("in_memory")

TARGET = ModelOptions(path=Path("target.gguf"))
COMMAND = LoadTarget(options=TARGET, context=ContextOptions(threads=6), max_draft=16)
SHAPE = RequestShape(n_prompt=100, n_answer=100)
Speed = Callable[[LoadTarget], tuple[float, float]]
"""Tokens/s of answers and of prompts in a place."""


def by_threads(place: LoadTarget) -> tuple[float, float]:
    """Answers are fastest with 4 threads, prompts with all 8."""
    context = place.context
    return 10 - abs(context.threads - 4), 20.0 * (context.threads_batch or context.threads)


@dataclass
class Machine:
    """An engine whose target is as fast as its place says."""

    speed: Speed
    noise: float = 0.0
    """Standard deviation of the logarithm of what a run takes."""
    most_experts: int = 99
    """Layers with experts on the GPU that fit."""
    waited_s: float = 0.0
    place: LoadTarget | None = None
    loads: list[LoadTarget] = field(default_factory=list)
    n_runs: int = 0
    dies_at: tuple[int, ...] = ()
    """Runs at which its process ends."""
    cancelled_at: int = 0
    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - no secret

    def load_target(self, command: LoadTarget) -> None:
        assert (command.mtp, command.mtp_file, command.draft) == (False, False, None)
        options, self.place = command.options, command
        self.loads.append(command)
        if 32 - options.n_cpu_moe > self.most_experts and not options.override_tensor:
            raise DoesNotFitError("CUDA0 has no room")

    def generate(self, command: Generate) -> GenerationResult:
        assert command.speculation is None
        assert not command.reuse_prompt
        self.n_runs += 1
        if self.n_runs in self.dies_at:
            raise EngineDiedError("its process was killed")
        answers, prompts = (
            one * math.exp(self.random.gauss(0, self.noise))
            for one in self.speed(known(self.place))
        )
        done = result(answers, n_tokens=command.n_predict)
        rounds = (timed_round(0, 1, 1 / answers),) * (command.n_predict - 1)
        done = replace(done, rounds=rounds)
        stop = Stop.CANCELLED if self.n_runs == self.cancelled_at else Stop.LENGTH
        return replace(done, prompt_s=3 / prompts, stop=stop)


def knobs(
    *tuned: Parameter,
    command: LoadTarget = COMMAND,
    caches_mib: tuple[int, ...] = (),
    **more: int,
) -> tuple[Knob, ...]:
    place = command
    return knobs_of(frozenset(tuned), place, n_processors=8, moe_caches_mib=caches_mib, **more)


THREADS = knobs(Parameter.THREADS, Parameter.THREADS_BATCH)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[TuningStudy]:
    with open_study(tmp_path) as opened:
        yield opened


def run(
    machine: Machine,
    study: TuningStudy,
    found: tuple[Knob, ...] = THREADS,
    *,
    command: LoadTarget = COMMAND,
    n_prompts: int = 12,
    budget_s: float | None = None,
) -> Placing:
    return PlaceSearch(
        cast("Engine", machine),
        command,
        study.places(found),
        workload=Workload(items=items(n_prompts), n_predict=33, sampling=SamplingConfig(temp=0.0)),
        shape=SHAPE,
        min_gain=0.02,
        say=lambda _text: None,
        is_over=lambda: budget_s is not None and machine.n_runs >= budget_s,
    ).run()


def test_each_parameter_is_followed_for_as_long_as_it_gains(study: TuningStudy) -> None:
    machine = Machine(by_threads)
    found = run(machine, study)
    assert found.given == {"threads": 6, "threads_batch": 0}
    assert found.best == {"threads": 4, "threads_batch": 8}
    # 8 and 9 against 10 and 160 tokens/s, in requests of 100 + 100 tokens.
    assert known(found.decoding).estimate == pytest.approx(10 / 8)
    assert known(found.requests).estimate == pytest.approx((100 / 8 + 100 / 120) / (10 + 100 / 160))
    assert (found.given_tokens_per_s, found.best_tokens_per_s) == pytest.approx((8, 10))
    tried = {one.context.threads for one in machine.loads}
    # Neither 1 nor 8: their neighbours were too slow already.
    assert tried == {7, 6, 5, 4, 3}
    assert found.n_tried == len(found.trials) - 1
    # In the end they take turns: the command's, the best, and the command's again.
    assert [one.context.threads for one in machine.loads[-3:]] == [6, 4, 6]
    # Another run of the study tries nothing again.
    later = Machine(by_threads)
    again = run(later, study)
    assert again.best == found.best
    assert len(later.loads) == 3


def test_what_the_clock_alone_says_is_not_taken(tmp_path: Path) -> None:
    taken = 0
    for seed in range(20):
        machine = Machine(lambda _place: (10.0, 100.0), noise=0.05, random=Random(seed))  # noqa: S311 - no secret
        with open_study(tmp_path, name=f"s{seed}") as opened:
            found = run(machine, opened)
        taken += bool(found.best)
        assert (found.requests is None) <= (not found.best)
    # Of places that are all alike, one in forty passes an interval of 95 %.
    assert taken <= 2


def test_few_prompts_are_timed_several_times(study: TuningStudy) -> None:
    found = run(Machine(by_threads), study, n_prompts=1)
    assert found.best == {"threads": 4, "threads_batch": 8}
    assert known(found.requests).low is not None


def test_a_place_without_room_is_passed_over_and_told(study: TuningStudy) -> None:
    def speed(place: LoadTarget) -> tuple[float, float]:
        n_in_ram = 32 if place.options.override_tensor else place.options.n_cpu_moe
        return 10 - n_in_ram / 8, 100.0

    given = TensorOverride(pattern="exps", buffer="CPU")
    command = replace(COMMAND, options=replace(TARGET, override_tensor=(given,)))
    found_knobs = knobs(Parameter.N_CPU_MOE, command=command, least_n_cpu_moe=8, n_layers=32)
    assert [one.values for one in found_knobs] == [(GIVEN, 8, 14, 20, 26, 32)]
    found = run(Machine(speed, most_experts=20), study, found_knobs, command=command)
    # The one that was planned to be the least does not fit; the next one does, and is best.
    assert [one.error for one in found.trials] == [None, "CUDA0 has no room", None, None]
    assert found.best == {"n_cpu_moe": 14}
    place = moved(command, found_knobs, found.best)
    assert place.options == replace(TARGET, n_cpu_moe=14)
    assert text_of(found_knobs, found.given) == "as given"
    assert text_of(found_knobs, found.best) == "--n-cpu-moe 14"


def test_what_ends_a_search_early(study: TuningStudy) -> None:
    with pytest.raises(DoesNotFitError):
        run(Machine(by_threads, most_experts=0), study)
    with pytest.raises(CancelledError):
        run(Machine(by_threads, cancelled_at=5), study)
    # A process that ends is replaced, once for each run.
    assert run(Machine(by_threads, dies_at=(1,)), study, budget_s=4).was_short
    short = study.places(THREADS).trials()
    assert 1 < len(short) < 5
    found = run(Machine(by_threads), study)
    assert not found.was_short
    assert found.trials[: len(short)] == short


def test_values_stand_around_the_commands_own() -> None:
    threads, batch = THREADS
    assert threads.values == (1, 2, 3, 4, 5, 6, 7, 8)
    # As many as -t says stands where that number would.
    assert batch.values == (1, 2, 3, 4, 5, 0, 7, 8)
    assert (threads.own, batch.own) == (6, 0)
    own = replace(COMMAND, context=ContextOptions(threads=24, threads_batch=3, batch_size=600))
    every = knobs(*Parameter, command=own, n_devices=2, least_n_cpu_moe=0, n_layers=2)
    by_name = {one.name: one for one in every}
    assert by_name["threads"].values == (1, 2, 3, 4, 5, 6, 7, 8, 24)
    assert by_name["threads_batch"].values == (1, 2, 3, 4, 5, 6, 7, 8)
    assert by_name["ubatch_size"].values == (128, 256, 512)
    assert by_name["split_mode"].values == ("layer", "none", "row")
    assert by_name["n_cpu_moe"].values == (0, 1, 2)
    changed: Values = {"threads_batch": 0, "split_mode": "row", "ubatch_size": 512, "n_cpu_moe": 2}
    place = moved(own, every, changed)
    assert place.options.devices == Devices(split_mode=SplitMode.ROW)
    assert place.options.n_cpu_moe == 2
    assert place.context.threads_batch == 0
    assert text_of(every, changed) == "--n-cpu-moe 2 --split-mode row --ubatch-size 512"
    # Beside no cache, and the command's own.
    cached = replace(COMMAND, context=ContextOptions(moe_cache_mib=300))
    [cache] = knobs(Parameter.MOE_CACHE_MIB, command=cached, caches_mib=(256, 512))
    assert (cache.own, cache.values) == (300, (0, 256, 300, 512))
    place = cached
    assert moved(place, [cache], {"moe_cache_mib": 512}).context.moe_cache_mib == 512
    assert cache.text(512) == "--moe-cache-mib 512"
    # Where there is one value, nothing is searched.
    assert knobs(Parameter.MOE_CACHE_MIB) == ()
    assert knobs(Parameter.SPLIT_MODE, Parameter.N_CPU_MOE) == ()


SPEEDUPS = st.builds(
    lambda estimate, below, above: Speedup(
        estimate=estimate,
        low=estimate * below,
        high=estimate * above,
        n_pairs=8,
        n_prompts=8,
    ),
    st.floats(0.2, 5),
    st.floats(0.5, 1),
    st.floats(1, 2),
)


@given(SPEEDUPS, SPEEDUPS)
def test_a_speedup_on_top_of_another(one: Speedup, other: Speedup) -> None:
    both = product(one, other)
    assert both.estimate == pytest.approx(one.estimate * other.estimate)
    low, high = known(both.interval)
    # Wider than each by itself, and narrower than both ends together.
    for part in (one, other):
        assert both.estimate / low >= part.estimate / known(part.low) * (1 - 1e-9)
        assert high / both.estimate >= known(part.high) / part.estimate * (1 - 1e-9)
    assert low >= known(one.low) * known(other.low) * (1 - 1e-9)
    assert high <= known(one.high) * known(other.high) * (1 + 1e-9)
    assert product(one, replace(other, low=None)).interval is None
