"""Forms in which an Optuna study keeps records of trials, arms that wait, and all else."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState as States

from spectui.errors import BadInputError, UsageError
from spectui.measure.arm import Arm
from spectui.measure.comparable import UNLISTED, counted, differences, misses_gpus, wherever_built
from spectui.monitor.machine import this_machine
from spectui.options.stored import check_schema, current, is_of_fast_schedule
from spectui.tune.space import SearchSpace
from spectui.tune.studies.parameters import is_searched, params_of, suggest_arm
from spectui.tune.trials import TrialRecord, TrialState, speedup_estimate

SPEC = "spec"
"""Under which a study keeps what its trials have in common."""
LAYOUTS = "layouts"
"""Under which it keeps how the target lies beside each draft."""
PLACING = "placing"
"""Under which it keeps the place in which the target was found to be fastest by itself."""
PART_OF = "places_of"
"""Under which a study of places or of recordings keeps the name of the study that it goes with."""
GROUP = "group"
"""Under which a study of a database keeps the name under which all machines have theirs; nothing
where that is its own."""
MACHINE = "machine"
"""Under which a study of a database keeps the hardware, for a table of machines."""
SCHEMA = "schema"
"""Under which it keeps the version of all this; nothing where an older spectui made it."""
STUDY_SCHEMA = "spectui.study/1"
ARGUMENTS = "arguments"
"""Under which it keeps the options of its search, for its report."""
OUTCOME = "outcome"
"""Under which it keeps what it advised."""
PROMISE = "promise"
"""Under which it keeps what its best setting gained, for ``verify``."""
PREDICTIONS = "predictions"
"""Under which it keeps what every replayed setting was predicted to gain; nothing where none was
replayed, and where an older spectui made it."""
OWNER = "owner"
"""Under which a trial keeps the process that measures it."""
RECORD = "record"
"""Under which it keeps what was measured."""


def part_of(storage: BaseStorage, study: str, suffix: str) -> optuna.Study:
    """The study that goes with another one, and keeps a part of it in trials of its own."""
    part = optuna.create_study(
        study_name=f"{study}{suffix}", storage=storage, direction="maximize", load_if_exists=True
    )
    part.set_user_attr(PART_OF, study)
    return part


def check_study(name: str, attributes: Mapping[str, Any]) -> None:
    """Refuse a study that this spectui does not read.

    Raises:
        BadInputError: a newer one made it, it was not imported whole, or it was measured on the
            ``fast`` schedule.
    """
    check_schema(
        attributes.get(SCHEMA, STUDY_SCHEMA),
        STUDY_SCHEMA,
        f"the study {name}",
        what="study",
        advice="delete it with spectui studies delete, or give another --study",
    )
    if any(is_of_fast_schedule(attributes.get(key)) for key in (SPEC, OUTCOME, PROMISE)):
        raise BadInputError(
            f"the study {name} was measured with --schedule fast, which is gone: llama-server "
            "never did so little work per round; tune again without it, as another --study"
        )


def check_same(
    name: str, known: Mapping[str, Any], spec: Mapping[str, Any], *, is_shared: bool = False
) -> bool:
    """Refuse to mix trials that cannot be compared.

    Args:
        name: name of the study.
        known: what its trials have in common.
        spec: what new ones would have.
        is_shared: whether machines may have a study each under this name.

    Returns:
        Whether they can be compared; False where only prices differ, and ``is_shared``.

    Raises:
        UsageError: says what differs, and what to do.
    """
    known, spec = wherever_built(known), wherever_built(spec)
    known = {key: known.get(key) for key in {*spec, "host"}}
    differing = differences(known, spec)
    if differing is None:
        return True
    if misses_gpus(known, spec):
        reason = this_machine().gpu_problem or "no NVIDIA driver is loaded, or it knows no GPU"
        raise UsageError(
            f"the study {name} was made {UNLISTED}: {reason}; run this again once nvidia-smi "
            "lists them, or choose another --study"
        )
    if is_shared:
        differing = differences(counted(known), counted(spec))
        if differing is None:
            return False
    raise UsageError(
        f"the study {name} was made {differing}; its trials cannot be compared with new ones, "
        "so choose another --study"
    )


def store(trial: optuna.Trial, record: TrialRecord) -> None:
    """Keep a record with its trial."""
    trial.set_user_attr(RECORD, msgspec.to_builtins(record))


Known = dict[int, TrialRecord]
"""Decoded records of finished trials, which change no more, by Optuna's number."""


def stored(study: optuna.Study, known: Known) -> tuple[TrialRecord, ...]:
    """All trials that have begun, by number; what is decoded is added to ``known``."""
    found = []
    for trial in study.get_trials(deepcopy=False):
        record = known.get(trial.number)
        if record is None and RECORD in trial.user_attrs:
            record = _decode(trial)
            if trial.state.is_finished():
                known[trial.number] = record
        if record is not None:
            found.append(record)
    return tuple(sorted(found, key=lambda one: one.number))


def tell(study: optuna.Study, trial_id: int, record: TrialRecord, known: Known) -> None:
    """End a trial of Optuna's, whose value is the speedup.

    Raises:
        UpdateFinishedTrialError: it has ended already.
    """
    value = None
    if record.state is TrialState.COMPLETE:
        measured = [r for r in stored(study, known) if r.state is TrialState.COMPLETE]
        value = speedup_estimate(record, measured)
    if value is not None:
        end(study, trial_id, States.COMPLETE, value)
    else:
        is_pruned = record.state is TrialState.PRUNED
        end(study, trial_id, States.PRUNED if is_pruned else States.FAIL)


