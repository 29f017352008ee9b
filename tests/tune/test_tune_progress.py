"""The state of a search, told by its events."""

from dataclasses import replace

from spectui.measure.arm import OFF, Arm
from spectui.measure.speedup import Speedup
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.progress import (
    ForecastMade,
    Looked,
    Phase,
    PhaseStarted,
    StepDone,
    StudyOpened,
    TrialFinished,
    TuneEvent,
    TuningState,
    advance,
)
from spectui.tune.trials import TrialRecord, TrialState
from tests.support.search import forecast_of

ARM = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))
STARTING = TuningState(phase=Phase.STARTING, study="s")


def record(number: int, state: TrialState = TrialState.COMPLETE) -> TrialRecord:
    return TrialRecord(number=number, state=state, arm=OFF)


def measured(seconds_left: float | None = None) -> StepDone:
    return StepDone(text="p: 10.0 tokens/s", seconds_left=seconds_left)


def started(phase: Phase, n_steps: int, arm: Arm | None = ARM) -> PhaseStarted:
    return PhaseStarted(phase=phase, text="", n_steps=n_steps, arm=arm)


FORECAST = forecast_of(ARM, 1.5)
SPEEDUP = Speedup(estimate=1.1, low=0.9, high=1.3, n_pairs=8, n_prompts=8)
EVENTS: tuple[TuneEvent, ...] = (
    StudyOpened(name="s", records=(record(0),)),
    started(Phase.RECORDING, 4, None),
    ForecastMade(forecasts=(FORECAST,), costs={}),
    started(Phase.SEARCHING, 8),
    TrialFinished(record=record(1)),
    measured(3.0),
    started(Phase.CONFIRMING, 8),
    Looked(arm=ARM, speedup=SPEEDUP),
)


def test_it_runs_from_its_start_until_it_has_stopped() -> None:
    assert TuningState().phase is Phase.IDLE
    rests = {Phase.IDLE, Phase.FINISHED, Phase.FAILED}
    for phase in Phase:
        assert TuningState(phase=phase).is_running is (phase not in rests)


def test_a_recording_counts_its_steps_and_ends_with_the_forecasts() -> None:
    state = advance(STARTING, started(Phase.RECORDING, 4, None))
    assert state == replace(STARTING, phase=Phase.RECORDING, n_steps=4)
    for _ in range(2):
        state = advance(state, StepDone(text="p: good along 9 tokens"))
    assert (state.phase, state.n_done, state.n_steps) == (Phase.RECORDING, 2, 4)
    assert advance(state, ForecastMade(forecasts=(FORECAST,), costs={})).forecasts == (FORECAST,)


def test_a_trial_begins_counts_its_prompts_and_is_added() -> None:
    found = (record(0), record(1, TrialState.FAIL))
    opened = StudyOpened(name="s", records=found, earlier="Use it.")
    assert advance(STARTING, opened) == replace(STARTING, records=found, earlier="Use it.")
    state = advance(STARTING, started(Phase.SEARCHING, 8))
    assert state == replace(STARTING, phase=Phase.SEARCHING, current=ARM, n_steps=8)
    known = advance(state, measured(7.5))
    assert known == replace(state, seconds_left=7.5, n_done=1)
    assert advance(known, measured(None)).seconds_left is None
    done = advance(state, TrialFinished(record=record(0)))
    assert done == replace(state, records=(record(0),), current=None)


def test_trials_are_kept_by_number_and_a_trial_that_comes_again_replaces_itself() -> None:
    state, kept = STARTING, [record(number) for number in range(3)]
    for number in (2, 0, 1):
        state = advance(state, TrialFinished(record=kept[number]))
    assert state.records == tuple(kept)
    again = record(0, TrialState.INTERRUPTED)
    state = advance(state, TrialFinished(record=again))
    assert state.records == (again, kept[1], kept[2])


def test_a_confirmation_counts_its_prompts_from_nothing() -> None:
    state = replace(STARTING, phase=Phase.SEARCHING, n_done=5, n_steps=6)
    state = advance(state, started(Phase.CONFIRMING, 16))
    assert state == replace(STARTING, phase=Phase.CONFIRMING, current=ARM, n_done=0, n_steps=16)
    for n in (1, 2, 3):
        state = advance(state, measured())
        assert state.n_done == n
    looked = Looked(arm=ARM, speedup=SPEEDUP)
    assert advance(state, looked) == replace(state, looked=looked)
    assert advance(state, looked).raced == {ARM: SPEEDUP.estimate}


def test_a_stop_is_the_users_and_what_was_asked_stays() -> None:
    for event in EVENTS:
        assert advance(replace(STARTING, phase=Phase.STOPPING), event).phase is Phase.STOPPING
        state = advance(STARTING, event)
        assert state.study == "s"
