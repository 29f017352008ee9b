"""Inputs of a search: a study, prompts, the engine that decodes them, and limits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from spectui.commands.command import Start
from spectui.commands.takeover import Takeover
from spectui.engine.commands import LoadTarget
from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.backend import Backend
from spectui.measure.measurer import Measurer
from spectui.measure.requests import usual_shape
from spectui.measure.workload import WorkItem, Workload
from spectui.options.option import Dialect
from spectui.options.request import RequestShape
from spectui.options.setup import Setup
from spectui.tune.candidates import Candidate
from spectui.tune.division import Division
from spectui.tune.events import TuneEvent
from spectui.tune.loading import Loading
from spectui.tune.places import Knob
from spectui.tune.race import RaceRuns
from spectui.tune.space import SearchSpace
from spectui.tune.studies.study import StudyOptions, TuningStudy

MOST_TRIALS = 50
"""Trials where nothing can be forecast and no number was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a search."""

    n_trials: int | None = None
    """Settings that trials time before the race; None for none where settings are forecast, and
    else for ``MOST_TRIALS``."""
    time_budget_s: float | None = None
    """Seconds of the search's own work: pauses and turns of the chat do not count."""
    until_precise: bool = False
    """Whether a race goes on when it is decided, as far as time and prompts allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """Form of the llama-server command that is handed over."""

    dialect: Dialect = Dialect.LLAMA_CPP
    extra: tuple[str, ...] = ()
    """The user's own arguments, exported unchanged."""
    given: frozenset[str] | None = None
    """Names of the options that the user's command gave; None where there was no command."""
    start: Start = field(default_factory=Start)
    """Words before the arguments of the user's command."""

    @classmethod
    def of(cls, taken: Takeover | None, extra: tuple[str, ...] = ()) -> Self:
        """The form of the user's command; without one, all options and ``extra``."""
        if taken is None:
            return cls(extra=extra)
        return cls(extra=taken.kept, given=taken.given, start=taken.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSetup:
    """A search: its arms, prompts, limits, study and command."""

    off: Setup
    """The target alone, as a server is to run it; ``extra`` goes to servers that measure."""
    candidates: tuple[Candidate, ...]
    workload: Workload
    space: SearchSpace
    limits: Limits = field(default_factory=Limits)
    min_gain: float = 0.02
    """Least gain with which speculation is worth it; 0.02 is 2 %."""
    study: StudyOptions = field(default_factory=StudyOptions)
    command: CommandOptions = field(default_factory=CommandOptions)
    knobs: tuple[Knob, ...] = ()
    """Parameters of the target's place that may vary; empty where it stays as it is."""
    given: LoadTarget | None = None
    """Loads the target as the user's command has it, where it was loaded otherwise so far."""
    prompts: Path | None = None
    """The user's; None for the built-in suite and for turns of a chat."""
    is_chat: bool = False
    """Whether the prompts are turns of a chat, whose text is kept nowhere beside the study."""
    requests: tuple[RequestShape, ...] = ()
    """Requests that the user runs; empty for those that the prompts are."""

    @property
    def shapes(self) -> tuple[RequestShape, ...]:
        """Requests that are to gain: the user's, or what the prompts are."""
        return self.requests or (usual_shape(self.workload, self.off.context.ctx_size),)


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
    measurer: Measurer
    """Decodes it."""
    loader: Loading
    """Loads the drafts that the study's arms name."""
    limits: Limits
    min_gain: float
    """Least gain with which speculation is worth it; 0.02 is 2 %."""
    on_event: Callable[[TuneEvent], None]
    """Told what happens, on the caller's thread."""
    requests: tuple[RequestShape, ...] = ()
    """Requests that are to gain."""

    def runs(
        self,
        arm: Arm,
        on_decoded: Callable[[WorkItem, GenerationResult], None],
        check_time: Callable[[int], None],
    ) -> RaceRuns:
        """Runs of a setting beside off.

        Args:
            arm: the setting.
            on_decoded: told of every prompt.
            check_time: asked before each prompt, with the number that were decoded; raises to end
                the runs.
        """
        return RaceRuns(
            self.measurer,
            arm,
            off=self.study.space.off,
            load=lambda side: self.loader.load(side.draft),
            on_pair=lambda pair: on_decoded(pair.item, pair.speculative),
            check_time=check_time,
        )
