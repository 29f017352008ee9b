"""The study behind a tuning run: proposes arms, keeps every record, can be resumed."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
import optuna
import psutil
from filelock import FileLock

from spectui.closing import Closing
from spectui.errors import DoesNotFitError, EngineDiedError, SpectuiError, UsageError
from spectui.measure.arm import Arm
from spectui.measure.comparable import differences
from spectui.options.stored import check_schema
from spectui.tune.experts import Placements
from spectui.tune.parameters import assessed
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.studies import records
from spectui.tune.studies.storage import (
    close_storage,
    lock_study,
    open_storage,
    storage_errors,
)
from spectui.tune.trials import TrialRecord, TrialState, deadly

SPEC = "spec"
"""Under which a study keeps what its trials have in common."""
PLACEMENTS = "placements"
"""Under which it keeps where the target lies beside each draft."""
SCHEMA = "schema"
"""Under which it keeps the version of all this; nothing where an older spectui made it."""
STUDY_SCHEMA = "spectui.study/1"
OUTCOME = "outcome"
"""Under which a study keeps what it advised."""
PROMISE = "promise"
"""Under which it keeps what its best setting gained, for ``verify``."""


def check_study(name: str, attributes: Mapping[str, Any]) -> None:
    """Refuse a study that this spectui does not read.

    Raises:
        BadInputError: a newer one made it, or it was not imported whole.
    """
    check_schema(
        attributes.get(SCHEMA, STUDY_SCHEMA),
        STUDY_SCHEMA,
        f"the study {name}",
        what="study",
        advice="delete it with spectui studies delete, or give another --study",
    )


class Sampler(StrEnum):
    """Search strategies of ``--sampler``."""

    TPE = "tpe"
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An arm to measure, under a trial number."""

    number: int
    arm: Arm


