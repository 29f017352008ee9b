"""State of a running search for a screen, built from its events."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from spectui.measure.arm import Arm
from spectui.trace.costs import Costs
from spectui.tune.events import (
    ForecastMade,
    PromptMeasured,
    RunsStarted,
    SearchEnded,
    StudyOpened,
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
    study: str | None = None
    records: tuple[TrialRecord, ...] = ()
    """Trials so far, by number."""
    current: Arm | None = None
    """Arm that is being measured."""
    n_done: int = 0
    """Steps of the recording, the trial or the race that are done: a prompt is one, and of a
    recording an output, a draft along one, and a probe of the costs."""
    n_steps: int = 0
    """Upper bound: a race ends when it is decided."""
    seconds_left: float | None = None
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
        """Speedups over off of the settings that the race has timed."""
        return {arm: speedup for arm, (speedup, n_pairs) in self._standings.items() if n_pairs}

    @property
    def counted(self) -> Mapping[Arm, float]:
        """Speedups of those that were counted at the race's prices: the user's own setting."""
        return {arm: speedup for arm, (speedup, n_pairs) in self._standings.items() if not n_pairs}

    @property
    def _standings(self) -> Mapping[Arm, tuple[float, int]]:
        """Speedups and timed prompts."""
        standings = () if self.result is None else self.result.finalists
        return {
            one.arm: (one.speedup.capped.estimate, one.n_pairs) for one in standings if one.speedup
        }

    @property
    def is_confirming(self) -> bool:
        """Whether the best settings are measured against off."""
        return self.phase is Phase.CONFIRMING

    @property
    def is_running(self) -> bool:
        """Whether it holds the engine when the chat does not."""
        return self.phase not in {Phase.IDLE, Phase.FINISHED, Phase.FAILED}


def advance(state: TuningState, event: TuneEvent) -> TuningState:
    """Return the state after ``event``."""
    match event:
        case StudyOpened():
            state = replace(state, study=event.name, records=event.records)
        case TraceProgress():
            n_before = state.n_done if state.phase in {Phase.RECORDING, Phase.STOPPING} else 0
            state = _begun(state, Phase.RECORDING, state.current, event.n_steps)
            n_done = n_before + (event.step is not None)
            state = replace(state, n_done=n_done, n_steps=max(event.n_steps, n_done))
        case ForecastMade():
            state = replace(state, forecasts=event.forecasts, costs=event.costs)
        case TrialStarted():
            state = _begun(state, Phase.SEARCHING, event.arm, event.n_prompts)
        case TrialFinished():
            known = {record.number: record for record in state.records}
            known[event.record.number] = event.record
            records = tuple(known[number] for number in sorted(known))
            state = replace(state, records=records, current=None)
        case PromptMeasured():
            n_done = state.n_done + 1
            # A race that goes faster than planned takes more prompts.
            n_steps = max(state.n_steps, n_done)
            left_s = event.seconds_left
            state = replace(state, n_done=n_done, n_steps=n_steps, seconds_left=left_s)
        case SearchEnded():
            state = replace(state, current=None)
        case RunsStarted():
            state = _begun(state, Phase.CONFIRMING, event.arm, event.n_runs)
    return state


def _begun(state: TuningState, phase: Phase, arm: Arm | None, n_steps: int) -> TuningState:
    phase = Phase.STOPPING if state.phase is Phase.STOPPING else phase
    return replace(state, phase=phase, current=arm, n_done=0, n_steps=n_steps)
