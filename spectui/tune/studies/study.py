"""The study behind a tuning run: proposes arms, keeps every record, can be resumed."""

import math
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import optuna
from filelock import FileLock
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.storages._heartbeat import BaseHeartbeatThread, get_heartbeat_thread

from spectui.closing import Closing
from spectui.errors import DoesNotFitError, EngineDiedError, SpectuiError, UsageError
from spectui.measure.arm import Arm
from spectui.measure.comparable import spec_digest
from spectui.monitor.machine import this_machine
from spectui.tune.layouts import Layouts
from spectui.tune.places import Knob, PlaceTrial, Placing
from spectui.tune.space import Parameter, SearchSpace
from spectui.tune.studies import records
from spectui.tune.studies.parameters import suggest_arm
from spectui.tune.studies.recordings import Recordings
from spectui.tune.studies.storage import (
    address_of,
    close_storage,
    is_file,
    lock_study,
    open_storage,
    storage_errors,
)
from spectui.tune.trials import TrialRecord, TrialState, deadly


class PlaceStudy:
    """Keeps the places that were tried."""

    def __init__(self, storage: BaseStorage, study: str, knobs: Sequence[Knob]) -> None:
        """Open it, or create it.

        Args:
            storage: that of the study that it belongs to.
            study: name of that one.
            knobs: what may be varied.
        """
        self._stored = records.part_of(storage, study, ".places")
        self.knobs = tuple(knobs)
        """Parameters that may vary."""
        self._choices: dict[str, BaseDistribution] = {
            one.name: CategoricalDistribution(one.values) for one in knobs
        }

    def trials(self) -> tuple[PlaceTrial, ...]:
        """Places that were tried, in that order."""
        kept = [one.user_attrs[records.RECORD] for one in self._stored.get_trials(deepcopy=False)]
        return tuple(msgspec.convert(one, PlaceTrial) for one in kept)

    def add(self, trial: PlaceTrial, request_s: float) -> None:
        """Keep a trial; ``request_s`` is infinite where the place could not be measured."""
        is_measured, states = math.isfinite(request_s), optuna.trial.TrialState
        self._stored.add_trial(
            optuna.trial.create_trial(
                state=states.COMPLETE if is_measured else states.FAIL,
                value=1 / request_s if is_measured else None,
                params=dict(trial.values),
                distributions=self._choices,
                user_attrs={records.RECORD: msgspec.to_builtins(trial)},
            )
        )


T = TypeVar("T")
_MOST_DRAWS = 100
"""Settings that a sampler may propose in vain."""
_DRAWS_APART = 10
"""As many may be those that others are at."""
_N_SEEDS = 2**32
"""Number of seeds that numpy's generators take."""
_STARTUP_TRIALS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """Study that keeps the trials."""

    name: str | None = None
    """None for one that follows from the conditions."""
    storage: str | None = None
    """Optuna URL; None for the file in the user's data folder."""
    seed: int = 0
    """Seed of the sampler."""
    must_exist: bool = False
    """Whether to refuse to create it."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Options of the search as they were typed, which the study keeps for its report."""