class TuningStudy(Closing):
    """One study in one storage. Close it, or use it as a context manager."""

    def __init__(
        self,
        *,
        name: str,
        storage: str,
        spec: dict[str, Any],
        space: SearchSpace,
        sampler: Sampler,
        seed: int,
        must_exist: bool = False,
        isolated: bool = False,
    ) -> None:
        """Open the study, or create it.

        Args:
            name: name of the study.
            storage: URL as Optuna takes it.
            spec: what makes trials comparable: machine, models, prompts, settings. A study made
                with another one is refused.
            space: candidates and parameters. Its placements give way to those that the study began
                with: other memory may be free by now.
            sampler: strategy.
            seed: seed of the strategy.
            must_exist: refuse to create it.
            isolated: whether the models are in processes of their own, which may end alone.

        Raises:
            BadInputError: the storage cannot be used.
            UsageError: the study belongs to another machine, pair or workload, or is missing.
        """
        self.name = name
        self.spec = spec
        self.space = space
        self._url = storage
        self._owner = {**_this_process(), "isolated": isolated}
        self._storage = open_storage(storage)
        self._lock: FileLock | None = None
        self._asked: dict[int, optuna.Trial] = {}
        self.is_new = True
        """Whether it was created now."""
        try:
            self._lock = lock_study(storage, name)
            self._study = self._create_or_load(sampler, seed, must_exist=must_exist)
            self._prepare(spec)
            self._keep_placements()
        except BaseException:
            self.close()
            raise

    def _create_or_load(self, sampler: Sampler, seed: int, *, must_exist: bool) -> optuna.Study:
        with self._storage_errors():
            if must_exist and self.name not in optuna.get_all_study_names(self._storage):
                raise UsageError(f"there is no study {self.name} to resume; leave out --resume")
            study = optuna.create_study(
                study_name=self.name,
                storage=self._storage,
                direction="maximize",
                load_if_exists=True,
            )
            give_sampler(study, sampler, seed)
            return study

    def _prepare(self, spec: dict[str, Any]) -> None:
        with self._storage_errors():
            check_study(self.name, self._study.user_attrs)
            known = self._study.user_attrs.get(SPEC)
            self._study.set_user_attr(SCHEMA, STUDY_SCHEMA)
            self.is_new = known is None
            if known is None:
                self._study.set_user_attr(SPEC, spec)
                return
            _check_same(self.name, known, spec)
            for trial in _running(self._study):
                # Who has the lock is alone: no other process can be at it.
                if self._lock is not None or _is_dead(trial):
                    records.close_trial(self._study, trial)
            _check_alone(self._study)

    def has_beside(self, name: str) -> bool:
        """Whether the storage holds a study of that name."""
        with self._storage_errors():
            return name in optuna.get_all_study_names(self._storage)

    def _keep_placements(self) -> None:
        found = self.space.placements
        if found is None:
            return
        with self._storage_errors():
            kept = self._study.user_attrs.get(PLACEMENTS)
            if kept is None:
                self._study.set_user_attr(PLACEMENTS, msgspec.to_builtins(found))
            else:
                self.space = replace(self.space, placements=msgspec.convert(kept, Placements))

    def ask(self) -> Proposal:
        """Choose the next arm and note that this process is at it."""
        with self._storage_errors():
            trial, arm = self._ask()
            proposal = Proposal(number=self._next_number(), arm=arm)
            self._asked[proposal.number] = trial
            records.store(trial, _unmeasured(proposal, TrialState.RUNNING))
            return proposal

    def _ask(self) -> tuple[optuna.Trial, Arm]:
        """The next trial whose arm may be measured.

        Raises:
            EngineDiedError: the sampler finds none.
        """
        never = deadly(records.stored(self._study))
        for _draw in range(_MOST_DRAWS):
            trial = self._study.ask()
            trial.set_user_attr(records.OWNER, self._owner)
            arm = records.chosen(trial, self.space)
            if arm not in never:
                return trial, arm
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        raise EngineDiedError(
            f"every setting that the study {self.name} would try has ended its process twice; "
            "search other drafts or ranges, with another --study"
        )

    def _next_number(self) -> int:
        """Optuna's own numbers have gaps, where a run was interrupted before what it had queued."""
        return 1 + max((record.number for record in self.records()), default=-1)

    def finish(self, record: TrialRecord) -> None:
        """Store a measured trial and tell the sampler its speedup."""
        with self._storage_errors():
            self._store_and_tell(record)

    def fail(self, proposal: Proposal, error: SpectuiError) -> TrialRecord:
        """Store that a trial could not be measured, or was pruned, and why."""
        state = TrialState.PRUNED if isinstance(error, DoesNotFitError) else TrialState.FAIL
        record = _unmeasured(proposal, state, str(error))
        if isinstance(error, EngineDiedError):
            record = replace(record, died=True, log=error.log)
        return self._give_up(record)

    def interrupt(self, proposal: Proposal) -> TrialRecord:
        """Store that a trial was stopped; another may try its arm again."""
        return self._give_up(_unmeasured(proposal, TrialState.INTERRUPTED, "interrupted"))

    def _give_up(self, record: TrialRecord) -> TrialRecord:
        with self._storage_errors():
            self._store_and_tell(record)
        return record

    def records(self) -> tuple[TrialRecord, ...]:
        """All trials that have begun, by number."""
        with self._storage_errors():
            return records.stored(self._study)

    def keep(self, outcome: object, promise: object | None) -> None:
        """Store what the search advised in its end, and what its best setting gained, if known."""
        with self._storage_errors():
            self._study.set_user_attr(OUTCOME, records.to_plain(outcome))
            if promise is not None:
                self._study.set_user_attr(PROMISE, records.to_plain(promise))

    def importance(self) -> tuple[tuple[str, float], ...]:
        """(parameter, share of the speedup's variance that it explains), largest first.

        Empty as long as there are too few trials, or none that differ.
        """
        return _importance(self._study, self.space)

    def begin(self) -> None:
        """Queue off, which everything is compared with."""
        with self._storage_errors():
            records.forget_waiting(self._study, self._storage)
        self.enqueue((self.space.off,))

    def follow(self, arms: Sequence[Arm], *, chains: bool = True) -> None:
        """Queue what is tried after off; then the sampler chooses.

        Those for which the target lies alike stay together, as moving it may take as long as a
        trial.

        Args:
            arms: arms worth a trial, the most urgent first.
            chains: whether the sampler may put n-gram drafters ahead of a draft model. Where no
                forecast says that this gains, it would only find the same settings once more.
        """
        if not chains:
            self.space = replace(self.space, tuned=self.space.tuned - {Parameter.AHEAD})
        arms = (*filter(None, (self.space.present,)), *arms)
        places = list(dict.fromkeys(arm.n_cpu_moe for arm in arms))
        self.enqueue(sorted(arms, key=lambda arm: places.index(arm.n_cpu_moe)))

    @property
    def defaults(self) -> tuple[Arm, ...]:
        """Arms that the user has or gets without tuning, besides off."""
        return self.space.first_arms()[1:]

    def enqueue(self, arms: Sequence[Arm]) -> None:
        """Queue the arms that are neither tried nor waiting: they come before the sampler's."""
        with self._storage_errors():
            known = records.stored(self._study)
            tried = {one.arm for one in known if one.state.is_tried and not one.died}
            records.enqueue(self._study, arms, self.space, tried=tried | deadly(known))

    def _store_and_tell(self, record: TrialRecord) -> None:
        trial = self._asked[record.number]
        records.store(trial, record)
        records.tell(self._study, trial.number, record)

    def _storage_errors(self) -> AbstractContextManager[None]:
        return storage_errors(self._url)

    def close(self) -> None:
        """Let go of the storage."""
        close_storage(self._storage)
        if self._lock is not None:
            self._lock.release()


