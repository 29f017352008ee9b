"""Forms in which an Optuna study keeps records of trials, and all else."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as States

from spectui.errors import BadInputError, UsageError
from spectui.measure.arm import Arm
from spectui.measure.comparable import UNLISTED, counted, differences, misses_gpus, wherever_built
from spectui.monitor.machine import this_machine
from spectui.options.stored import check_schema, current, is_of_fast_schedule
from spectui.tune.space import SearchSpace
from spectui.tune.studies.parameters import parameters_of
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


_MOST_LEFT = 2
LEFT = "its process ended before it was measured"
"""Error of a trial that nobody measures any more."""


def stored(study: optuna.Study) -> tuple[TrialRecord, ...]:
    """Records of all trials that have begun, by number."""
    return in_order(begun(study))


def begun(study: optuna.Study) -> list[FrozenTrial]:
    """Trials that have a record."""
    return [one for one in study.get_trials(deepcopy=False) if RECORD in one.user_attrs]


def in_order(trials: Iterable[FrozenTrial]) -> tuple[TrialRecord, ...]:
    """Records of trials, by number."""
    return tuple(sorted(map(decode_trial, trials), key=lambda one: one.number))


def decode_trial(trial: FrozenTrial, *, is_left: bool = False) -> TrialRecord:
    """The record of a trial that has begun; one that nobody measures any more is interrupted.

    Args:
        trial: as Optuna has it.
        is_left: whether nobody measures it, though Optuna does not say so.
    """
    record = msgspec.convert(current(trial.user_attrs[RECORD]), TrialRecord)
    if record.state is not TrialState.RUNNING or not (is_left or trial.state.is_finished()):
        return record
    return replace(record, state=TrialState.INTERRUPTED, error=LEFT)


def left(records: Sequence[TrialRecord], space: SearchSpace) -> list[Arm]:
    """Arms of the space whose last trial was left by its process.

    Where that has happened twice, it may be the arm that ends the process, or the machine.
    """
    last = {one.arm: one for one in records}
    n_left = Counter(one.arm for one in records if one.error == LEFT)
    return [
        arm
        for arm, one in last.items()
        if one.error == LEFT
        and (arm.is_off or (n_left[arm] < _MOST_LEFT and parameters_of(arm, space).params))
    ]


def begin(study: optuna.Study, arm: Arm, space: SearchSpace) -> optuna.Trial:
    """A trial of an arm, with its parameters for the sampler where the space has them."""
    chosen = parameters_of(arm, space)
    template = optuna.trial.create_trial(
        state=States.RUNNING, params=chosen.params, distributions=chosen.distributions
    )
    storage, study_id = study._storage, study._study_id  # noqa: SLF001 - nothing public gives them
    return optuna.Trial(study, storage.create_new_trial(study_id, template))


def tell(study: optuna.Study, trial_id: int, record: TrialRecord) -> None:
    """End a trial of Optuna's, whose value is the speedup.

    Raises:
        UpdateFinishedTrialError: it has ended already.
    """
    value = None
    if record.state is TrialState.COMPLETE:
        measured = [one for one in stored(study) if one.state is TrialState.COMPLETE]
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


def close_left(study: optuna.Study, *, is_alone: bool) -> None:
    """Close the trials of processes that have ended, and those that earlier versions queued.

    Args:
        study: as Optuna has it.
        is_alone: whether no other process works on it, so that nobody is at any trial.
    """
    optuna.storages.fail_stale_trials(study)
    for trial in study.get_trials(deepcopy=False, states=(States.WAITING, States.RUNNING)):
        if trial.state is States.RUNNING and not (is_alone or is_of_older(trial)):
            continue
        with suppress(UpdateFinishedTrialError):
            if RECORD in trial.user_attrs:
                # It may have ended between being measured and being told.
                tell(study, id_of(trial), decode_trial(trial))
            else:
                end(study, id_of(trial), States.FAIL)


def at_work(study: optuna.Study) -> str | None:
    """A process of a database that measures a trial now; None without one."""
    optuna.storages.fail_stale_trials(study)
    for trial in study.get_trials(deepcopy=False, states=(States.RUNNING,)):
        if OWNER in trial.user_attrs and not is_of_older(trial):
            return "process {pid} on {host}".format(**trial.user_attrs[OWNER])
    return None


def is_of_older(trial: FrozenTrial) -> bool:
    """Whether an older spectui began a trial, without a heartbeat."""
    return "beat" in trial.user_attrs.get(OWNER, {})


def id_of(trial: FrozenTrial | optuna.Trial) -> int:
    """Number of a trial in its storage, of all studies."""
    return trial._trial_id  # noqa: SLF001 - what storages take, and nothing public gives


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
