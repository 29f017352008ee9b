"""Events of a running search, on its own thread, and the state that a screen makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # They load numpy, which a screen does not need to start.
    from spectui.measure.arm import Arm
    from spectui.measure.speedup import Speedup
    from spectui.trace.costs import Costs
    from spectui.tune.forecast import Forecast
    from spectui.tune.result import TuneResult
    from spectui.tune.trials import TrialRecord


class Phase(StrEnum):
    """Phase of the search."""

    IDLE = "idle"
    """Never started."""
    PREPARING = "reading the prompts"
    STARTING = "measuring the target alone"
    RECORDING = "recording"
    """Prompts are recorded, to replay settings on them."""
    SEARCHING = "searching"
    CONFIRMING = "confirming"
    """The best settings are measured against off."""
    STOPPING = "stopping"
    FINISHED = "finished"
    """``result`` is there; it may have been stopped early."""
    FAILED = "failed"
    """``error`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted:
    """The target is timed; or a recording begins, a trial, or the runs behind the verdict."""

    phase: Phase
    text: str
    """The measurement, in words for users."""
    n_steps: int
    """Upper bound."""
    arm: "Arm | None" = None
    """The setting that is measured; None of the target and of a recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """One step of a recording is done, or one prompt of a trial or of the confirmation."""

    text: str
    seconds_left: float | None = None
    """Until the end of the search, at most; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """A trial was measured or failed."""

    record: "TrialRecord"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastMade:
    """Every setting was replayed."""

    forecasts: "tuple[Forecast, ...]"
    """Best first."""
    costs: "Mapping[str, Costs]"
    """Costs of rounds by drafter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The race has looked at what its setting gains, and may go on."""

    arm: "Arm"
    speedup: "Speedup"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOpened:
    """The study is open; nothing is measured yet."""

    name: str
    records: "tuple[TrialRecord, ...]" = ()
    """Trials of earlier runs."""
    earlier: str | None = None
    """The verdict of the last run that confirmed one, as a sentence; None without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A line for the user: on the storage, or on other processes at the study."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnded:
    """All is measured; the verdict is about to be kept."""


TuneEvent = (
    StudyOpened
    | PhaseStarted
    | StepDone
    | ForecastMade
    | TrialFinished
    | Looked
    | Notice
    | SearchEnded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningState:
    """A search at one moment."""

    phase: Phase = Phase.IDLE
    study: str | None = None
    earlier: str | None = None
    """The study's verdict before this search, as a sentence; None without."""
    records: "tuple[TrialRecord, ...]" = ()
    """Trials so far, by number."""
    current: "Arm | None" = None
    """Arm that is being measured."""
    n_done: int = 0
    """Steps of the recording, the trial or the race that are done: a prompt is one, and of a
    recording an output, a draft along one, and a probe of the costs."""
    n_steps: int = 0
    """Upper bound: a race ends when it is decided."""
    seconds_left: float | None = None
    forecasts: "tuple[Forecast, ...]" = ()
    """Replayed settings, best first."""
    costs: "Mapping[str, Costs]" = field(default_factory=dict)
    """Costs of rounds by drafter; empty as long as nothing is recorded."""
    notice: str = ""
    """The last line for the user; empty without one."""
    looked: Looked | None = None
    """The last look of the race; None before it."""
    result: "TuneResult | None" = None
    error: str | None = None

    @property
    def confirmed(self) -> "Arm | None":
        """The setting that was measured against off and found best, whatever the verdict is."""
        result = self.result
        return None if result is None or result.speedup is None else result.best

    @property
    def raced(self) -> "Mapping[Arm, float]":
        """Speedups over off of the settings that the race has timed, while it runs so far."""
        if self.result is None and self.looked is not None:
            return {self.looked.arm: self.looked.speedup.capped.estimate}
        return self._speedups(timed=True)

    @property
    def counted(self) -> "Mapping[Arm, float]":
        """Speedups of those that were counted at the race's prices: the user's own setting."""
        return self._speedups(timed=False)

    def _speedups(self, *, timed: bool) -> "Mapping[Arm, float]":
        standings = () if self.result is None else self.result.finalists
        found = ((one.arm, one.speedup) for one in standings if bool(one.pairs) is timed)
        return {arm: speedup.capped.estimate for arm, speedup in found if speedup is not None}

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
            study, earlier = event.name, event.earlier
            state = replace(state, study=study, records=event.records, earlier=earlier)
        case PhaseStarted():
            phase = Phase.STOPPING if state.phase is Phase.STOPPING else event.phase
            n_steps = event.n_steps
            state = replace(state, phase=phase, current=event.arm, n_done=0, n_steps=n_steps)
        case StepDone():
            n_done = state.n_done + 1
            # A race that goes faster than planned takes more prompts.
            n_steps = max(state.n_steps, n_done)
            left_s = event.seconds_left
            state = replace(state, n_done=n_done, n_steps=n_steps, seconds_left=left_s)
        case ForecastMade():
            state = replace(state, forecasts=event.forecasts, costs=event.costs)
        case TrialFinished():
            known = {record.number: record for record in state.records}
            known[event.record.number] = event.record
            records = tuple(known[number] for number in sorted(known))
            state = replace(state, records=records, current=None)
        case Looked():
            state = replace(state, looked=event)
        case Notice():
            state = replace(state, notice=event.text)
        case SearchEnded():
            state = replace(state, current=None)
    return state
