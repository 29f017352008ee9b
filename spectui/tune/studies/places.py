"""The places of a target that were tried: Optuna's trials, beside the study that they belong to."""

import math
from collections.abc import Sequence

import msgspec
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from spectui.tune.places import Knob, PlaceTrial
from spectui.tune.studies import records


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
        """What may be varied."""
        self._choices: dict[str, BaseDistribution] = {
            one.name: CategoricalDistribution(one.values) for one in knobs
        }

    def trials(self) -> tuple[PlaceTrial, ...]:
        """Places that were tried, in that order."""
        kept = [one.user_attrs[records.RECORD] for one in self._stored.get_trials(deepcopy=False)]
        return tuple(msgspec.convert(one, PlaceTrial) for one in kept)

    def add(self, trial: PlaceTrial, request_s: float) -> None:
        """Keep a trial; ``request_s`` is infinite where the place could not be measured."""
        is_measured = math.isfinite(request_s)
        self._stored.add_trial(
            optuna.trial.create_trial(
                state=TrialState.COMPLETE if is_measured else TrialState.FAIL,
                value=1 / request_s if is_measured else None,
                params=dict(trial.values),
                distributions=self._choices,
                user_attrs={records.RECORD: msgspec.to_builtins(trial)},
            )
        )
