"""Trials of an Optuna study: each keeps its whole record, and its speedup for the sampler."""

from dataclasses import replace

import msgspec
import optuna

from spectui.options.stored import current
from spectui.tune.trials import TrialRecord, TrialState, speedup_estimate

_RECORD = "record"


def store(trial: optuna.Trial, record: TrialRecord) -> None:
    """Keep a record with its trial."""
    trial.set_user_attr(_RECORD, msgspec.to_builtins(record))


def stored(study: optuna.Study) -> tuple[TrialRecord, ...]:
    """All trials that have begun, by number."""
    trials = study.get_trials(deepcopy=False)
    return tuple(_decode(trial) for trial in trials if _RECORD in trial.user_attrs)


def completed(study: optuna.Study) -> tuple[TrialRecord, ...]:
    """Trials that were measured."""
    return tuple(r for r in stored(study) if r.state is TrialState.COMPLETE)


def tell(study: optuna.Study, of_optuna: int, record: TrialRecord) -> None:
    """Tell the sampler, whose own number of the trial is ``of_optuna``."""
    value = None
    if record.state is TrialState.COMPLETE:
        value = speedup_estimate(record, completed(study))
    if value is None:
        study.tell(of_optuna, state=optuna.trial.TrialState.FAIL)
    else:
        study.tell(of_optuna, value)


def close_trial(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
    """Close a trial that is no longer measured."""
    if _RECORD in trial.user_attrs:
        # It may have ended between being measured and being told.
        tell(study, trial.number, _decode(trial))
    else:
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)


def _decode(trial: optuna.trial.FrozenTrial) -> TrialRecord:
    record = msgspec.convert(current(trial.user_attrs[_RECORD]), TrialRecord)
    if record.state is TrialState.RUNNING and trial.state.is_finished():
        reason = "its process ended before it was measured"
        return replace(record, state=TrialState.INTERRUPTED, error=reason)
    return record
