"""The Optuna study behind a tuning run: asks for arms, keeps every record, can be resumed.

The only module that imports optuna.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import optuna
import psutil
from sqlalchemy.exc import SQLAlchemyError

from spectui.closing import Closing
from spectui.errors import BadInputError, UsageError
from spectui.paths import data_dir, ensure_dir
from spectui.tune.parameters import assessed, is_searched, params_of, suggest_arm
from spectui.tune.placements import Placements
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.trials import Arm, TrialRecord, TrialState, speedup_estimate

_RECORD = "record"
_OWNER = "owner"
_SPEC = "spec"
_OFF = "off"
_ARM = "arm"
"""Under which a trial keeps an arm that the parameters cannot give."""
_PLACEMENTS = "placements"
OUTCOME = "outcome"
"""Under which a study keeps what it advised."""
PROMISE = "promise"
"""Under which it keeps what its best setting gained, for ``verify``."""
_STARTUP_TRIALS = 5
_N_SEEDS = 2**32
"""That numpy's generators take."""
_UNSIGNED = timedelta(minutes=1)
"""How long a trial may be without an owner, which is noted right after it is asked for."""
_MIN_IMPORTANCE = 8
"""Completed trials below which the importance of a parameter is a matter of luck."""
_TRIED = (TrialState.COMPLETE, TrialState.FAIL)

