"""Result of a search, and its outcome: what the study keeps, enough to write the command again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from spectui.commands.command import Start
from spectui.commands.launch import ExportSetup
from spectui.documents import Json, Known, or_reason
from spectui.errors import SpectuiError
from spectui.measure.arm import OFF, Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.measurer import Pair, throughput
from spectui.measure.promise import Case
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Verdict
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.options.option import Dialect
from spectui.options.setup import Setup
from spectui.trace.routing import ExpertUse
from spectui.tune.forecast import Forecast, Outlook
from spectui.tune.race import Standing
from spectui.tune.trials import TrialRecord
from spectui.verify.comparison import Advice

_UNKNOWN = Known[Any](None, "they were not looked at")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """Result of a search: trials, race and verdict."""

    trials: tuple[TrialRecord, ...]
    best: Arm | None
    """The race's leader; without a race, what measured best."""
    off: Arm = OFF
    """Arm that the verdict compares with."""
    finalists: tuple[Standing, ...] = ()
    """Standings of the race, the leader first."""
    requests: Known[tuple[Request, ...]] = _UNKNOWN
    """Whole requests with the leader, prompts included."""
    experts: Known[ExpertUse] = _UNKNOWN
    """Experts that the recorded answers use."""
    verdict: Verdict
    lossless: LosslessCheck | None
    """Check of the race's output; None with temperature, or without a race."""
    interrupted: bool
    error: SpectuiError | None
    """Error that ended the search early, besides an interrupt."""
    outlook: Outlook = field(default_factory=Outlook)
    """Forecasts from the recording."""
    took_s: float
    """Seconds of the search's own work."""
    cut_trials: tuple[int, int] | None = None
    """Trials that were run, and those that were wanted, where time ended them; else None."""
    cut_race: tuple[int, int] | None = None
    """Prompts of the confirmation that were timed, and all, where time ended it; else None."""
    conditions: DisturbanceSummary | None = None
    """Load of the rest of the machine meanwhile; None where it was not watched."""
    not_kept: str | None = None
    """Why the study's storage does not have the verdict; None where it has."""

    @property
    def leader(self) -> Standing | None:
        """Standing of ``best`` in the race; None where no setting was confirmed."""
        return next((one for one in self.finalists[:1] if one.speedup is not None), None)

    @property
    def speedup(self) -> Speedup | None:
        """Speedup of the leader over off."""
        return None if self.leader is None else self.leader.speedup

    @property
    def advised(self) -> Arm:
        """Arm that the verdict advises."""
        return self.best if self.verdict.use_speculation and self.best is not None else OFF

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the leader against off; empty if there was no race."""
        return () if self.leader is None else self.leader.pairs

    @property
    def off_token_s(self) -> float | None:
        """Seconds per token of the target alone in the race; None if there was none."""
        rate = throughput([pair.baseline for pair in self.pairs])
        return 1 / rate if rate else None

    def raced(self, arm: Arm) -> Speedup | None:
        """Speedup of a setting in the race; None where the race was without it."""
        return next((one.speedup for one in self.finalists if one.arm == arm), None)

    def last_trial(self, arm: Arm) -> TrialRecord | None:
        """The last trial of a setting that was measured; None without one."""
        measured = (one for one in self.trials if one.arm == arm and one.tokens_per_s)
        return max(measured, key=lambda one: one.number, default=None)

    def setting_document(self, arm: Arm) -> Json:
        """A setting with its gain as JSON: that of the race, else of its last trial."""
        raced, trial = self.raced(arm), self.last_trial(arm)
        if raced is not None:
            return {"params": arm.document(), **raced.document()}
        gain = or_reason("speedup", trial and trial.speedup, "it was not measured")
        return {"params": arm.document(), **gain}


def why_nothing(
    records: Sequence[TrialRecord], forecasts: Sequence[Forecast], *, interrupted: bool
) -> str:
    """Why there is no confirmation, by trials and forecasts."""
    tried = [one for one in records if one.is_tried]
    errors = [one.error for one in tried if one.error]
    if interrupted:
        return "it was interrupted before the best setting was confirmed"
    if errors:
        return errors[-1]
    if forecasts and not any(one.n_drafted for one in forecasts):
        return "no setting drafts anything on the recorded text; use other prompts or drafts"
    if forecasts or not tried:
        return "there was no time to measure a setting; allow more time"
    return "the model ended every answer at once; use other prompts or --ignore-eos"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Gain of the advised setting over off where it was confirmed."""

    speedup: float
    low: float | None
    """Lower end of its interval; None where there is none."""
    high: float | None
    n_prompts: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None where there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Setup):
    """A verdict, and the setting that follows from it.

    Fields are only ever added, each with a default: a study that an older spectui made opens with
    those, and an older spectui passes over what it does not know.
    """

    ended: datetime
    verdict: Verdict
    gain: Gain | None
    """Gain of the best setting, whether or not it is advised; None where none was confirmed."""
    given: frozenset[str] | None = None
    """Names of the options that the user's command gave, so that no others are written into it;
    None where there was no command."""
    dialect: Dialect = Dialect.LLAMA_CPP
    """In which it was printed."""
    start: Start = field(default_factory=Start)
    """Text before the arguments of the user's command."""
    interrupted: bool = False
    """Whether the search was stopped, or ended by an error."""

    def exported(self) -> ExportSetup:
        """The advised setup, to be written as a command."""
        name = self.target.path.stem
        return self.converted(ExportSetup, given=self.given, start=self.start, name=name)

    @property
    def is_confirmed(self) -> bool:
        """Whether a setting was measured against off for the verdict."""
        return self.gain is not None


def outcome_of(result: TuneResult, *, setup: ExportSetup, dialect: Dialect) -> Outcome:
    """The stored form of a result, with absolute paths, valid from any folder.

    Args:
        result: result of the search.
        setup: setup of the advised arm.
        dialect: dialect of the printed command.
    """
    speedup, gain = result.speedup, None
    if speedup is not None:
        gain = Gain(
            speedup=speedup.estimate,
            low=speedup.low,
            high=speedup.high,
            n_prompts=speedup.n_prompts,
        )
    return setup.absolute().converted(
        Outcome,
        ended=datetime.now(UTC),
        verdict=result.verdict,
        gain=gain,
        given=setup.given,
        dialect=dialect,
        start=setup.start,
        interrupted=result.interrupted or result.error is not None,
    )


def advice_of(outcome: Outcome | None, case: Case) -> Advice | None:
    """A study's final advice on a case."""
    if outcome is None:
        return None
    if outcome.speculation is None:
        return Advice.OFF
    drafts = [None if draft is None else draft.path for draft in (outcome.draft, case.draft)]
    is_same = outcome.speculation == case.speculation and drafts[0] == drafts[1]
    return Advice.USE if is_same else Advice.OTHER
