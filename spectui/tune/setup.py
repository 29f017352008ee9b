"""Inputs of a search: a study, prompts, the engine that decodes them, and limits."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from spectui.measure.backend import Backend, Loading
from spectui.measure.measurer import Measurer
from spectui.measure.workload import Workload
from spectui.options.request import RequestShape
from spectui.tune.division import Division
from spectui.tune.events import TuneEvent
from spectui.tune.studies.study import TuningStudy

MOST_TRIALS = 50
"""Trials where nothing can be forecast and no number was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a search."""

    n_trials: int | None = None
    """Settings that trials time before the race, off included; None for none besides off where
    settings are forecast, and else for ``MOST_TRIALS``."""
    time_budget_s: float | None = None
    """Seconds of the search's own work: pauses and turns of the chat do not count."""
    places_s: float | None = None
    """Seconds that the search of the target's place may take; None for as long as it takes."""
    n_trial_prompts: int = 8
    """Prompts per trial, at most; they choose, and the others judge."""
    until_precise: bool = False
    """Whether a race goes on with the time and the prompts that there are, once it is decided."""
    n_confirmations: int = 1
    """Limit of measurements of each prompt in the race."""

    def after(self, seconds: float) -> "Limits":
        """The limits of what follows so many seconds of work."""
        if self.time_budget_s is None:
            return self
        return replace(self, time_budget_s=max(0.0, self.time_budget_s - seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSetup:
    """Inputs that all phases of a search share."""

    engine: Backend
    """Has loaded the target."""
    study: TuningStudy
    """Keeps the trials."""
    workload: Workload
    """Prompts to decode, and sampling."""
    division: Division
    """Prompts that choose, and those that judge."""
    n_ctx: int
    """Context size of the target."""
    measurer: Measurer
    """Decodes it."""
    loader: Loading
    """Loads the drafts that the study's arms name."""
    limits: Limits
    min_gain: float
    """Least gain with which speculation is worth it; 0.02 is 2 %."""
    on_event: Callable[[TuneEvent], None]
    """Told what happens, on the caller's thread."""
    depths: tuple[int, ...] = ()
    """Lengths of prompts to measure the best setting at; 0 for the prompts as they are."""
    requests: tuple[RequestShape, ...] = ()
    """Requests that are to gain."""