optuna.logging.set_verbosity(logging.WARNING)


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
    ) -> None:
        """Open the study, or create it.

        Args:
            name: of the study.
            storage: URL as Optuna takes it.
            spec: what makes trials comparable: machine, models, prompts, settings. A study made
                with another one is refused.
            space: candidates and parameters. Its placements give way to those that the study began
                with: other memory may be free by now.
            sampler: strategy.
            seed: of the strategy.
            must_exist: refuse to create it.

        Raises:
            BadInputError: the storage cannot be used.
            UsageError: the study belongs to another machine, pair or workload, or is missing.
        """
        self.name = name
        self.spec = spec
        self.space = space
        self._url = storage
        self._storage = open_storage(storage)
        self._asked: dict[int, optuna.Trial] = {}
        try:
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
            # A resumed search must not draw the same numbers again.
            study.sampler = _sampler(
                sampler, (seed + len(study.get_trials(deepcopy=False))) % _N_SEEDS
            )
            return study

    def _prepare(self, spec: dict[str, Any]) -> None:
        with self._storage_errors():
            known = self._study.user_attrs.get(_SPEC)
            if known is None:
                self._study.set_user_attr(_SPEC, spec)
                return
            _check_same(self.name, known, spec)
            self._close_abandoned()
            self._check_alone()

    def _keep_placements(self) -> None:
        found = self.space.placements
        if found is None:
            return
        with self._storage_errors():
            kept = self._study.user_attrs.get(_PLACEMENTS)
            if kept is None:
                self._study.set_user_attr(_PLACEMENTS, msgspec.to_builtins(found))
            else:
                self.space = replace(self.space, placements=msgspec.convert(kept, Placements))

    def ask(self) -> Proposal:
        """Choose the next arm and note that this process is at it."""
        with self._storage_errors():
            trial = self._study.ask()
            trial.set_user_attr(_OWNER, _this_process())
            is_off = bool(trial.user_attrs.get(_OFF))
            arm = _fixed_arm(trial) or suggest_arm(trial, self.space, is_off=is_off)
            proposal = Proposal(number=self._next_number(), arm=arm)
            self._asked[proposal.number] = trial
            self._store(_unmeasured(proposal, TrialState.RUNNING))
            return proposal

    def _next_number(self) -> int:
        """Optuna's own numbers have gaps, where a run was interrupted before what it had queued."""
        return 1 + max((record.number for record in self.records()), default=-1)

    def finish(self, record: TrialRecord) -> None:
        """Store a measured trial and tell the sampler its speedup."""
        with self._storage_errors():
            self._store_and_tell(record)

    def fail(self, proposal: Proposal, reason: str) -> TrialRecord:
        """Store that a trial could not be measured, and why."""
        return self._give_up(_unmeasured(proposal, TrialState.FAIL, reason))

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
            trials = self._study.get_trials(deepcopy=False)
        return tuple(_decode(trial) for trial in trials if _RECORD in trial.user_attrs)

    def completed(self) -> tuple[TrialRecord, ...]:
        """Trials that were measured."""
        return tuple(r for r in self.records() if r.state is TrialState.COMPLETE)

    def keep(self, outcome: dict[str, Any]) -> None:
        """Store what the search advised in its end, as ``stored.to_plain`` gives it."""
        with self._storage_errors():
            self._study.set_user_attr(OUTCOME, outcome)

    def keep_promise(self, promise: dict[str, Any]) -> None:
        """Store what its best setting gained, as ``stored.to_plain`` gives it."""
        with self._storage_errors():
            self._study.set_user_attr(PROMISE, promise)

    def importance(self) -> tuple[tuple[str, float], ...]:
        """(parameter, share of the speedup's variance that it explains), largest first.

        PED-ANOVA (Watanabe et al. 2023, arXiv 2304.10255). Empty as long as there are too few
        trials, or none that differ.
        """
        names = assessed(self.space)
        trials = self._assessed(names)
        if len(trials) < _MIN_IMPORTANCE and Parameter.AHEAD in names:
            # Where no forecast was for it, no trial has it.
            names.remove(Parameter.AHEAD)
            trials = self._assessed(names)
        if len(trials) < _MIN_IMPORTANCE or not names:
            return ()
        # Trials of another kind of drafter would only say how good that kind is.
        alike = optuna.create_study(direction="maximize")
        alike.add_trials(trials)
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        try:
            found = optuna.importance.get_param_importances(
                alike, evaluator=evaluator, params=names
            )
        except (RuntimeError, ValueError):
            # Its ways of saying that the trials are too few or all alike.
            return ()
        return tuple(sorted(found.items(), key=lambda item: -item[1]))

    def _assessed(self, names: Sequence[str]) -> list[optuna.trial.FrozenTrial]:
        """Completed trials that have these parameters."""
        trials = self._study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
        return [trial for trial in trials if set(names) <= set(trial.params)]

    def begin(self) -> None:
        """Queue off, which everything is compared with."""
        # What an interrupted run left waiting may be of another order, or of an older space.
        self._forget_waiting()
        self.enqueue((self.space.off,))

    def follow(self, arms: Sequence[Arm], *, chains: bool = True) -> None:
        """Queue what is tried after off; then the sampler chooses.

        Those for which the target lies alike stay together, as moving it may take as long as a
        trial.

        Args:
            arms: what is worth a trial, the most urgent first.
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
        """What the user has or gets without tuning, besides off."""
        return self.space.first_arms()[1:]

    def allows(self, arm: Arm) -> bool:
        """Whether an arm of an earlier run is in the present space."""
        speculation = arm.speculation
        return speculation is None or not speculation.ngrams or self.space.with_ngrams

    def _forget_waiting(self) -> None:
        with self._storage_errors():
            for trial in self._study.get_trials(deepcopy=False):
                if trial.state is optuna.trial.TrialState.WAITING:
                    self._storage.set_trial_state_values(
                        trial._trial_id,  # noqa: SLF001 - nothing public ends a waiting trial
                        optuna.trial.TrialState.FAIL,
                    )

    def enqueue(self, arms: Sequence[Arm]) -> None:
        """Queue the arms that are neither tried nor waiting: they come before the sampler's."""
        with self._storage_errors():
            self._enqueue(arms)

    def _enqueue(self, arms: Sequence[Arm]) -> None:
        waiting = [
            (trial.system_attrs.get("fixed_params"), trial.user_attrs)
            for trial in self._study.get_trials(deepcopy=False)
            if trial.state is optuna.trial.TrialState.WAITING
        ]
        tried = {record.arm for record in self.records() if record.state in _TRIED}
        for arm in dict.fromkeys(arms):
            params, marks = self._queued(arm)
            if arm not in tried and (params, marks) not in waiting:
                self._study.enqueue_trial(params, user_attrs=marks)

    def _queued(self, arm: Arm) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters of a trial of ``arm``, and what is noted with it."""
        marks: dict[str, Any] = {_OFF: arm.is_off}
        if is_searched(arm, self.space):
            return params_of(arm, self.space), marks
        return {}, {**marks, _ARM: msgspec.to_builtins(arm)}

    def _store(self, record: TrialRecord) -> None:
        self._asked[record.number].set_user_attr(_RECORD, msgspec.to_builtins(record))

    def _store_and_tell(self, record: TrialRecord) -> None:
        self._store(record)
        self._tell(self._asked[record.number].number, record)

    def _close_abandoned(self) -> None:
        """Trials whose process has died would stay RUNNING in the storage for ever."""
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state is not optuna.trial.TrialState.RUNNING or not _is_dead(trial):
                continue
            if _RECORD in trial.user_attrs:
                # It may have ended between being measured and being told.
                self._tell(trial.number, _decode(trial))
            else:
                self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)

    def _tell(self, of_optuna: int, record: TrialRecord) -> None:
        """Tell the sampler, whose own number of the trial is ``of_optuna``."""
        value = None
        if record.state is TrialState.COMPLETE:
            value = speedup_estimate(record, self.completed())
        if value is None:
            self._study.tell(of_optuna, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(of_optuna, value)

    def _storage_errors(self) -> AbstractContextManager[None]:
        return storage_errors(self._url)

    def _check_alone(self) -> None:
        """Refuse a study that another process works on: they would slow each other down."""
        for trial in self._study.get_trials(deepcopy=False):
            if trial.state is optuna.trial.TrialState.RUNNING and not _is_dead(trial):
                owner = trial.user_attrs.get(_OWNER, {})
                raise UsageError(
                    f"process {owner.get('pid')} on {owner.get('host')} is working on the study "
                    f"{self.name}; wait for it, or choose another --study"
                )

    def close(self) -> None:
        """Let go of the storage."""
        self._storage.remove_session()
        self._storage.engine.dispose()


def own_storage_file() -> Path:
    """The storage in the user's data folder."""
    return data_dir() / "studies.sqlite3"


