"""Inputs of a search: its arms, prompts, limits, study and command, and what its phases share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Self

from spectui.commands.command import Start
from spectui.commands.takeover import Takeover
from spectui.documents import Known
from spectui.engine.commands import LoadTarget
from spectui.measure.arm import Arm
from spectui.measure.backend import Backend
from spectui.measure.comparable import digest
from spectui.measure.measurer import Measurer
from spectui.measure.requests import usual_shape
from spectui.measure.statistics import MIN_PROMPTS
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem, Workload
from spectui.options.drafters import MODEL_KIND, MTP_KIND
from spectui.options.option import Dialect
from spectui.options.request import RequestShape
from spectui.options.setup import ContextOptions, Setup
from spectui.options.speculation import Speculation
from spectui.tune.candidates import Candidate, Loading
from spectui.tune.places import Knob
from spectui.tune.progress import TuneEvent
from spectui.tune.space import SearchSpace
from spectui.tune.studies.study import StudyOptions, TuningStudy

TRIAL_PROMPTS = 8
"""Prompts of a trial, at most."""
JUDGES = 8
"""Prompts that judge, at least, where prompts are divided."""
FEWEST_FOR_BOTH = 12
"""Prompts of which some may choose and nothing else."""
MOST_TRIALS = 50
"""Trials where nothing can be forecast and no number was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a search, and of the gain that it is for."""

    n_trials: int | None = None
    """Settings that trials time before the race; None for none where settings are forecast, and
    else for ``MOST_TRIALS``."""
    time_budget_s: float | None = None
    """Seconds of the search's own work: pauses and turns of the chat do not count."""
    until_precise: bool = False
    """Whether a race goes on when it is decided, as far as time and prompts allow."""
    min_gain: float = 0.02
    """Least gain with which speculation is worth it; 0.02 is 2 %."""


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
class Present:
    """The drafting setting of a user's command, which a search measures beside the best one."""

    speculation: Speculation | None
    """None if the command does not draft."""
    draft: Path | None
    """The command's draft model; None without one."""
    elsewhere: tuple[str, ...] = ()
    """Drafting options that only llama-server supports."""

    @property
    def longest(self) -> int:
        """Maximum number of tokens per draft."""
        return 0 if self.speculation is None else self.speculation.longest

    def arm(
        self, candidates: Sequence[Candidate], context: ContextOptions, space: SearchSpace
    ) -> Known[Arm]:
        """The setting as an arm with one of the candidates, or why it cannot be measured.

        Args:
            candidates: usable drafts.
            context: that of target and draft.
            space: search space.
        """
        speculation = self.speculation
        if self.elsewhere:
            return Known(None, f"only llama-server drafts with {' '.join(self.elsewhere)}")
        if speculation is None:
            return Known(None, "the command does not draft")
        if speculation.ngrams and not space.with_ngrams:
            return Known(None, "this llama-server has no n-gram drafters")
        if self.longest > min(context.ctx_size, context.batch_size) - 1:
            return Known(None, f"-c and -b have no room for its drafts of {self.longest} tokens")
        if speculation.model is None:
            return Known(space.placed(Arm(draft=None, speculation=speculation)))
        for one in candidates:
            if one.reason is None and self._drafts_with(one):
                arm = space.arm(one.name, speculation.model, speculation.ahead)
                return Known(space.placed(arm))
        kind = MTP_KIND if speculation.is_mtp else MODEL_KIND
        drafter = kind if self.draft is None else f"its draft {self.draft.name}"
        return Known(None, f"{drafter} is none of those that may draft here")

    def _drafts_with(self, one: Candidate) -> bool:
        if self.draft is None or one.is_mtp:
            return self.draft is None and one.is_mtp
        return one.options.path.resolve() == self.draft.resolve()


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSetup:
    """A search: its arms, prompts, limits, study and command."""

    off: Setup
    """The target alone, as a server is to run it; ``extra`` goes to servers that measure."""
    candidates: tuple[Candidate, ...]
    workload: Workload
    space: SearchSpace
    limits: Limits = field(default_factory=Limits)
    study: StudyOptions = field(default_factory=StudyOptions)
    command: CommandOptions = field(default_factory=CommandOptions)
    present: Known[Arm] | None = None
    """The present setting of the user's command; None without a command."""
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
    measurer: Measurer
    """Decodes it."""
    loader: Loading
    """Loads the drafts that the study's arms name."""
    limits: Limits
    on_event: Callable[[TuneEvent], None]
    """Called with every event, on the caller's thread."""
    requests: tuple[RequestShape, ...] = ()
    """Requests that are to gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Prompts that choose a setting by trials, and those that judge it.

    The best of many settings on a few prompts is partly the best for just these, and looks better
    on them than it is: judged on the prompts that chose them, settings that gain 2 % were advised
    as gaining more in a quarter of simulated searches. So no text does both.
    """

    trial_items: tuple[WorkItem, ...]
    """Prompts of every trial: they choose."""
    unseen: tuple[WorkItem, ...]
    """Prompts that no choice sees."""

    @property
    def basis(self) -> Basis:
        """Whether the unseen prompts are enough to judge."""
        return Basis.UNSEEN if len(self.unseen) >= MIN_PROMPTS else Basis.SAME

    @property
    def judges(self) -> tuple[WorkItem, ...]:
        """Prompts to race on where nothing is recorded."""
        return self.unseen if self.basis is Basis.UNSEEN else (*self.unseen, *self.trial_items)


def divide(workload: Workload) -> Division:
    """Divide the prompts of a search, the same ones always in the same way.

    Each part has its share of every category. From ``FEWEST_FOR_BOTH`` prompts on, at least
    ``JUDGES`` of them judge, and the others choose; of fewer, ``MIN_PROMPTS`` do. Where there are
    no more than these, all prompts are timed, and nothing is recommended.
    """
    n = len(workload.items)
    n_judging = JUDGES if n >= FEWEST_FOR_BOTH else MIN_PROMPTS
    n_choosing = min(TRIAL_PROMPTS, n - n_judging if n > n_judging else max(1, n // 2))
    parts: tuple[list[WorkItem], list[WorkItem]] = [], []
    for index, item in enumerate(_by_category(workload.items)):
        chooses = (index + 1) * n_choosing // n > index * n_choosing // n
        parts[not chooses].append(item)
    return Division(trial_items=_in_turn(parts[0]), unseen=_in_turn(parts[1]))


def mixed(items: Sequence[WorkItem]) -> tuple[WorkItem, ...]:
    """Items by chance, always the same, and one of each category after the other.

    So the first ones represent all.
    """
    return _in_turn(_by_category(items))


def _by_category(items: Sequence[WorkItem]) -> list[WorkItem]:
    """Category by category, each in an order by chance, which the prompts themselves seed."""
    chance = Random(digest([item.tokens for item in items]))  # noqa: S311 - not a secret
    return [one for alike in _alike(items) for one in chance.sample(alike, len(alike))]


def _alike(items: Iterable[WorkItem]) -> list[list[WorkItem]]:
    found: dict[str, list[WorkItem]] = {}
    for item in items:
        found.setdefault(item.category, []).append(item)
    return list(found.values())


def _in_turn(items: Iterable[WorkItem]) -> tuple[WorkItem, ...]:
    """One prompt of each category after the other."""
    rows = zip_longest(*_alike(items))
    return tuple(item for item in chain.from_iterable(rows) if item is not None)
