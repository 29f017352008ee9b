"""The study behind a tuning run: proposes arms, keeps every record, can be resumed."""

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec
import optuna
from filelock import FileLock
from optuna.exceptions import UpdateFinishedTrialError

from spectui.closing import Closing
from spectui.errors import DoesNotFitError, EngineDiedError, SpectuiError, UsageError
from spectui.measure.arm import Arm
from spectui.measure.comparable import differences
from spectui.options.stored import check_schema
from spectui.tune.experts import Placements
from spectui.tune.parameters import assessed
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.studies import machines, records
from spectui.tune.studies.lease import Owner, Renewal, Watch, this_process
from spectui.tune.studies.machines import GROUP
from spectui.tune.studies.storage import (
    claiming,
    close_storage,
    is_file,
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
_CONDUCTOR = "conductor"
_OFFER = "offer"
ARGUMENTS = "arguments"
"""Under which it keeps the options of its search, for workers to repeat."""
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


class Phase(StrEnum):
    """What a study has for workers."""

    PREPARING = "preparing"
    TRIALS = "trials"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Trials that workers may ask for."""

    phase: Phase
    n_trials: int = 0
    """Limit of all trials of the study."""
    chains: bool = True
    """As in ``TuningStudy.follow``."""


class TuningStudy(Closing):
    """One study in one storage. Close it, or use it as a context manager.

    One process conducts it: says which arms come first, and when it has ended. Workers measure
    trials beside it. Who is at a trial has a lease of it; of one whose holder is gone, the arm is
    queued again, and what the holder measures later is dropped.
    """

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
        worker: bool = False,
        group: str | None = None,
        say: Callable[[str], None] = lambda _text: None,
        watch: Watch | None = None,
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
            worker: measure trials of a study that another process conducts.
            group: keep a worker's trials in a study of this name beside ``name``; it is made of
                what that has tried so far.
            say: told what a user has to wait for.
            watch: tells which leases are stale.

        Raises:
            BadInputError: the storage cannot be used.
            UsageError: the study belongs to another machine, pair or workload, or is missing.
        """
        self.name = name if group is None else f"{name}{GROUP}{group}"
        self.is_group = group is not None
        """Whether it is a group of other machines beside a study."""
        self._beside = name
        self.spec = spec
        self.space = space
        self._url = storage
        self._owner = this_process(isolated=isolated, worker=worker)
        self._say = say
        self._watch = watch or Watch()
        self._asked: dict[int, optuna.Trial] = {}
        self._known: records.Known = {}
        self._lock: FileLock | None = None
        self._conducts = False
        self._renewal = Renewal(self._renew)
        self._storage = open_storage(storage, say)
        self.is_new = True
        """Whether it was created now."""
        try:
            if not worker:
                self._lock = lock_study(storage, name)
            else:
                seed += secrets.randbelow(_N_SEEDS)
            self._study = self._create_or_load(
                sampler, seed, must_exist=must_exist or (worker and group is None)
            )
            self._prepare(spec, worker=worker)
            self._keep_placements()
            self._renewal.start()
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

    def _prepare(self, spec: dict[str, Any], *, worker: bool) -> None:
        with self._storage_errors():
            check_study(self.name, self._study.user_attrs)
            known = self._study.user_attrs.get(SPEC)
            self._study.set_user_attr(SCHEMA, STUDY_SCHEMA)
            self.is_new = known is None
            if known is not None:
                _check_same(self.name, known, spec, worker=worker and not self.is_group)
            if worker:
                if self.is_group:
                    self._follow_study(spec)
                return
            self._conduct()
            if known is None:
                self._study.set_user_attr(SPEC, spec)
            with claiming(self._url):
                for trial in _running(self._study):
                    # Who conducts is alone; workers may be at their trials.
                    owner = trial.user_attrs.get(records.OWNER)
                    unsigned = owner is None and is_file(self._url)
                    if unsigned or (owner is not None and not owner.get("worker")):
                        records.close_trial(self._study, trial, self._known)

    def _follow_study(self, spec: dict[str, Any]) -> None:
        """Queue what the study beside has tried, the best first."""
        beside = optuna.load_study(study_name=self._beside, storage=self._storage)
        known = {**beside.user_attrs.get(SPEC, {}), "machine": spec["machine"]}
        _check_same(self._beside, known, spec)
        if self.is_new:
            self._study.set_user_attr(SPEC, spec)
            placements = beside.user_attrs.get(PLACEMENTS)
            if placements is not None:
                self._study.set_user_attr(PLACEMENTS, placements)
        found = [one for one in records.completed(beside, {}) if not one.arm.is_off]
        best = sorted(found, key=lambda one: -(one.relative or 0.0))
        self.enqueue([one.arm for one in best])

    def _conduct(self) -> None:
        """Become the one that conducts the study.

        Raises:
            UsageError: another process does.
        """
        if self._lock is None:
            seen = None
            while (owner := self._conductor()) and not self._watch.is_gone(_CONDUCTOR, owner):
                is_here = owner.get("host") == os.uname().nodename
                if is_here or (seen is not None and seen != owner):
                    raise UsageError(
                        f"process {owner.get('pid')} on {owner.get('host')} is working on the "
                        f"study {self.name}; wait for it, or choose another --study"
                    )
                if seen is None:
                    self._say(
                        f"process {owner.get('pid')} on {owner.get('host')} has worked on the "
                        f"study {self.name}; a minute shows whether it still does"
                    )
                seen = owner
                _PAUSE.wait(1)
        self._conducts = True
        self._study.set_user_attr(_CONDUCTOR, self._owner)

    def _conductor(self) -> Owner | None:
        owner: Owner | None = self._study.user_attrs.get(_CONDUCTOR)
        return owner

    def _renew(self) -> None:
        """Raise the counters of all leases, on a thread of its own."""
        study_id = self._study._study_id  # noqa: SLF001 - what storages take
        self._owner = {**self._owner, "beat": self._owner["beat"] + 1}
        held = [records.id_of(trial) for trial in list(self._asked.values())]
        # The next beat tries again, and a trial that was taken over shows when it has ended.
        for trial_id in held:
            with suppress(Exception):
                self._storage.set_trial_user_attr(trial_id, records.OWNER, self._owner)
        with suppress(Exception):
            if self._conducts:
                self._storage.set_study_user_attr(study_id, _CONDUCTOR, self._owner)
        with suppress(Exception):
            for one in _running(self._study):
                self._watch.is_gone(records.id_of(one), one.user_attrs.get(records.OWNER))

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
            self._take_over()
            with claiming(self._url):
                trial, arm = self._ask()
                return self._begun(trial, arm)

    def claim(self, arm: Arm) -> Proposal:
        """Begin a trial of ``arm``, whatever is queued."""
        with self._storage_errors(), claiming(self._url):
            trial = records.begin(self._study, arm, self.space, self._owner)
            return self._begun(trial, records.chosen(trial, self.space))

    def _begun(self, trial: optuna.Trial, arm: Arm) -> Proposal:
        # Optuna's own numbers have gaps, where a run was interrupted before what it had queued; but
        # only a file lets one process at a time choose others.
        number = self._next_number() if is_file(self._url) else trial.number
        proposal = Proposal(number=number, arm=arm)
        records.store(trial, _unmeasured(proposal, TrialState.RUNNING))
        self._asked[number] = trial
        return proposal

    def _ask(self) -> tuple[optuna.Trial, Arm]:
        """The next trial whose arm may be measured.

        Raises:
            EngineDiedError: the sampler finds none.
        """
        never = deadly(self.records())
        for _draw in range(_MOST_DRAWS):
            trial = self._study.ask()
            trial.set_user_attr(records.OWNER, self._owner)
            arm = records.chosen(trial, self.space)
            if arm not in never:
                return trial, arm
            records.end(self._study, records.id_of(trial), optuna.trial.TrialState.FAIL)
        raise EngineDiedError(
            f"every setting that the study {self.name} would try has ended its process twice; "
            "search other drafts or ranges, with another --study"
        )

    def _next_number(self) -> int:
        return 1 + max((record.number for record in self.records()), default=-1)

    def _take_over(self) -> None:
        """Close the trials whose holders are gone, and queue their arms again."""
        for trial in self._others():
            owner = trial.user_attrs.get(records.OWNER)
            if not self._watch.is_gone(records.id_of(trial), owner):
                continue
            if records.close_trial(self._study, trial, self._known):
                records.requeue(self._study, trial)
                at = "nobody" if owner is None else f"process {owner['pid']} on {owner['host']}"
                self._say(f"a trial that {at} has left is queued again")

    def _others(self) -> list[optuna.trial.FrozenTrial]:
        """Trials that other processes are at."""
        own = {trial.number for trial in self._asked.values()}
        return [trial for trial in _running(self._study) if trial.number not in own]

    def n_elsewhere(self) -> int:
        """Number of trials that other processes are at; those left by them are queued again."""
        with self._storage_errors():
            self._take_over()
            return len(self._others())

    def keep_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Store the options of the search, for its workers."""
        with self._storage_errors():
            self._study.set_user_attr(ARGUMENTS, dict(arguments))

    def measured_by(self) -> dict[str, int]:
        """Numbers of measured trials by the name of the machine."""
        with self._storage_errors():
            return {row.host: row.n_trials for row in machines.of_study(self._study)}

    def offer(self, offer: Offer) -> None:
        """Say what there is for workers."""
        with self._storage_errors():
            self._study.set_user_attr(_OFFER, msgspec.to_builtins(offer))

    def offered(self) -> Offer:
        """What there is for workers: nothing more once who conducts the study is gone."""
        with self._storage_errors():
            study = self._study
            if self.is_group:
                study = optuna.load_study(study_name=self._beside, storage=self._storage)
            attrs = study.user_attrs
            offer = records.from_plain(attrs.get(_OFFER), Offer) or Offer(phase=Phase.PREPARING)
            owner = attrs.get(_CONDUCTOR)
            if self.is_group:
                # It has an end of its own.
                return replace(offer, phase=Phase.TRIALS if offer.n_trials else Phase.PREPARING)
            if owner and self._watch.is_gone(_CONDUCTOR, owner):
                return replace(offer, phase=Phase.ENDED)
            return offer

    def finish(self, record: TrialRecord) -> bool:
        """Store a measured trial and tell the sampler its speedup.

        Returns:
            False where another process has taken the trial over; then this one is dropped.
        """
        with self._storage_errors():
            return self._store_and_tell(record)

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
            return records.stored(self._study, self._known)

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
            self.offer(Offer(phase=Phase.PREPARING))
            records.forget_waiting(self._study)
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
        self.restrict(chains=chains)
        arms = (*filter(None, (self.space.present,)), *arms)
        places = list(dict.fromkeys(arm.n_cpu_moe for arm in arms))
        self.enqueue(sorted(arms, key=lambda arm: places.index(arm.n_cpu_moe)))

    def restrict(self, *, chains: bool) -> None:
        """Have the sampler put no n-gram drafters ahead of a draft model, unless ``chains``."""
        if not chains:
            self.space = replace(self.space, tuned=self.space.tuned - {Parameter.AHEAD})

    @property
    def defaults(self) -> tuple[Arm, ...]:
        """Arms that the user has or gets without tuning, besides off."""
        return self.space.first_arms()[1:]

    def enqueue(self, arms: Sequence[Arm]) -> None:
        """Queue the arms that are neither tried nor waiting: they come before the sampler's."""
        with self._storage_errors():
            known = self.records()
            tried = {one.arm for one in known if one.state.is_tried and not one.died}
            records.enqueue(self._study, arms, self.space, tried=tried | deadly(known))

    def _store_and_tell(self, record: TrialRecord) -> bool:
        trial = self._asked.pop(record.number)
        try:
            records.store(trial, record)
            records.tell(self._study, records.id_of(trial), record, self._known)
        except UpdateFinishedTrialError:
            # A connection may have ended after it was kept; then it is.
            kept = records.record_of(self._storage.get_trial(records.id_of(trial)))
            return kept == record
        return True

    def _storage_errors(self) -> AbstractContextManager[None]:
        return storage_errors(self._url)

    def close(self) -> None:
        """Let go of the storage."""
        self._renewal.close()
        try:
            if self._conducts:
                with suppress(SpectuiError), self._storage_errors():
                    self._study.set_user_attr(_CONDUCTOR, None)
        finally:
            close_storage(self._storage)
            if self._lock is not None:
                self._lock.release()


def _check_same(
    name: str, known: dict[str, Any], spec: dict[str, Any], *, worker: bool = False
) -> None:
    differing = differences({key: known.get(key) for key in spec}, spec)
    if differing is None:
        return
    if worker:
        beside = ""
        if known.get("machine") != spec.get("machine"):
            beside = "; --group NAME keeps this machine's trials as a study of its own beside it"
            same = {**known, "machine": spec.get("machine")}
            if differences({key: same.get(key) for key in spec}, spec) is not None:
                beside += ", of the same models, prompts and settings"
        raise UsageError(
            f"the study {name} was made {differing}, so that what this one would measure cannot be "
            f"compared{beside or '; give what it was made with'}"
        )
    raise UsageError(
        f"the study {name} was made {differing}; its trials cannot be compared with new ones, "
        "so choose another --study"
    )


def _unmeasured(proposal: Proposal, state: TrialState, error: str | None = None) -> TrialRecord:
    return TrialRecord(number=proposal.number, state=state, arm=proposal.arm, error=error)


def study_arguments(storage: str, wanted: str) -> tuple[str, dict[str, Any]]:
    """Full name of a study that workers can join, and the options that it was begun with.

    Raises:
        BadInputError: the storage cannot be used.
        UsageError: there is none of that name, or it was not begun by ``tune``.
    """
    opened = open_storage(storage)
    try:
        with storage_errors(storage):
            names = optuna.get_all_study_names(opened)
            found = [name for name in names if name == wanted]
            found = found or [name for name in names if wanted in name and GROUP not in name]
            if len(found) != 1:
                there = "several studies have that in their name" if found else "there is none"
                raise UsageError(
                    f"no study to join is named {wanted} ({there}); begin it with spectui tune "
                    f"--study {wanted} and the same --storage"
                )
            study = optuna.load_study(study_name=found[0], storage=opened)
            arguments = study.user_attrs.get(ARGUMENTS)
    finally:
        close_storage(opened)
    if arguments is None:
        raise UsageError(
            f"the study {found[0]} does not keep what it was begun with; go on with it by spectui "
            "tune, and then let workers join"
        )
    return found[0], arguments


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
_PAUSE = threading.Event()
"""Never set."""


def _running(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