def _check_same(name: str, known: dict[str, Any], spec: dict[str, Any]) -> None:
    differing = differences({key: known.get(key) for key in spec}, spec)
    if differing is not None:
        raise UsageError(
            f"the study {name} was made {differing}; its trials cannot be compared with new ones, "
            "so choose another --study"
        )


def _unmeasured(proposal: Proposal, state: TrialState, error: str | None = None) -> TrialRecord:
    return TrialRecord(number=proposal.number, state=state, arm=proposal.arm, error=error)


_FEWEST = 8
"""Completed trials below which the importance of a parameter is a matter of luck."""


def _importance(study: optuna.Study, space: SearchSpace) -> tuple[tuple[str, float], ...]:
    """As ``TuningStudy.importance``.

    PED-ANOVA (Watanabe et al. 2023, arXiv 2304.10255). Empty as long as there are too few
    trials, or none that differ.
    """
    names = assessed(space)
    trials = _that_have(names, study)
    if len(trials) < _FEWEST and Parameter.AHEAD in names:
        # Where no forecast was for it, no trial has it.
        names.remove(Parameter.AHEAD)
        trials = _that_have(names, study)
    if len(trials) < _FEWEST or not names:
        return ()
    # Trials of another kind of drafter would only say how good that kind is.
    alike = optuna.create_study(direction="maximize")
    alike.add_trials(trials)
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    try:
        found = optuna.importance.get_param_importances(alike, evaluator=evaluator, params=names)
    except (RuntimeError, ValueError):
        # Its ways of saying that the trials are too few or all alike.
        return ()
    return tuple(sorted(found.items(), key=lambda item: -item[1]))


def _that_have(names: Sequence[str], study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Completed trials that have these parameters."""
    trials = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    return [trial for trial in trials if set(names) <= set(trial.params)]


_STARTUP_TRIALS = 5
_N_SEEDS = 2**32
"""Number of seeds that numpy's generators take."""


def give_sampler(study: optuna.Study, kind: Sampler, seed: int) -> None:
    """Have a study choose by this strategy; a resumed search must not draw the same again."""
    study.sampler = _sampler(kind, (seed + len(study.get_trials(deepcopy=False))) % _N_SEEDS)


def _sampler(kind: Sampler, seed: int) -> optuna.samplers.BaseSampler:
    match kind:
        case Sampler.TPE:
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP_TRIALS)
        case Sampler.RANDOM:
            return optuna.samplers.RandomSampler(seed=seed)


_MOST_DRAWS = 100
"""Settings that a sampler may propose in vain."""
_UNSIGNED = timedelta(minutes=1)
"""Time for which a trial may have no owner, who is noted right after it is asked for."""


def _check_alone(study: optuna.Study) -> None:
    """Refuse a study that another process works on: they would slow each other down.

    Raises:
        UsageError: one does.
    """
    for trial in _running(study):
        if not _is_dead(trial):
            owner = trial.user_attrs.get(records.OWNER, {})
            raise UsageError(
                f"process {owner.get('pid')} on {owner.get('host')} is working on the study "
                f"{study.study_name}; wait for it, or choose another --study"
            )


def _running(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))


def _this_process() -> dict[str, Any]:
    return {"host": os.uname().nodename, "pid": os.getpid()}


def _is_dead(trial: optuna.trial.FrozenTrial) -> bool:
    owner = trial.user_attrs.get(records.OWNER)
    if owner is None:
        # Its process ended between asking for it and signing it, unless it is at that just now.
        started = trial.datetime_start
        return started is None or datetime.now() - started > _UNSIGNED  # noqa: DTZ005 - Optuna's
    if owner["host"] != os.uname().nodename:
        return False
    return owner["pid"] == os.getpid() or not psutil.pid_exists(owner["pid"])
