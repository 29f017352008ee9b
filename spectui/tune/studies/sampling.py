"""How a study's arms are sampled."""

import optuna

N_SEEDS = 2**32
"""Number of seeds that numpy's generators take."""
_STARTUP_TRIALS = 5


def give_sampler(study: optuna.Study, seed: int) -> None:
    """Have a study choose its arms; a resumed search must not draw the same again."""
    study.sampler = optuna.samplers.TPESampler(
        seed=(seed + len(study.get_trials(deepcopy=False))) % N_SEEDS,
        n_startup_trials=_STARTUP_TRIALS,
    )
