"""Ownership of trials: one study is one process's at a time, and processes die."""

import os
from datetime import datetime, timedelta
from typing import Any

import optuna
import psutil

from spectui.errors import UsageError

_OWNER = "owner"
_UNSIGNED = timedelta(minutes=1)
"""Time for which a trial may have no owner, who is noted right after it is asked for."""


def sign(trial: optuna.Trial) -> None:
    """Note that this process is at a trial."""
    trial.set_user_attr(_OWNER, _this_process())


def abandoned(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Trials whose process has died, which would stay RUNNING in the storage for ever."""
    return [trial for trial in _running(study) if _is_dead(trial)]


def check_alone(study: optuna.Study) -> None:
    """Refuse a study that another process works on: they would slow each other down.

    Raises:
        UsageError: one does.
    """
    for trial in _running(study):
        if not _is_dead(trial):
            owner = trial.user_attrs.get(_OWNER, {})
            raise UsageError(
                f"process {owner.get('pid')} on {owner.get('host')} is working on the study "
                f"{study.study_name}; wait for it, or choose another --study"
            )


def _running(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))


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
