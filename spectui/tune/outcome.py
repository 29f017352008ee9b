"""Outcome of a search, kept with its study: enough to write the command again."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from spectui.commands.command import Start
from spectui.commands.launch import ExportSetup
from spectui.measure.arm import OFF, Arm
from spectui.measure.promise import Case
from spectui.measure.verdict import Verdict
from spectui.options.option import Dialect
from spectui.options.setup import Setup
from spectui.tune.result import TuneResult
from spectui.verify.comparison import Advice


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
        return ExportSetup(
            target=self.target,
            draft=self.draft,
            context=self.context,
            speculation=self.speculation,
            extra=self.extra,
            given=self.given,
            start=self.start,
            name=self.target.path.stem,
        )

    @property
    def is_confirmed(self) -> bool:
        """Whether the verdict rests on measurements of its own."""
        return self.gain is not None


def advised(result: TuneResult) -> Arm:
    """Arm that the verdict advises."""
    return result.best if result.verdict.use_speculation and result.best is not None else OFF


def outcome_of(result: TuneResult, *, setup: ExportSetup, dialect: Dialect) -> Outcome:
    """The stored form of a result, with absolute paths, valid from any folder.

    Args:
        result: result of the search.
        setup: setup of the advised arm.
        dialect: dialect of the printed command.
    """
    speedup, draft = result.speedup, setup.draft
    gain = None
    if speedup is not None:
        gain = Gain(
            speedup=speedup.estimate,
            low=speedup.low,
            high=speedup.high,
            n_prompts=speedup.n_prompts,
        )
    return Outcome(
        ended=datetime.now(UTC),
        verdict=result.verdict,
        target=setup.target.absolute(),
        draft=None if draft is None else draft.absolute(),
        context=setup.context,
        speculation=setup.speculation,
        gain=gain,
        extra=setup.extra,
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
