"""Events of a running search. Frozen; emitted on the search's own thread."""

from collections.abc import Mapping
from dataclasses import dataclass

from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.trace.costs import Costs
from spectui.tune.forecast import Forecast
from spectui.tune.trials import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A trial is being measured."""

    number: int
    arm: Arm
    n_prompts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """A trial was measured or failed."""

    record: TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMeasured:
    """One prompt of a trial or of the confirmation is done."""

    prompt_id: str
    result: GenerationResult
    seconds_left: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsStarted:
    """Runs with speculation begin that are behind the verdict: of the race, or after it."""

    text: str
    """The measurement, in words for users."""
    arm: Arm
    """The setting that is measured against off."""
    n_runs: int
    """Upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceProgress:
    """The prompts are recorded, to replay every setting on them."""

    step: str | None
    """The last step in words; None at the beginning."""
    n_steps: int
    """In all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastMade:
    """Every setting was replayed."""

    forecasts: tuple[Forecast, ...]
    """Best first."""
    costs: Mapping[str, Costs]
    """Costs of rounds by drafter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOpened:
    """The study is open; nothing is measured yet."""

    name: str
    records: tuple[TrialRecord, ...] = ()
    """Trials of earlier runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A line for the user: of the storage, or of who works on the study beside this process."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnded:
    """All is measured; the verdict is about to be kept."""


TuneEvent = (
    StudyOpened
    | TraceProgress
    | ForecastMade
    | TrialStarted
    | TrialFinished
    | PromptMeasured
    | RunsStarted
    | Notice
    | SearchEnded
)