class TuningStudy(Closing):
    """One study in one storage. Close it, or use it as a context manager.

    In a database each machine has one of its own under a common name: prices differ, and so do
    trials and verdicts. Machines of the same kind share theirs: each measures the next arm, and all
    know what was measured. The arm of a process that has ended is measured again.
    """

    def __init__(
        self,
        name: str,
        options: StudyOptions,
        *,
        spec: dict[str, Any],
        space: SearchSpace,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Open the study, or create it.

        Args:
            name: name of the study.
            options: storage, and seed of the sampler.
            spec: what makes trials comparable: machine, models, prompts, settings. A study made
                with another one is refused; in a database only where recordings would differ.
            space: candidates and parameters. Its layouts give way to those that the study began
                with: other memory may be free by now.
            say: told what a user has to wait for.

        Raises:
            BadInputError: the storage cannot be used.
            UsageError: the study belongs to another machine, pair or workload, or is missing.
        """
        self.name = name
        self.spec = spec
        self.space = space
        self._url = address_of(options.storage)
        self._owner = {"host": os.uname().nodename, "pid": os.getpid()}
        self._queue: list[Arm] = []
        """Arms to measure before the sampler chooses."""
        self._lock: FileLock | None = None
        self._held: dict[int, tuple[optuna.Trial, BaseHeartbeatThread]] = {}
        """Trials that this process is at, by the number of their record."""
        self._storage = open_storage(self._url, say)
        try:
            self._lock = lock_study(self._url, name)
            with storage_errors(self._url):
                self._load(options)
        except BaseException:
            self.close()
            raise

    def _load(self, options: StudyOptions) -> None:
        """Load or create the study."""
        name, is_shared = self.name, not self._is_alone
        if not self._loaded(options) and is_shared:
            self.name = f"{name}@{spec_digest(self.spec)}"
            self._loaded(options)
            self.stored.set_user_attr(records.GROUP, name)
        self.stored.set_user_attr(records.SCHEMA, records.STUDY_SCHEMA)
        if options.arguments:
            self.stored.set_user_attr(records.ARGUMENTS, dict(options.arguments))
        group = self.stored.user_attrs.get(records.GROUP, self.name)
        self.recordings = Recordings(self._url, self._storage, group) if is_shared else None
        """Recordings of all machines; None in a file."""
        if is_shared:
            self.stored.set_user_attr(records.MACHINE, this_machine().label)
        records.close_left(self.stored, is_alone=self._is_alone)
        self._keep_layouts()

    def _loaded(self, options: StudyOptions) -> bool:
        """Load or create the study of this name; whether its trials compare with new ones."""
        name, storage, is_shared = self.name, self._storage, not self._is_alone
        if options.must_exist and name not in optuna.get_all_study_names(storage):
            raise UsageError(f"there is no study {name} to resume; leave out --resume")
        self.stored = optuna.create_study(
            study_name=name, storage=storage, direction="maximize", load_if_exists=True
        )
        """The study as Optuna has it."""
        # Machines that begin alike would all measure the same, and so would a search that goes on.
        seed = options.seed + secrets.randbelow(_N_SEEDS) * is_shared
        self.stored.sampler = optuna.samplers.TPESampler(
            seed=(seed + len(self.stored.get_trials(deepcopy=False))) % _N_SEEDS,
            n_startup_trials=_STARTUP_TRIALS,
        )
        known = self.stored.user_attrs
        records.check_study(name, known)
        if records.SPEC not in known:
            self.stored.set_user_attr(records.SPEC, self.spec)
            # Another machine may have begun it in the same moment.
            known = self.stored.user_attrs
        return records.check_same(name, known[records.SPEC], self.spec, is_shared=is_shared)

    @property
    def _is_alone(self) -> bool:
        """Whether no other process works on the study."""
        return is_file(self._url)

    def _keep_layouts(self) -> None:
        found = self.space.layouts
        if found is None:
            return
        kept = self.stored.user_attrs.get(records.LAYOUTS)
        if kept is None:
            self.stored.set_user_attr(records.LAYOUTS, msgspec.to_builtins(found))
        else:
            self.space = replace(self.space, layouts=msgspec.convert(kept, Layouts))

    @property
    def placing(self) -> Placing | None:
        """Where the target was found to be fastest by itself; None where that was not searched."""
        return self.kept(records.PLACING, Placing)

    def kept(self, key: str, kind: type[T]) -> T | None:
        """Value under a key; None without one that this spectui reads."""
        with storage_errors(self._url):
            return records.from_plain(self.stored.user_attrs.get(key), kind)

    def places(self, knobs: Sequence[Knob]) -> PlaceStudy:
        """The study of the places that ``knobs`` give, which goes with this one."""
        with storage_errors(self._url):
            return PlaceStudy(self._storage, self.name, knobs)

    def ask(self) -> TrialRecord:
        """Choose the next arm and note that this process is at it.

        What is queued comes first, then what processes have left that ended, and then the
        sampler's choice.

        Raises:
            EngineDiedError: the sampler finds no arm that may be measured.
        """
        with storage_errors(self._url):
            optuna.storages.fail_stale_trials(self.stored)
            known = self.records()
            running = [one for one in known if one.state is TrialState.RUNNING]
            # Every machine measures off, which its trials are compared with.
            taken = _taken(known) | {one.arm for one in running if not one.arm.is_off}
            waiting = (*self._queue, *records.left(known, self.space))
            arm = next((one for one in waiting if one not in taken), None)
            if arm is None:
                elsewhere = {one.arm for one in running if one.number not in self._held}
                return self._begun(*self._sampled(deadly(known), elsewhere))
            self._queue = [one for one in self._queue if one != arm]
            return self._begun(records.begin(self.stored, arm, self.space), arm)

    def _begun(self, trial: optuna.Trial, arm: Arm) -> TrialRecord:
        # Optuna's own numbers have gaps, where the sampler proposed what is not measured; but only
        # who is alone can choose others.
        number = trial.number
        if self._is_alone:
            number = 1 + max((record.number for record in self.records()), default=-1)
        proposal = TrialRecord(number=number, state=TrialState.RUNNING, arm=arm)
        # Without a beat, a trial whose process is killed would be at work for ever.
        heartbeat = get_heartbeat_thread(records.id_of(trial), self._storage)
        heartbeat.start()
        trial.set_user_attr(records.OWNER, self._owner)
        trial.set_user_attr(records.RECORD, msgspec.to_builtins(proposal))
        self._held[number] = trial, heartbeat
        return proposal

    def _sampled(
        self, never: Collection[Arm], elsewhere: Collection[Arm]
    ) -> tuple[optuna.Trial, Arm]:
        """The sampler's next choice that may be measured.

        Args:
            never: arms that may not.
            elsewhere: arms that others are at, which wait for a few draws.

        Raises:
            EngineDiedError: it finds none.
        """
        for draw in range(_MOST_DRAWS):
            trial = self.stored.ask()
            arm = suggest_arm(trial, self.space, is_off=False)
            if arm not in never and (arm not in elsewhere or draw >= _DRAWS_APART):
                return trial, arm
            records.end(self.stored, records.id_of(trial), optuna.trial.TrialState.FAIL)
        raise EngineDiedError(
            f"every setting that the study {self.name} would try has ended its process twice; "
            "search other drafts or ranges, with another --study"
        )

    def finish(self, record: TrialRecord) -> bool:
        """Store how a trial ended, and tell the sampler the speedup of one that was measured.

        Returns:
            False where another process has taken its arm for left, as after a sleep of this
            machine; then this measurement is dropped.
        """
        trial, heartbeat = self._held.pop(record.number)
        heartbeat.join()
        trial_id = records.id_of(trial)
        with storage_errors(self._url):
            try:
                trial.set_user_attr(records.RECORD, msgspec.to_builtins(record))
                records.tell(self.stored, trial_id, record)
            except UpdateFinishedTrialError:
                # A connection may have ended after it was kept; then it is.
                return records.decode_trial(self._storage.get_trial(trial_id)) == record
        return True

    def fail(self, proposal: TrialRecord, error: SpectuiError) -> TrialRecord:
        """Store that a trial could not be measured, or was pruned, and why."""
        state = TrialState.PRUNED if isinstance(error, DoesNotFitError) else TrialState.FAIL
        record = replace(proposal, state=state, error=str(error))
        if isinstance(error, EngineDiedError):
            record = replace(record, died=True, log=error.log)
        self.finish(record)
        return record

    def interrupt(self, proposal: TrialRecord) -> TrialRecord:
        """Store that a trial was stopped; another may try its arm again."""
        record = replace(proposal, state=TrialState.INTERRUPTED, error="interrupted")
        self.finish(record)
        return record

    def records(self) -> tuple[TrialRecord, ...]:
        """All trials that have begun, by number."""
        with storage_errors(self._url):
            return records.stored(self.stored)

    def keep(self, **parts: object) -> None:
        """Store what the search found by its name in ``records``; None is left out."""
        with storage_errors(self._url):
            for name, part in parts.items():
                if part is not None:
                    self.stored.set_user_attr(name, records.to_plain(part))

    def begin(self) -> None:
        """Queue off, which everything is compared with."""
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
        places = list(dict.fromkeys(arm.layout for arm in arms))
        self.enqueue(sorted(arms, key=lambda arm: places.index(arm.layout)))

    def enqueue(self, arms: Sequence[Arm]) -> None:
        """Queue the arms that are neither tried nor waiting: they come before the sampler's."""
        taken = _taken(self.records())
        self._queue = list(
            dict.fromkeys((*self._queue, *(arm for arm in arms if arm not in taken)))
        )

    def close(self) -> None:
        """Let go of the storage."""
        try:
            for _trial, heartbeat in self._held.values():
                heartbeat.join()
        finally:
            close_storage(self._storage)
            if self._lock is not None:
                self._lock.release()


def _taken(known: Sequence[TrialRecord]) -> frozenset[Arm]:
    """Arms that are not tried again: measured ones, and those that cannot be."""
    return deadly(known) | {one.arm for one in known if one.state.is_tried and not one.died}