def own_storage() -> str:
    """URL of the same; its folder is made if need be."""
    ensure_dir(data_dir())
    return f"sqlite:///{own_storage_file()}"


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Say in a sentence what goes wrong with a storage meanwhile.

    Raises:
        BadInputError: something did.
    """
    try:
        yield
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        raise _unusable(url, error) from error


def open_storage(url: str) -> optuna.storages.RDBStorage:
    """Open what is there, or make it.

    Raises:
        BadInputError: the storage cannot be used.
    """
    try:
        return optuna.storages.RDBStorage(url)
    except Exception as error:
        raise _unusable(url, error) from error


def _unusable(storage: str, error: Exception) -> BadInputError:
    # Storages raise classes of their drivers, or ImportError for a driver that is missing.
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadInputError(
        f"the storage {storage} cannot be used ({reason}); "
        "check --storage, or leave it out to use a file of spectui's own"
    )


def _sampler(kind: Sampler, seed: int) -> optuna.samplers.BaseSampler:
    match kind:
        case Sampler.TPE:
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP_TRIALS)
        case Sampler.RANDOM:
            return optuna.samplers.RandomSampler(seed=seed)


def _check_same(name: str, known: dict[str, Any], spec: dict[str, Any]) -> None:
    differing = [key for key in spec if known.get(key) != spec[key]]
    if differing:
        raise UsageError(
            f"the study {name} was made with another {' and '.join(differing)}; its trials cannot "
            "be compared with new ones, so choose another --study"
        )


def _this_process() -> dict[str, Any]:
    return {"host": os.uname().nodename, "pid": os.getpid()}


def _is_dead(trial: optuna.trial.FrozenTrial) -> bool:
    owner = trial.user_attrs.get(_OWNER)
    if owner is None:
        # Its process ended between asking for it and signing it, unless it is at that just now.
        started = trial.datetime_start
        return started is None or datetime.now() - started > _UNSIGNED  # noqa: DTZ005 - Optuna's
    if owner["host"] != os.uname().nodename:
        return False
    return owner["pid"] == os.getpid() or not psutil.pid_exists(owner["pid"])


def _unmeasured(proposal: Proposal, state: TrialState, error: str | None = None) -> TrialRecord:
    return TrialRecord(number=proposal.number, state=state, arm=proposal.arm, error=error)


def _fixed_arm(trial: optuna.Trial) -> Arm | None:
    """The arm of a trial whose parameters cannot give it."""
    kept = trial.user_attrs.get(_ARM)
    return None if kept is None else msgspec.convert(kept, Arm)


def _decode(trial: optuna.trial.FrozenTrial) -> TrialRecord:
    record = msgspec.convert(trial.user_attrs[_RECORD], TrialRecord)
    if record.state is TrialState.RUNNING and trial.state.is_finished():
        reason = "its process ended before it was measured"
        return replace(record, state=TrialState.INTERRUPTED, error=reason)
    return record
