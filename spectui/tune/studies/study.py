"""The study behind a tuning run: proposes arms, keeps every record, can be resumed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import optuna
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.storages._heartbeat import BaseHeartbeatThread, get_heartbeat_thread
from optuna.trial import TrialState as States

from spectui.closing import Closing
from spectui.documents import encoded
from spectui.errors import EngineDiedError, SpectuiError
from spectui.measure.arm import Arm
from spectui.measure.comparable import spec_digest
from spectui.monitor.machine import this_machine
from spectui.tune.layouts import Layouts
from spectui.tune.places import Knob, PlaceTrial
from spectui.tune.space import SearchSpace
from spectui.tune.studies import records
from spectui.tune.studies.parameters import parameters_of, suggest_arm
from spectui.tune.studies.storage import RETRY, Storage
from spectui.tune.trials import LEFT, TrialRecord, TrialState


class PlaceStudy(records.Part):
    """Keeps the places that were tried."""

    def __init__(self, storage: BaseStorage, study: str, knobs: Sequence[Knob]) -> None:
        """Open it, or create it.

        Args:
            storage: that of the study that it belongs to.
            study: name of that one.
            knobs: what may be varied.
        """
        super().__init__(storage, study, ".places")
        self.knobs = tuple(knobs)
        """Parameters that may vary."""

    def trials(self) -> tuple[PlaceTrial, ...]:
        """Places that were tried, in that order."""
        return msgspec.convert(self.values(records.RECORD), tuple[PlaceTrial, ...])

    def add(self, trial: PlaceTrial, request_s: float) -> None:
        """Keep a trial; ``request_s`` is infinite where the place could not be measured."""
        is_measured = math.isfinite(request_s)
        self.keep(
            records.RECORD,
            encoded(trial),
            state=States.COMPLETE if is_measured else States.FAIL,
            value=1 / request_s if is_measured else None,
            params=dict(trial.values),
            distributions={one.name: CategoricalDistribution(one.values) for one in self.knobs},
        )


T = TypeVar("T")
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


class TuningStudy(Closing):
    """One study in one storage. Close it, or use it as a context manager.

    In a database each machine has one of its own under a common name: prices differ, and so do
    trials and verdicts. Machines of the same kind share theirs: each measures the next arm, and all
    know what was measured. The arm of a process that has ended is measured again.
    """

    def __init__(
        self, name: str, options: StudyOptions, *, spec: dict[str, Any], space: SearchSpace
    ) -> None:
        """Open the study, or create it.

        Args:
            name: name of the study.
            options: storage, and seed of the sampler.
            spec: what makes trials comparable: machine, models, prompts, settings. A study made
                with another one is refused; in a database only where recordings would differ.
            space: candidates and parameters. Its layouts give way to those that the study began
                with: other memory may be free by now.

        Raises:
            BadInputError: the storage cannot be used.
            UsageError: the study belongs to another machine, pair or workload.
        """
        self.name = name
        self.spec = spec
        self.space = space
        self._queue: list[Arm] = []
        """Arms to measure before the sampler chooses."""
        self._held: dict[int, tuple[int, BaseHeartbeatThread]] = {}
        """Trials that this process is at, as the storage numbers them, by the number of their
        record."""
        self._opened = Storage(options.storage)
        self._storage = optuna.storages.get_storage(self._opened.database)
        try:
            self._opened.lock(name)
            with self._opened.errors():
                self._load(options)
                self._take_up()
        except BaseException:
            self.close()
            raise

    def _load(self, options: StudyOptions) -> None:
        """Load or create the study, in a database that of this kind of machine."""
        name, is_shared = self.name, self._opened.is_shared
        self.stored = self._created(name)
        """The study as Optuna has it."""
        known = self.stored.user_attrs[records.SPEC]
        if not records.check_same(name, known, self.spec, is_shared=is_shared):
            self.name = f"{name}@{spec_digest(self.spec)}"
            self.stored = self._created(self.name)
            self.stored.set_user_attr("group", name)
        group = self.stored.user_attrs.get("group", self.name)
        recordings = records.Recordings(self._opened, group)
        self.recordings = recordings if is_shared else None
        """Recordings of all machines; None in a file."""
        self.stored.set_user_attr(records.SCHEMA, records.STUDY_SCHEMA)
        if is_shared:
            self.stored.set_user_attr("machine", this_machine().label)
        # Machines that begin alike would all measure the same, and so would a search that goes on.
        n_trials = len(self.stored.get_trials(deepcopy=False))
        seed = None if is_shared else (options.seed + n_trials) % _N_SEEDS
        self.stored.sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=_STARTUP_TRIALS
        )

    def _created(self, name: str) -> optuna.Study:
        found = optuna.create_study(
            study_name=name, storage=self._storage, direction="maximize", load_if_exists=True
        )
        known = found.user_attrs
        records.check_study(name, known)
        if records.SPEC not in known:
            found.set_user_attr(records.SPEC, self.spec)
        return found

    def _take_up(self) -> None:
        """Close the trials of processes that have ended, and go on with the study's layouts."""
        optuna.storages.fail_stale_trials(self.stored)
        if not self._opened.is_shared:
            # A file has no heartbeats, and nobody else works on its study.
            for trial in self.stored.get_trials(states=(States.RUNNING,)):
                self._end(self._id_of(trial.number), States.FAIL)
                RETRY(self.stored, trial)
        if self.space.layouts is None:
            return
        kept = self.stored.user_attrs.get("layouts")
        if kept is None:
            self.keep(layouts=self.space.layouts)
        else:
            self.space = replace(self.space, layouts=msgspec.convert(kept, Layouts))

    def kept(self, key: str, kind: type[T]) -> T | None:
        """Value under a key; None without one that this spectui reads."""
        with self._opened.errors():
            return records.from_plain(self.stored.user_attrs.get(key), kind)

    def places(self, knobs: Sequence[Knob]) -> PlaceStudy:
        """The study of the places that ``knobs`` give, which goes with this one."""
        with self._opened.errors():
            return PlaceStudy(self._opened.database, self.name, knobs)

    def ask(self) -> TrialRecord:
        """Choose the next arm and note that this process is at it.

        Queued arms come first, then those that ended processes have left, and then the
        sampler's choice.
        """
        with self._opened.errors():
            optuna.storages.fail_stale_trials(self.stored)
            taken = {one.arm for one in self.records() if _is_taken(one)}
            self._queue = [arm for arm in self._queue if arm not in taken]
            if self._queue:
                return self._begin(self._queue.pop(0))
            trial = self.stored.ask()
            left = records.from_plain(trial.user_attrs.get(records.RECORD), TrialRecord)
            arm = suggest_arm(trial, self.space) if left is None else left.arm
            return self._begun(self._id_of(trial.number), arm)

    def _begin(self, arm: Arm) -> TrialRecord:
        chosen = parameters_of(arm, self.space)
        template = optuna.trial.create_trial(
            state=States.RUNNING, params=chosen.params, distributions=chosen.distributions
        )
        return self._begun(self._storage.create_new_trial(self._study_id, template), arm)

    def _begun(self, trial_id: int, arm: Arm) -> TrialRecord:
        number = self._storage.get_trial_number_from_id(trial_id)
        proposal = TrialRecord(number=number, state=TrialState.RUNNING, arm=arm)
        # Without a beat, a trial whose process is killed would be at work for ever.
        heartbeat = get_heartbeat_thread(trial_id, self._storage)
        heartbeat.start()
        self._keep(trial_id, proposal)
        self._held[number] = trial_id, heartbeat
        return proposal

    def finish(self, record: TrialRecord) -> bool:
        """Store how a trial ended, with the speedup of one that was measured, for the sampler.

        Returns:
            False where another process has taken its arm for left, as after a sleep of this
            machine; then this measurement is dropped.
        """
        trial_id, heartbeat = self._held.pop(record.number)
        heartbeat.join()
        with self._opened.errors():
            try:
                self._keep(trial_id, record)
                if record.speedup is not None:
                    self._end(trial_id, States.COMPLETE, record.speedup)
                else:
                    self._end(trial_id, States.FAIL)
            except UpdateFinishedTrialError:
                return False
        return True

    def _keep(self, trial_id: int, record: TrialRecord) -> None:
        self._storage.set_trial_user_attr(trial_id, records.RECORD, encoded(record))

    def _end(self, trial_id: int, state: States, *values: float) -> None:
        # ``Study.tell`` looks first and then writes, in two transactions.
        self._storage.set_trial_state_values(trial_id, state, values or None)

    @property
    def _study_id(self) -> int:
        return self._storage.get_study_id_from_name(self.name)

    def _id_of(self, number: int) -> int:
        """Number of a trial in its storage, of all studies."""
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def fail(self, proposal: TrialRecord, error: SpectuiError) -> TrialRecord:
        """Store that a trial could not be measured, and why."""
        log = error.log if isinstance(error, EngineDiedError) else ()
        record = replace(proposal, state=TrialState.FAIL, error=str(error), log=log)
        self.finish(record)
        return record

    def interrupt(self, proposal: TrialRecord) -> TrialRecord:
        """Store that a trial was stopped; another may try its arm again."""
        record = replace(proposal, state=TrialState.INTERRUPTED, error="interrupted")
        self.finish(record)
        return record

    def records(self) -> tuple[TrialRecord, ...]:
        """All trials that have begun, by number."""
        with self._opened.errors():
            return records.trials_of(self.stored)

    def keep(self, **parts: object) -> None:
        """Store what the search found by its name in ``listing.Kept``; None is left out."""
        with self._opened.errors():
            for name, part in parts.items():
                if part is not None:
                    self.stored.set_user_attr(name, encoded(part))

    def follow(self, arms: Sequence[Arm]) -> None:
        """Queue the arms of the first trials, the most urgent first; then the sampler chooses.

        Arms with the same layout of the target stay together, as a move may take as long as a
        trial.
        """
        arms = (*filter(None, (self.space.present,)), *arms)
        places = list(dict.fromkeys(arm.layout for arm in arms))
        self.enqueue(sorted(arms, key=lambda arm: places.index(arm.layout)))

    def enqueue(self, arms: Sequence[Arm]) -> None:
        """Queue arms; those that are tried by then are passed over."""
        self._queue = list(dict.fromkeys((*self._queue, *arms)))

    def close(self) -> None:
        """Let go of the storage."""
        try:
            for _trial, heartbeat in self._held.values():
                heartbeat.join()
        finally:
            self._opened.close()


def _is_taken(record: TrialRecord) -> bool:
    """Whether a trial's arm is not queued: it is tried, or somebody is at it or was.

    An arm that a process has left is Optuna's to queue.
    """
    return record.is_tried or record.state is TrialState.RUNNING or record.error == LEFT
