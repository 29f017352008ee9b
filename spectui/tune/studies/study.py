"""The study behind a tuning run: proposes arms, keeps every record, can be resumed."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import optuna
from filelock import FileLock
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage

from spectui.closing import Closing
from spectui.errors import DoesNotFitError, EngineDiedError, SpectuiError, UsageError
from spectui.measure.arm import Arm
from spectui.measure.comparable import of_any_machine
from spectui.tune.experts import Placements
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.studies import records
from spectui.tune.studies.conducting import Conducting, Offer, Phase
from spectui.tune.studies.lease import Leases, Renewal, Watch, running, this_process
from spectui.tune.studies.sampling import N_SEEDS, Sampler, give_sampler
from spectui.tune.studies.storage import (
    claiming,
    close_storage,
    is_file,
    lock_study,
    open_storage,
    storage_errors,
    usual_storage,
)
from spectui.tune.trials import TrialRecord, TrialState, deadly

_MOST_DRAWS = 100
"""Settings that a sampler may propose in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """Study that keeps the trials."""

    name: str | None = None
    """None for one that follows from the conditions."""
    storage: str | None = None
    """Optuna URL; None for the file in the user's data folder."""
    sampler: Sampler = Sampler.TPE
    seed: int = 0
    """Seed of the sampler."""
    must_exist: bool = False
    """Whether to refuse to create it."""
    joins: bool = False
    """Whether another process conducts it, beside which trials are measured here."""
    group: str | None = None
    """Name of a study of its own for a worker of other hardware, beside the one it joins; it is
    made of what that has tried so far."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Options of the search as they were typed, which the study keeps for its workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An arm to measure, under a trial number."""

    number: int
    arm: Arm


