"""Gains at other temperatures, predicted from counts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest

from spectui.engine.commands import Generate
from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult, RoundPrice, Segment
from spectui.errors import CancelledError
from spectui.measure.arm import Arm
from spectui.measure.backend import Loading
from spectui.measure.measurer import Measurer, Pair, measurements
from spectui.measure.statistics import paired_speedup
from spectui.measure.workload import Workload
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.speculative.counters import Counters
from spectui.tune.division import divide
from spectui.tune.events import TemperatureStarted, TuneEvent
from spectui.tune.pace import Pace
from spectui.tune.race import Standing
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.studies.study import TuningStudy
from spectui.tune.temperatures import Predicted, TemperatureRuns, temperatures_sentence
from tests.support.search import items, result

ARM = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))
TOKEN_S, ROUND_S = 0.1, 0.15
WRITTEN = {0.0: 4, 0.8: 3, 1.0: 2}
"""Tokens that a round of four drafted ones writes at a temperature."""
N_ROUNDS = 8


def answer(n_written: int, round_s: float = ROUND_S) -> GenerationResult:
    """Eight rounds of equal length."""
    price = RoundPrice(n_drafted=4, n_steps=4, n_tokens=n_written, is_redone=False, seconds=round_s)
    counters = Counters(n_rounds=8, n_drafted=32, n_accepted=8 * (n_written - 1))
    decoded = result(n_written / round_s, n_tokens=1 + 8 * n_written)
    return replace(decoded, counters=counters, rounds=(price,) * N_ROUNDS)


class Counting:
    """An engine that writes as many tokens a round as the temperature allows, ever more slowly."""

    n_beside_off = None

    def __init__(self, ends_after: int = 1000) -> None:
        self.commands: list[Generate] = []
        self._ends_after = ends_after

    def generate(self, command: Generate) -> GenerationResult:
        if len(self.commands) == self._ends_after:
            raise CancelledError("stopped")
        self.commands.append(command)
        return answer(WRITTEN[command.sampling.temp], round_s=len(self.commands))


class Loader:
    """Notes what is loaded."""

    def __init__(self) -> None:
        self.loaded: list[str | None] = []

    def load(self, draft: str | None) -> None:
        self.loaded.append(draft)


def raced(n: int, n_written: int) -> list[Pair]:
    """Pairs of a race, in which the second half of a prompt ran on a machine half as fast."""
    found = []
    for item in items(n):
        on = answer(n_written)
        parts = tuple(
            Segment(
                baseline_s=(TOKEN_S * slower,) * 2 * n_written,
                rounds=tuple(replace(one, seconds=one.seconds * slower) for one in on.rounds[:4]),
            )
            for slower in (1, 2)
        )
        off = result(10.0, n_tokens=1 + 8 * n_written)
        on = replace(on, decode_s=N_ROUNDS * ROUND_S)
        found.append(Pair(item=item, baseline=off, speculative=on, segments=parts))
    return found


class Case:
    """The phase after a race."""

    def __init__(self, temp: float = 0.0, engine: Counting | None = None, n: int = 8) -> None:
        self.engine = Counting() if engine is None else engine
        self.loader = Loader()
        self.events: list[TuneEvent] = []
        workload = Workload(items=items(n), n_predict=33, sampling=SamplingConfig(temp=temp))
        engine_ = cast("Engine", self.engine)
        self.setup = SearchSetup(
            engine=engine_,
            study=cast("TuningStudy", None),
            workload=workload,
            division=divide(workload, 4),
            n_ctx=4096,
            measurer=Measurer(engine_, workload),
            loader=cast("Loading", self.loader),
            limits=Limits(),
            min_gain=0.02,
            on_event=self.events.append,
        )

    def run(
        self,
        pairs: Sequence[Pair],
        budget_s: float | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> tuple[tuple[Predicted, ...], str | None]:
        """What is predicted, and why nothing is."""
        measured = measurements(pairs)
        speedup = paired_speedup(measured) if measured else None
        standing = Standing(arm=ARM, speedup=speedup, n_pairs=len(pairs), pairs=tuple(pairs))
        pace = Pace(budget_s, clock, self.setup.measurer, ())
        runs = TemperatureRuns(self.setup, pace)
        try:
            runs.run([standing])
        except CancelledError:
            assert budget_s is None
        found = runs.conclude()
        return found.value or (), found.reason


@pytest.mark.parametrize(("temp", "others"), [(0.0, (0.8, 1.0)), (0.8, (0.0, 1.0))])
def test_the_gain_is_what_the_counts_and_the_races_prices_give(
    temp: float, others: tuple[float, ...]
) -> None:
    case = Case(temp)
    found, reason = case.run(raced(8, WRITTEN[temp]))
    assert reason is None
    assert tuple(one.sampling.temp for one in found) == others
    for one in found:
        # As fast as the engine was meanwhile does not matter.
        assert one.speedup == pytest.approx(WRITTEN[one.sampling.temp] * TOKEN_S / ROUND_S)
        assert (one.n_prompts, one.counters.n_drafted) == (6, 6 * 32)
        assert one.document()["n_accepted"] == 6 * 8 * (WRITTEN[one.sampling.temp] - 1)
    assert case.loader.loaded == ["good"]
    assert [one.n_prompts for one in case.events if isinstance(one, TemperatureStarted)] == [6, 6]
    assert {one.speculation for one in case.engine.commands} == {ARM.speculation}


def test_few_prompts_another_temperature_and_prompts_that_gain_more_than_all_do() -> None:
    found, _reason = Case(n=2).run(raced(2, 4))
    assert {one.n_prompts for one in found} == {2}
    found, _reason = Case(0.5).run(raced(8, 3))
    assert [one.sampling.temp for one in found] == [0.0, 0.8]
    # The first six write as many tokens as in the race, so that the whole race's gain stays.
    pairs = [*raced(8, WRITTEN[0.8])[:6], *raced(8, 1)[6:]]
    found, _reason = Case(0.0).run(pairs)
    assert found[0].speedup == pytest.approx(paired_speedup(measurements(pairs)).estimate)


@pytest.mark.parametrize(("budget_s", "n"), [(None, 6), (100.0, 6), (10.5, 4), (7.0, 0), (0.0, 0)])
def test_a_time_budget_is_kept(budget_s: float | None, n: int) -> None:
    found, reason = Case().run(raced(8, 4), budget_s)
    assert {one.n_prompts for one in found} == ({n} if n else set())
    assert (reason is None) is bool(n)
    assert n or "time budget" in str(reason)


def test_runs_that_take_longer_than_the_race_end_with_the_budget() -> None:
    case = Case()
    # Four prompts at two temperatures would fit, if they took half as long.
    found, _reason = case.run(raced(8, 4), 10.5, lambda: 2.0 * len(case.engine.commands))
    assert [one.sampling.temp for one in found] == [0.8]
    assert len(case.engine.commands) == 6


def test_an_interrupt_keeps_what_is_complete() -> None:
    found, _reason = Case(engine=Counting(ends_after=8)).run(raced(8, 4))
    assert [one.sampling.temp for one in found] == [0.8]
    found, reason = Case(engine=Counting(ends_after=3)).run(raced(8, 4))
    assert (found, reason) == ((), "it was ended before")


def test_without_rounds_nothing_is_predicted() -> None:
    case = Case()
    served = [replace(pair, segments=()) for pair in raced(8, 4)]
    assert case.run(served) == (
        (),
        "single rounds and their seconds are only known where both sides ran in this process",
    )
    assert case.run([]) == ((), "no setting was confirmed")
    assert not case.engine.commands


def test_the_predictions_are_told_in_a_sentence() -> None:
    case = Case(0.8)
    runs = TemperatureRuns(case.setup, Pace(None, lambda: 0.0, case.setup.measurer, ()))
    assert temperatures_sentence(runs.conclude()) is None
    pairs = raced(8, 3)
    speedup = paired_speedup(measurements(pairs))
    runs.run([Standing(arm=ARM, speedup=speedup, n_pairs=8, pairs=tuple(pairs))])
    assert temperatures_sentence(runs.conclude()) == (
        "The same setting would give about +167 % with greedy output, +33 % at temperature 1 "
        "(predicted from counts of 6 prompts)."
    )