def end(study: optuna.Study, trial_id: int, state: States, *values: float) -> None:
    """End a trial, which only one can do.

    Raises:
        UpdateFinishedTrialError: another one has.
    """
    # ``Study.tell`` looks first and then writes, in two transactions.
    storage = study._storage  # noqa: SLF001 - the cached one, which nothing public gives
    storage.set_trial_state_values(trial_id, state, values or None)


def running(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials that a process is at, or was when it ended."""
    return study.get_trials(deepcopy=False, states=(States.RUNNING,))


def is_of_older(trial: optuna.trial.FrozenTrial) -> bool:
    """Whether an older spectui began a trial, without a heartbeat."""
    return "beat" in trial.user_attrs.get(OWNER, {})


def close_trial(study: optuna.Study, trial: optuna.trial.FrozenTrial, known: Known) -> bool:
    """Close a trial that is no longer measured; False where another process has."""
    try:
        if RECORD in trial.user_attrs:
            # It may have ended between being measured and being told.
            tell(study, id_of(trial), _decode(trial), known)
        else:
            end(study, id_of(trial), States.FAIL)
    except optuna.exceptions.UpdateFinishedTrialError:
        return False
    return True


def id_of(trial: optuna.trial.FrozenTrial | optuna.Trial) -> int:
    """Number of a trial in its storage, of all studies."""
    return trial._trial_id  # noqa: SLF001 - what storages take, and nothing public gives


def record_of(trial: optuna.trial.FrozenTrial) -> TrialRecord | None:
    """The stored part of a trial; None where it has not begun."""
    return _decode(trial) if RECORD in trial.user_attrs else None


def requeue(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
    """Queue the arm of a closed trial again, where it had one that was not measured."""
    record = record_of(trial)
    if record is not None and record.state is not TrialState.INTERRUPTED:
        return
    queued = trial.system_attrs.get(QUEUED)
    params = trial.params if queued is None else queued
    marks = {key: trial.user_attrs[key] for key in (OFF, ARM) if key in trial.user_attrs}
    if record is not None or queued is not None:
        study.enqueue_trial(params, user_attrs=marks)


def begin(
    study: optuna.Study, arm: Arm, space: SearchSpace, owner: Mapping[str, Any]
) -> optuna.Trial:
    """A trial of an arm that is nobody else's from its begin."""
    params, marks = _queued(arm, space)
    template = optuna.trial.create_trial(
        state=States.RUNNING,
        system_attrs={QUEUED: params},
        user_attrs={**marks, OWNER: dict(owner)},
    )
    storage, study_id = study._storage, study._study_id  # noqa: SLF001 - as above
    return optuna.Trial(study, storage.create_new_trial(study_id, template))


def _decode(trial: optuna.trial.FrozenTrial) -> TrialRecord:
    record = msgspec.convert(current(trial.user_attrs[RECORD]), TrialRecord)
    if record.state is TrialState.RUNNING and trial.state.is_finished():
        reason = "its process ended before it was measured"
        # Where the models had one of their own, this one's end was no arm's doing.
        died = not trial.user_attrs.get(OWNER, {}).get("isolated", True)
        return replace(record, state=TrialState.INTERRUPTED, error=reason, died=died)
    return record


QUEUED = "fixed_params"
"""Under which Optuna keeps the parameters that a trial was queued with."""
OFF = "off"
"""Under which a trial keeps whether it is off."""
ARM = "arm"
"""Under which a trial keeps an arm that the parameters cannot give."""


def enqueue(
    study: optuna.Study, arms: Sequence[Arm], space: SearchSpace, *, tried: Collection[Arm]
) -> None:
    """Queue the arms that are neither tried nor waiting."""
    waiting = [(trial.system_attrs.get(QUEUED), trial.user_attrs) for trial in _waiting(study)]
    for arm in dict.fromkeys(arms):
        params, marks = _queued(arm, space)
        if arm not in tried and (params, marks) not in waiting:
            study.enqueue_trial(params, user_attrs=marks)


def chosen(trial: optuna.Trial, space: SearchSpace) -> Arm:
    """The arm that was queued for a trial, or else the sampler's choice."""
    kept = trial.user_attrs.get(ARM)
    if kept is not None:
        return msgspec.convert(current(kept), Arm)
    return suggest_arm(trial, space, is_off=bool(trial.user_attrs.get(OFF)))


def forget_waiting(study: optuna.Study) -> None:
    """Empty the queue: what an interrupted run left may be of another order or an older space."""
    for trial in _waiting(study):
        end(study, id_of(trial), States.FAIL)


def _waiting(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(States.WAITING,))


def _queued(arm: Arm, space: SearchSpace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of a trial of ``arm``, and what is noted with it."""
    marks: dict[str, Any] = {OFF: arm.is_off}
    if is_searched(arm, space):
        return params_of(arm, space), marks
    return {}, {**marks, ARM: msgspec.to_builtins(arm)}


T = TypeVar("T")


def to_plain(record: object) -> dict[str, Any]:
    """Plain form of a dataclass, as a storage keeps it."""
    return dict(msgspec.to_builtins(record, enc_hook=str))


def from_plain(kept: object, kind: type[T]) -> T | None:
    """Decode a stored value; None for one that another version of spectui wrote."""
    try:
        return decoded(kept, kind)
    except msgspec.ValidationError:
        return None


def decoded(kept: object, kind: type[T]) -> T:
    """Decode a stored value, of an earlier version as well.

    Raises:
        msgspec.ValidationError: it is none of ``kind``.
    """
    return msgspec.convert(current(kept), kind, dec_hook=_path)


def _path(kind: type, value: str) -> Path:
    if kind is not Path:
        raise NotImplementedError(kind)
    return Path(value)