class TuningStudy(Closing):
    """One study in one storage. Close it, or use it as a context manager.

    One process conducts it: says which arms come first, and when it has ended. Workers measure
    trials beside it. Who is at a trial has a lease of it; of one whose holder is gone, the arm is
    queued again, and what the holder measures later is dropped.
    """

    def __init__(
        self,
        name: str,
        options: StudyOptions,
        *,
        spec: dict[str, Any],
        space: SearchSpace,
        isolated: bool = False,
        say: Callable[[str], None] = lambda _text: None,
        watch: Watch | None = None,
    ) -> None:
        """Open the study, or create it.

        Args:
            name: name of the study, or of that beside which a group is.
            options: storage and strategy, and whether it is conducted or joined.
            spec: what makes trials comparable: machine, models, prompts, settings. A study made
                with another one is refused.
            space: candidates and parameters. Its placements give way to those that the study began
                with: other memory may be free by now.
            isolated: whether the models are in processes of their own, which may end alone.
            say: told what a user has to wait for.
            watch: tells which leases are stale.

        Raises:
            BadInputError: the storage cannot be used.
            UsageError: the study belongs to another machine, pair or workload, or is missing.
        """
        self.name = name if options.group is None else f"{name}{records.GROUP}{options.group}"
        self.is_group = options.group is not None
        """Whether it is a group of other machines beside a study."""
        self.spec = spec
        self.space = space
        self._url = options.storage or usual_storage()
        self._say = say
        self._known: records.Known = {}
        self._lock: FileLock | None = None
        self._opened: list[Closing] = []
        self.is_new = True
        """Whether it was created now."""
        self._storage = open_storage(self._url, say)
        try:
            if not options.joins:
                self._lock = lock_study(self._url, name)
            with storage_errors(self._url):
                self._join(name, options, isolated=isolated, watch=watch or Watch())
        except BaseException:
            self.close()
            raise

    def _join(self, beside: str, options: StudyOptions, *, isolated: bool, watch: Watch) -> None:
        """Load or create the study, and conduct it or follow who does."""
        owner = this_process(isolated=isolated, worker=options.joins)
        self.stored = _loaded(self.name, self._storage, options)
        """The study as Optuna has it."""
        records.check_study(self.name, self.stored.user_attrs)
        known = self.stored.user_attrs.get(records.SPEC)
        self.is_new = known is None
        if known is not None:
            joins = options.joins and not self.is_group
            records.check_same(self.name, known, self.spec, joins=joins)
        self.stored.set_user_attr(records.SCHEMA, records.STUDY_SCHEMA)
        conducted = self.stored
        if self.is_group:
            conducted = optuna.load_study(study_name=beside, storage=self._storage)
            self._follow_study(conducted)
        self.conducting = Conducting(
            conducted, self._url, owner, watch, self._say, for_group=self.is_group
        )
        """Who conducts the study, and what there is for workers."""
        self._opened.append(self.conducting)
        self._leases = Leases(self.stored, owner, watch)
        if not options.joins:
            self.conducting.begin(is_alone=self._lock is not None)
            if options.arguments:
                self.stored.set_user_attr(records.ARGUMENTS, dict(options.arguments))
            if self.is_new:
                # Workers join once it has this.
                self.stored.set_user_attr(records.SPEC, self.spec)
            self._close_left()
        self._keep_placements()
        self._opened.append(Renewal(self._leases.renew, self.conducting.renew).start())

    def _close_left(self) -> None:
        """Close the trials that earlier conductors left."""
        with claiming(self._url):
            for trial in running(self.stored):
                # Who conducts is alone; workers may be at their trials.
                owner = trial.user_attrs.get(records.OWNER)
                unsigned = owner is None and is_file(self._url)
                if unsigned or (owner is not None and not owner.get("worker")):
                    records.close_trial(self.stored, trial, self._known)

    def _follow_study(self, beside: optuna.Study) -> None:
        """Queue what another study has tried, the best first."""
        known = of_any_machine(beside.user_attrs.get(records.SPEC, {}))
        records.check_same(beside.study_name, known, of_any_machine(self.spec))
        if self.is_new:
            self.stored.set_user_attr(records.SPEC, self.spec)
            placements = beside.user_attrs.get(records.PLACEMENTS)
            if placements is not None:
                self.stored.set_user_attr(records.PLACEMENTS, placements)
        found = [one for one in records.completed(beside, {}) if not one.arm.is_off]
        best = sorted(found, key=lambda one: -(one.relative or 0.0))
        self.enqueue([one.arm for one in best])

    def _keep_placements(self) -> None:
        found = self.space.placements
        if found is None:
            return
        kept = self.stored.user_attrs.get(records.PLACEMENTS)
        if kept is None:
            self.stored.set_user_attr(records.PLACEMENTS, msgspec.to_builtins(found))
        else:
            self.space = replace(self.space, placements=msgspec.convert(kept, Placements))

    def ask(self) -> Proposal:
        """Choose the next arm and note that this process is at it."""
        with storage_errors(self._url):
            self._leases.take_over(self._known, self._say)
            with claiming(self._url):
                trial, arm = self._ask()
                return self._begun(trial, arm)

    def claim(self, arm: Arm) -> Proposal:
        """Begin a trial of ``arm``, whatever is queued."""
        with storage_errors(self._url), claiming(self._url):
            trial = records.begin(self.stored, arm, self.space, self._leases.owner)
            return self._begun(trial, records.chosen(trial, self.space))

    def _begun(self, trial: optuna.Trial, arm: Arm) -> Proposal:
        # Optuna's own numbers have gaps, where a run was interrupted before what it had queued; but
        # only a file lets one process at a time choose others.
        number = trial.number
        if is_file(self._url):
            number = 1 + max((record.number for record in self.records()), default=-1)
        proposal = Proposal(number=number, arm=arm)
        records.store(trial, _unmeasured(proposal, TrialState.RUNNING))
        self._leases.held[number] = trial
        return proposal

    def _ask(self) -> tuple[optuna.Trial, Arm]:
        """The next trial whose arm may be measured.

        Raises:
            EngineDiedError: the sampler finds none.
        """
        never = deadly(self.records())
        for _draw in range(_MOST_DRAWS):
            trial = self.stored.ask()
            trial.set_user_attr(records.OWNER, self._leases.owner)
            arm = records.chosen(trial, self.space)
            if arm not in never:
                return trial, arm
            records.end(self.stored, records.id_of(trial), optuna.trial.TrialState.FAIL)
        raise EngineDiedError(
            f"every setting that the study {self.name} would try has ended its process twice; "
            "search other drafts or ranges, with another --study"
        )

    def n_elsewhere(self) -> int:
        """Number of trials that other processes are at; those left by them are queued again."""
        with storage_errors(self._url):
            self._leases.take_over(self._known, self._say)
            return len(self._leases.others())

    def finish(self, record: TrialRecord) -> bool:
        """Store how a trial ended, and tell the sampler the speedup of one that was measured.

        Returns:
            False where another process has taken the trial over; then this one is dropped.
        """
        trial = self._leases.held.pop(record.number)
        with storage_errors(self._url):
            try:
                records.store(trial, record)
                records.tell(self.stored, records.id_of(trial), record, self._known)
            except UpdateFinishedTrialError:
                # A connection may have ended after it was kept; then it is.
                kept = records.record_of(self._storage.get_trial(records.id_of(trial)))
                return kept == record
        return True

    def fail(self, proposal: Proposal, error: SpectuiError) -> TrialRecord:
        """Store that a trial could not be measured, or was pruned, and why."""
        state = TrialState.PRUNED if isinstance(error, DoesNotFitError) else TrialState.FAIL
        record = _unmeasured(proposal, state, str(error))
        if isinstance(error, EngineDiedError):
            record = replace(record, died=True, log=error.log)
        self.finish(record)
        return record

    def interrupt(self, proposal: Proposal) -> TrialRecord:
        """Store that a trial was stopped; another may try its arm again."""
        record = _unmeasured(proposal, TrialState.INTERRUPTED, "interrupted")
        self.finish(record)
        return record

    def records(self) -> tuple[TrialRecord, ...]:
        """All trials that have begun, by number."""
        with storage_errors(self._url):
            return records.stored(self.stored, self._known)

    def keep(
        self, outcome: object, promise: object | None, predictions: object | None = None
    ) -> None:
        """Store what the search found in its end.

        Args:
            outcome: what it advised.
            promise: what its best setting gained; None where that is not known.
            predictions: what was predicted of all settings; None where nothing was replayed.
        """
        with storage_errors(self._url):
            self.stored.set_user_attr(records.OUTCOME, records.to_plain(outcome))
            if promise is not None:
                self.stored.set_user_attr(records.PROMISE, records.to_plain(promise))
            if predictions is not None:
                self.stored.set_user_attr(records.PREDICTIONS, records.to_plain(predictions))

    def begin(self) -> None:
        """Queue off, which everything is compared with."""
        self.conducting.offer(Offer(phase=Phase.PREPARING))
        with storage_errors(self._url):
            records.forget_waiting(self.stored)
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

    def enqueue(self, arms: Sequence[Arm]) -> None:
        """Queue the arms that are neither tried nor waiting: they come before the sampler's."""
        with storage_errors(self._url):
            known = self.records()
            tried = {one.arm for one in known if one.state.is_tried and not one.died}
            records.enqueue(self.stored, arms, self.space, tried=tried | deadly(known))

    def close(self) -> None:
        """Let go of the storage."""
        try:
            for one in reversed(self._opened):
                one.close()
        finally:
            close_storage(self._storage)
            if self._lock is not None:
                self._lock.release()


def _loaded(name: str, storage: BaseStorage, options: StudyOptions) -> optuna.Study:
    must_exist = options.must_exist or (options.joins and options.group is None)
    if must_exist and name not in optuna.get_all_study_names(storage):
        raise UsageError(f"there is no study {name} to resume; leave out --resume")
    study = optuna.create_study(
        study_name=name, storage=storage, direction="maximize", load_if_exists=True
    )
    # Workers that begin alike would all measure the same.
    give_sampler(study, options.sampler, options.seed + secrets.randbelow(N_SEEDS) * options.joins)
    return study


def _unmeasured(proposal: Proposal, state: TrialState, error: str | None = None) -> TrialRecord:
    return TrialRecord(number=proposal.number, state=state, arm=proposal.arm, error=error)
