"""The state of a search, told by its events."""

from dataclasses import replace

import pytest

from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import DraftSimple
from spectui.options.speculation import Speculation
from spectui.tune.events import (
    ConfirmationStarted,
    ForecastMade,
    PromptMeasured,
    StudyResumed,
    TraceProgress,
    TrialFinished,
    TrialStarted,
    TuneEvent,
)
from spectui.tune.forecast import Forecast
from spectui.tune.progress import Phase, TuningState, advance
from spectui.tune.tracing import DraftRecorded
from spectui.tune.trials import TrialRecord, TrialState
from tests.support.search import result

ARM = Arm(draft="good", speculation=Speculation(DraftSimple(draft_max=4)))
STARTING = TuningState(phase=Phase.STARTING, study="s", n_trials=9)


def record(number: int, state: TrialState = TrialState.COMPLETE) -> TrialRecord:
    return TrialRecord(number=number, state=state, arm=OFF)


def measured(seconds_left: float | None = None) -> PromptMeasured:
    return PromptMeasured(prompt_id="p", result=result(10.0), seconds_left=seconds_left)


FORECAST = Forecast(arm=ARM, speedup=1.5, n_drafted=10, n_accepted=7)
EVENTS: tuple[TuneEvent, ...] = (
    StudyResumed(records=(record(0),)),
    TraceProgress(step=None, n_steps=4),
    ForecastMade(forecasts=(FORECAST,), costs={}),
    TrialStarted(number=1, arm=ARM, n_prompts=8),
    TrialFinished(record=record(1)),
    measured(3.0),
    ConfirmationStarted(arm=ARM, n_prompts=8),
)


def test_nothing_runs_before_a_start() -> None:
    state = TuningState()
    assert state.phase is Phase.IDLE
    assert not state.is_running
    assert (state.records, state.result, state.error) == ((), None, None)


@pytest.mark.parametrize(
    ("phase", "runs"),
    [
        (Phase.IDLE, False),
        (Phase.STARTING, True),
        (Phase.RECORDING, True),
        (Phase.SEARCHING, True),
        (Phase.CONFIRMING, True),
        (Phase.STOPPING, True),
        (Phase.FINISHED, False),
        (Phase.FAILED, False),
    ],
)
def test_it_runs_until_it_has_stopped(phase: Phase, runs: bool) -> None:  # noqa: FBT001 - a table
    assert TuningState(phase=phase).is_running is runs
    assert TuningState(phase=phase, paused=True).is_running is runs


def test_resuming_takes_up_the_trials_and_nothing_else() -> None:
    found = (record(0), record(1, TrialState.FAIL))
    assert advance(STARTING, StudyResumed(records=found)) == replace(STARTING, records=found)


def test_a_recording_counts_its_steps_and_ends_with_the_forecasts() -> None:
    state = advance(STARTING, TraceProgress(step=None, n_steps=4))
    assert state == replace(STARTING, phase=Phase.RECORDING, n_to_record=4)
    step = DraftRecorded(prompt_id="p", draft="good", n_tokens=9, seconds=0.1)
    state = advance(
        advance(state, TraceProgress(step=step, n_steps=4)), TraceProgress(step=step, n_steps=4)
    )
    assert (state.phase, state.n_recorded, state.n_to_record) == (Phase.RECORDING, 2, 4)
    assert advance(state, ForecastMade(forecasts=(FORECAST,), costs={})).forecasts == (FORECAST,)


def test_the_first_trial_begins_the_search() -> None:
    state = advance(STARTING, TrialStarted(number=0, arm=ARM, n_prompts=8))
    assert state == replace(STARTING, phase=Phase.SEARCHING, current=ARM)


def test_a_finished_trial_is_added_and_nothing_is_measured() -> None:
    searching = advance(STARTING, TrialStarted(number=0, arm=ARM, n_prompts=8))
    state = advance(searching, TrialFinished(record=record(0)))
    assert state == replace(searching, records=(record(0),), current=None)


def test_trials_are_kept_by_number_whatever_the_order_they_come_in() -> None:
    state = STARTING
    for number in (2, 0, 1):
        state = advance(state, TrialFinished(record=record(number)))
    assert [r.number for r in state.records] == [0, 1, 2]


def test_a_trial_that_comes_again_replaces_itself() -> None:
    interrupted, done = record(0, TrialState.INTERRUPTED), record(0)
    state = advance(STARTING, StudyResumed(records=(interrupted, record(1))))
    state = advance(state, TrialFinished(record=done))
    assert state.records == (done, record(1))


def test_other_trials_stay_the_same_objects() -> None:
    first = record(0)
    state = advance(STARTING, TrialFinished(record=first))
    state = advance(state, TrialFinished(record=record(1)))
    assert state.records[0] is first


def test_a_prompt_of_a_trial_counts_for_the_trial_and_tells_the_time_left() -> None:
    searching = replace(STARTING, phase=Phase.SEARCHING)
    expected = replace(searching, seconds_left=7.5, n_measured=1)
    assert advance(searching, measured(7.5)) == expected


def test_time_left_that_is_not_known_any_more_is_not_shown_any_more() -> None:
    searching = replace(STARTING, phase=Phase.SEARCHING, seconds_left=7.5)
    assert advance(searching, measured(None)).seconds_left is None


def test_a_confirmation_counts_its_prompts_from_nothing() -> None:
    state = replace(STARTING, phase=Phase.SEARCHING, n_confirmed=5, n_to_confirm=6)
    state = advance(state, ConfirmationStarted(arm=ARM, n_prompts=16))
    assert state == replace(
        STARTING, phase=Phase.CONFIRMING, current=ARM, n_confirmed=0, n_to_confirm=16
    )
    for n in (1, 2, 3):
        state = advance(state, measured())
        assert state.n_confirmed == n


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_search_that_is_stopping_stays_stopping(event: TuneEvent) -> None:
    state = replace(STARTING, phase=Phase.STOPPING)
    assert advance(state, event).phase is Phase.STOPPING


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_pause_is_the_users_alone(event: TuneEvent) -> None:
    assert advance(replace(STARTING, paused=True), event).paused
    assert not advance(STARTING, event).paused


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_what_a_search_was_asked_stays(event: TuneEvent) -> None:
    state = advance(STARTING, event)
    assert (state.study, state.n_trials) == ("s", 9)
