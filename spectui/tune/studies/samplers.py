"""Samplers that choose the arms that were not queued."""

from enum import StrEnum

import optuna

_STARTUP_TRIALS = 5
_N_SEEDS = 2**32
"""Number of seeds that numpy's generators take."""


class Sampler(StrEnum):
    """Search strategies of ``--sampler``."""

    TPE = "tpe"
    RANDOM = "random"


def give_sampler(study: optuna.Study, kind: Sampler, seed: int) -> None:
    """Have a study choose by this strategy; a resumed search must not draw the same again."""
    study.sampler = _sampler(kind, (seed + len(study.get_trials(deepcopy=False))) % _N_SEEDS)


def _sampler(kind: Sampler, seed: int) -> optuna.samplers.BaseSampler:
    match kind:
        case Sampler.TPE:
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP_TRIALS)
        case Sampler.RANDOM:
            return optuna.samplers.RandomSampler(seed=seed)
