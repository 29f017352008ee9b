"""Arms that come before the sampler's: what Optuna keeps waiting."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import optuna

from spectui.measure.arm import Arm
from spectui.options.stored import current
from spectui.tune.parameters import is_searched, params_of, suggest_arm
from spectui.tune.space import SearchSpace

_OFF = "off"
_ARM = "arm"
"""Under which a trial keeps an arm that the parameters cannot give."""


def enqueue(
    study: optuna.Study, arms: Sequence[Arm], space: SearchSpace, *, tried: Collection[Arm]
) -> None:
    """Queue the arms that are neither tried nor waiting."""
    waiting = [
        (trial.system_attrs.get("fixed_params"), trial.user_attrs) for trial in _waiting(study)
    ]
    for arm in dict.fromkeys(arms):
        params, marks = _queued(arm, space)
        if arm not in tried and (params, marks) not in waiting:
            study.enqueue_trial(params, user_attrs=marks)


def chosen(trial: optuna.Trial, space: SearchSpace) -> Arm:
    """The arm that was queued for a trial, or else the sampler's choice."""
    kept = trial.user_attrs.get(_ARM)
    if kept is not None:
        return msgspec.convert(current(kept), Arm)
    return suggest_arm(trial, space, is_off=bool(trial.user_attrs.get(_OFF)))


def forget_waiting(study: optuna.Study, storage: optuna.storages.BaseStorage) -> None:
    """Empty the queue: what an interrupted run left may be of another order or an older space."""
    for trial in _waiting(study):
        storage.set_trial_state_values(
            trial._trial_id,  # noqa: SLF001 - nothing public ends a waiting trial
            optuna.trial.TrialState.FAIL,
        )


def _waiting(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.WAITING,))


def _queued(arm: Arm, space: SearchSpace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of a trial of ``arm``, and what is noted with it."""
    marks: dict[str, Any] = {_OFF: arm.is_off}
    if is_searched(arm, space):
        return params_of(arm, space), marks
    return {}, {**marks, _ARM: msgspec.to_builtins(arm)}
