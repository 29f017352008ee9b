"""Gains at other temperatures, predicted from counts, with a forecaster that is made up."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from spectui.documents import Known
from spectui.engine.driver import Engine
from spectui.errors import CancelledError
from spectui.measure.arm import Arm
from spectui.measure.measurer import Measurer
from spectui.measure.speedup import Speedup
from spectui.measure.workload import Workload
from spectui.options.drafters import DraftSimple
from spectui.options.setup import SamplingConfig
from spectui.options.speculation import Speculation
from spectui.trace.grid import Parts
from spectui.trace.replay import Total
from spectui.tune.division import divide
from spectui.tune.events import RunsStarted, TuneEvent
from spectui.tune.forecast import Forecast
from spectui.tune.forecaster import Forecaster
from spectui.tune.loading import Loading
from spectui.tune.pace import ENDED, Pace
from spectui.tune.race import Standing
from spectui.tune.setup import Limits, SearchSetup
from spectui.tune.studies.study import TuningStudy
from spectui.tune.temperatures import Predicted, Temperatures, predicted, temperatures_sentence
from tests.support.search import ScriptedMeasurer, items

ARM = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))
SPEEDUP = Speedup(estimate=1.5, low=1.4, high=1.6, n_pairs=8, n_prompts=8)
WRITTEN = {0.0: 4, 0.8: 3, 1.0: 2}
"""Tokens that a round of four drafted ones writes at a temperature."""
N_ROUNDS = 8


class Recorded:
    """A forecaster with a recording, whose answers are as long at any temperature."""

    def __init__(self, n: int, own: float, ends_after: int = 99) -> None:
        self.prompts = tuple((f"p{i}", "c") for i in range(n))
        self.prompt_s = lambda: 1.0
        self.knows: Arm = ARM
        self.asked: list[tuple[float, int]] = []
        self._own = WRITTEN[own]
        self._ends_after = ends_after

    def forecast(self, arm: Arm) -> Forecast | None:
        found = Forecast(arm=arm, speedup=1.4, n_drafted=9, n_accepted=6)
        return found if arm == self.knows else None

    def resampled(self, arm: Arm, sampling: SamplingConfig, n: int) -> tuple[Total, float] | None:
        assert arm == ARM
        if len(self.asked) == self._ends_after:
            raise CancelledError("stopped")
        self.asked.append((sampling.temp, n))
        if sampling.ignore_eos:
            return None
        written = WRITTEN[sampling.temp]
        total = Total(
            draft="good",
            speculation=Speculation(DraftSimple(draft_max=4)),
            n_rounds=n * N_ROUNDS,
            n_drafted=n * 4 * N_ROUNDS,
            n_accepted=n * N_ROUNDS * (written - 1),
            batches=(),
            n_decoded=n * N_ROUNDS * written,
            mean_past=0.0,
            off_s=None,
            parts=cast("Parts", None),
        )
        return total, written / self._own


def run(
    recorded: Recorded | None,
    temp: float = 0.0,
    *,
    standing: Standing | None = None,
    budget_s: float | None = None,
    clock: Callable[[], float] = lambda: 0.0,
    ignore_eos: bool = False,
) -> tuple[tuple[Predicted, ...], str | None, list[TuneEvent]]:
    """What is predicted, why nothing is, and what was told."""
    events: list[TuneEvent] = []
    sampling = SamplingConfig(temp=temp, ignore_eos=ignore_eos)
    workload = Workload(items=items(8), n_predict=33, sampling=sampling)
    setup = SearchSetup(
        engine=cast("Engine", None),
        study=cast("TuningStudy", None),
        workload=workload,
        division=divide(workload, 4),
        n_ctx=4096,
        measurer=cast("Measurer", None),
        loader=cast("Loading", None),
        limits=Limits(),
        min_gain=0.02,
        on_event=events.append,
    )
    pace = Pace(budget_s, clock, cast("Measurer", ScriptedMeasurer()), ())
    raced = standing or Standing(arm=ARM, speedup=SPEEDUP, n_pairs=8)
    found: Temperatures = Known(None, ENDED)
    try:
        for so_far in predicted(setup, pace, cast("Forecaster", recorded), raced):
            found = so_far
    except CancelledError:
        assert recorded is not None
    return found.value or (), found.reason, events


@pytest.mark.parametrize(
    ("temp", "others"), [(0.0, (0.8, 1.0)), (0.8, (0.0, 1.0)), (0.5, (0.0, 0.8))]
)
def test_the_races_gain_changes_as_the_forecast_does(
    temp: float, others: tuple[float, ...]
) -> None:
    own = 0.8 if temp == 0.5 else temp
    recorded = Recorded(8, own)
    found, reason, events = run(recorded, temp)
    assert reason is None
    assert tuple(one.sampling.temp for one in found) == others
    for one in found:
        written = WRITTEN[one.sampling.temp]
        # A round takes no less than a token of the target alone.
        assert one.speedup == min(1.5 * written / WRITTEN[own], written)
        assert (one.n_prompts, one.counts.n_drafted) == (6, 6 * 32)
        assert one.document()["n_accepted"] == 6 * 8 * (written - 1)
    assert [one.n_runs for one in events if isinstance(one, RunsStarted)] == [6, 6]
    assert recorded.asked == [(temp, 6) for temp in others]


@pytest.mark.parametrize(
    ("n", "budget_s", "n_asked"),
    [(2, None, 2), (8, None, 6), (8, 100.0, 6), (8, 4.5, 4), (8, 2.5, 0), (2, 2.5, 2), (8, 0.0, 0)],
)
def test_a_time_budget_is_kept(n: int, budget_s: float | None, n_asked: int) -> None:
    found, reason, _events = run(Recorded(n, 0.0), budget_s=budget_s)
    assert {one.n_prompts for one in found} == ({n_asked} if n_asked else set())
    assert (reason is None) is bool(n_asked)
    assert n_asked or "time budget" in str(reason)


def test_what_takes_longer_than_it_seemed_ends_with_the_budget() -> None:
    recorded = Recorded(8, 0.0)
    found, _reason, _events = run(recorded, budget_s=10.0, clock=lambda: 9.0 * len(recorded.asked))
    assert [one.sampling.temp for one in found] == [0.8]


def test_an_interrupt_keeps_what_is_complete() -> None:
    found, _reason, _events = run(Recorded(8, 0.0, ends_after=1))
    assert [one.sampling.temp for one in found] == [0.8]
    found, reason, _events = run(Recorded(8, 0.0, ends_after=0))
    assert (found, reason) == ((), "it was ended before")


def test_why_nothing_is_predicted() -> None:
    other = Recorded(8, 0.0)
    other.knows = replace(ARM, draft="other")
    for recorded in (None, other):
        found, reason, _events = run(recorded)
        assert (found, reason) == ((), "the setting was not recorded in this process")
    unasked = Recorded(8, 0.0)
    standing = Standing(arm=ARM, speedup=None, n_pairs=0)
    assert run(unasked, standing=standing)[:2] == ((), "no setting was confirmed")
    assert not unasked.asked
    # Answers in which no round is say nothing.
    assert run(Recorded(8, 0.0), ignore_eos=True)[0] == ()


def test_the_predictions_are_told_in_a_sentence() -> None:
    assert temperatures_sentence(Known(None, "no time")) is None
    found, reason, _events = run(Recorded(8, 0.8), 0.8)
    assert temperatures_sentence(Known(found, reason)) == (
        "The same setting would give about +100 % with greedy output, 0 % at temperature 1 "
        "(predicted from counts of 6 prompts)."
    )
