"""How a study's arms are sampled, and which parameters its trials show to matter."""

from collections.abc import Sequence

import optuna

from spectui.tune.parameters import assessed
from spectui.tune.space import Parameter, SearchSpace

N_SEEDS = 2**32
"""Number of seeds that numpy's generators take."""
_STARTUP_TRIALS = 5
_FEWEST = 8
"""Completed trials below which the importance of a parameter is a matter of luck."""


def give_sampler(study: optuna.Study, seed: int) -> None:
    """Have a study choose its arms; a resumed search must not draw the same again."""
    study.sampler = optuna.samplers.TPESampler(
        seed=(seed + len(study.get_trials(deepcopy=False))) % N_SEEDS,
        n_startup_trials=_STARTUP_TRIALS,
    )


def importance(study: optuna.Study, space: SearchSpace) -> tuple[tuple[str, float], ...]:
    """(parameter, share of the speedup's variance that it explains), largest first.

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
