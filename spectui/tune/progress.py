"""State of a running search for a screen, built from its events."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from spectui.measure.arm import Arm
from spectui.trace.costs import Costs
from spectui.tune.events import (
    ForecastMade,
    PromptMeasured,
    RaceDecided,
    RunsStarted,
    SearchEnded,
    StudyOpened,
    StudyResumed,
    TraceProgress,
    TrialFinished,
    TrialStarted,
    TuneEvent,
)
from spectui.tune.forecast import Forecast
from spectui.tune.result import TuneResult
from spectui.tune.trials import TrialRecord


class Phase(StrEnum):
    """Phase of the search."""

    IDLE = "idle"
    """Never started."""
    STARTING = "starting"
    RECORDING = "recording"
    """The prompts are recorded once, to replay every setting on them."""
    SEARCHING = "searching"
    CONFIRMING = "confirming"
    """The best settings are measured against off."""
    STOPPING = "stopping"
    FINISHED = "finished"
    """``result`` is there; it may have been stopped early."""
    FAILED = "failed"
    """``error`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningState:
    """A search at one moment."""

    phase: Phase = Phase.IDLE
    paused: bool = False
    """Whether the user paused it. A turn of the chat holds it back as well, without this."""
    short_of_memory: str | None = None
    """Why it measures nothing now; None where there is memory."""
    study: str | None = None
    records: tuple[TrialRecord, ...] = ()
    """Trials so far, by number."""
    current: Arm | None = None
    """Arm that is being measured."""
    n_measured: int = 0
    """Prompts of the current trial that are measured."""
    n_to_measure: int = 0
    """Prompts of the current trial."""
    n_confirmed: int = 0
    """Pairs that the race against off has measured."""
    n_to_confirm: int = 0
    """Upper bound: the race ends when it is decided."""
    race: RaceDecided | None = None
    """Where the race was decided early."""
    seconds_left: float | None = None
    n_recorded: int = 0
    """Steps of the recording that are done: an output, a draft along one, a probe of the costs."""
    n_to_record: int = 0
    forecasts: tuple[Forecast, ...] = ()
    """Replayed settings, best first."""
    costs: Mapping[str, Costs] = field(default_factory=dict)
    """Costs of rounds by drafter; empty as long as nothing is recorded."""
    result: TuneResult | None = None
    error: str | None = None

    @property
    def confirmed(self) -> Arm | None:
        """The setting that was measured against off and found best, whatever the verdict is."""
        result = self.result
        return None if result is None or result.speedup is None else result.best

    @property
    def raced(self) -> Mapping[Arm, float]:
        """Speedups over off of the settings that the race has measured."""
        finalists = () if self.result is None else self.result.finalists
        return {one.arm: one.speedup.capped.estimate for one in finalists if one.speedup}

    @property
    def is_running(self) -> bool:
        """Whether it holds the engine when the chat does not."""
        return self.phase not in {Phase.IDLE, Phase.FINISHED, Phase.FAILED}


def advance(state: TuningState, event: TuneEvent) -> TuningState:
    """Return the state after ``event``."""
    match event:
        case StudyOpened():
            state = replace(state, study=event.name)
        case StudyResumed():
            state = replace(state, records=event.records)
        case TraceProgress():
            state = replace(
                state,
                phase=_keep_stopping(state, Phase.RECORDING),
                n_recorded=state.n_recorded + (event.step is not None),
                n_to_record=event.n_steps,
            )
        case ForecastMade():
            state = replace(state, forecasts=event.forecasts, costs=event.costs)
        case TrialStarted():
            phase, n = _keep_stopping(state, Phase.SEARCHING), event.n_prompts
            state = replace(state, phase=phase, current=event.arm, n_measured=0, n_to_measure=n)
        case TrialFinished():
            known = {record.number: record for record in state.records}
            known[event.record.number] = event.record
            records = tuple(known[number] for number in sorted(known))
            state = replace(state, records=records, current=None)
        case PromptMeasured():
            n_confirmed = state.n_confirmed + (state.phase is Phase.CONFIRMING)
            state = replace(
                state,
                n_measured=state.n_measured + 1,
                n_confirmed=n_confirmed,
                # A race that goes faster than planned takes more prompts.
                n_to_confirm=max(state.n_to_confirm, n_confirmed),
                seconds_left=event.seconds_left,
            )
        case RaceDecided() | SearchEnded():
            race = event if isinstance(event, RaceDecided) else state.race
            state = replace(state, current=None, race=race)
        case RunsStarted(arm=Arm()):
            state = replace(
                state,
                phase=_keep_stopping(state, Phase.CONFIRMING),
                current=event.arm,
                n_confirmed=0,
                n_to_confirm=event.n_runs,
            )
    return state


def _keep_stopping(state: TuningState, phase: Phase) -> Phase:
    return Phase.STOPPING if state.phase is Phase.STOPPING else phase
