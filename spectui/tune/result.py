"""Result of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spectui.errors import SpectuiError
from spectui.measure.arm import OFF, Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.measurer import Pair
from spectui.measure.statistics import Speedup
from spectui.measure.verdict import Verdict
from spectui.trace.costs import Costs
from spectui.tune.forecast import Forecast
from spectui.tune.pace import Spent
from spectui.tune.race import Standing
from spectui.tune.trials import TrialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """Result of a search: trials, race and verdict."""

    trials: tuple[TrialRecord, ...]
    best: Arm | None
    """The race's leader; without a race, what measured best."""
    pairs: tuple[Pair, ...]
    """Paired measurements of the leader against off; empty if there was no race."""
    off: Arm = OFF
    """Arm that the verdict compares with."""
    in_place: tuple[Pair, ...] = ()
    """The leader's runs against the target alone as it lies beside the leader's draft; empty where
    that is no other place than off's."""
    finalists: tuple[Standing, ...] = ()
    """Standings of the race, the leader first."""
    speedup: Speedup | None
    """Speedup of the leader over off."""
    verdict: Verdict
    lossless: LosslessCheck | None
    """Check of the race's output; None with temperature, or without a race."""
    interrupted: bool
    error: SpectuiError | None
    """Error that ended the search early, besides an interrupt."""
    forecasts: tuple[Forecast, ...] = ()
    """Replayed settings, best first; empty if nothing was recorded."""
    costs: Mapping[str, Costs] = field(default_factory=dict)
    """Costs of rounds by drafter, from the recording."""
    expected_improvement: float | None = None
    """Why the search ended before ``--trials``: all that one more was expected to add to the
    speedup. None if it did not."""
    spent: Spent
    not_kept: str | None = None
    """Why the study's storage does not have the verdict; None where it has."""


def why_nothing(records: Sequence[TrialRecord], *, interrupted: bool) -> str:
    """Why there is no confirmation, from what was tried."""
    if interrupted:
        return "it was interrupted before the best setting was confirmed"
    speculative = [record for record in records if not record.arm.is_off]
    if not speculative:
        return "only the target alone was tried; allow more --trials or more time"
    errors = [record.error for record in speculative if record.error]
    if errors:
        return errors[-1]
    return "the model ended every answer at once; use other prompts or --ignore-eos"
