"""Outcome of a search, kept with its study: enough to write the command again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from spectui.commands.command import Start
from spectui.options.dialect import Dialect
from spectui.options.setup import ContextOptions, ModelOptions, Schedule, Setup
from spectui.speculative.mtp import effective_schedule
from spectui.tune.candidates import Candidate
from spectui.tune.result import TuneResult
from spectui.tune.stored import absolute
from spectui.tune.trials import OFF, Arm
from spectui.tune.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Gain of the advised setting over off where it was confirmed."""

    speedup: float
    low: float | None
    """Lower end of its interval; None where there is none."""
    high: float | None
    n_prompts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Setup):
    """A verdict, and the setting that follows from it.

    Fields are only ever added, each with a default: a study that an older spectui made opens with
    those, and an older spectui passes over what it does not know.
    """

    ended: datetime
    verdict: Verdict
    schedule: Schedule
    """On which it was measured."""
    gain: Gain | None
    """Gain of the best setting, whether or not it is advised; None where none was confirmed."""
    given: frozenset[str] | None = None
    """Names of the options that the user's command gave, so that no others are written into it;
    None where there was no command."""
    dialect: Dialect = Dialect.LLAMA_CPP
    """In which it was printed."""
    start: Start = field(default_factory=Start)
    """Text before the arguments of the user's command."""

    @property
    def is_confirmed(self) -> bool:
        """Whether the verdict rests on measurements of its own."""
        return self.gain is not None


def advised(result: TuneResult) -> Arm:
    """Arm that the verdict advises."""
    return result.best if result.verdict.use_speculation and result.best is not None else OFF


def outcome_of(
    result: TuneResult,
    *,
    target: ModelOptions,
    candidates: Sequence[Candidate],
    context: ContextOptions,
    schedule: Schedule,
    mtp_layers: int,
    dialect: Dialect = Dialect.LLAMA_CPP,
    extra: tuple[str, ...] = (),
    given: frozenset[str] | None = None,
    start: Start | None = None,
) -> Outcome:
    """The stored form of a result, with absolute paths, valid from any folder.

    Args:
        result: result of the search.
        target: target as it lies beside the advised draft.
        candidates: drafts that took part.
        context: requested context of a server.
        schedule: requested schedule.
        mtp_layers: MTP layers of the target, where they may draft.
        dialect: dialect of the printed command.
        extra: the user's own arguments.
        given: names of the options of the user's command, None without one.
        start: text before the command's arguments, None without one.
    """
    arm, speedup = advised(result), result.speedup
    draft = next((one.options for one in candidates if one.name == arm.draft), None)
    is_mtp = arm.speculation is not None and arm.speculation.is_mtp
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
        target=absolute(target),
        draft=None if draft is None else absolute(draft),
        context=context,
        speculation=arm.speculation,
        schedule=effective_schedule(schedule, mtp_layers if is_mtp else 0),
        gain=gain,
        extra=extra,
        given=given,
        dialect=dialect,
        start=start or Start(),
    )
