"""Result of a search."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from spectui.documents import Json, Known, or_reason
from spectui.errors import SpectuiError
from spectui.measure.arm import OFF, Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.measurer import Pair, measurements
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Verdict
from spectui.monitor.disturbance import DisturbanceSummary
from spectui.tune.expert_use import Experts
from spectui.tune.forecast import Forecast, Outlook
from spectui.tune.race import Standing
from spectui.tune.trials import TrialRecord

_UNKNOWN = Known[Any](None, "they were not looked at")


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """Result of a search: trials, race and verdict."""

    trials: tuple[TrialRecord, ...]
    best: Arm | None
    """The race's leader; without a race, what measured best."""
    off: Arm = OFF
    """Arm that the verdict compares with."""
    finalists: tuple[Standing, ...] = ()
    """Standings of the race, the leader first."""
    requests: Known[tuple[Request, ...]] = _UNKNOWN
    """Whole requests with the leader, prompts included."""
    experts: Experts = _UNKNOWN
    """Experts that the recorded answers use."""
    verdict: Verdict
    lossless: LosslessCheck | None
    """Check of the race's output; None with temperature, or without a race."""
    interrupted: bool
    error: SpectuiError | None
    """Error that ended the search early, besides an interrupt."""
    outlook: Outlook = field(default_factory=Outlook)
    """Forecasts from the recording."""
    took_s: float
    """Seconds of the search's own work."""
    cut_trials: tuple[int, int] | None = None
    """Trials that were run, and those that were asked for, where time ended them; else None."""
    conditions: DisturbanceSummary | None = None
    """Load of the rest of the machine meanwhile; None where nobody watched it."""
    not_kept: str | None = None
    """Why the study's storage does not have the verdict; None where it has."""

    @property
    def leader(self) -> Standing | None:
        """Standing of ``best`` in the race; None where no setting was confirmed."""
        return next((one for one in self.finalists[:1] if one.speedup is not None), None)

    @property
    def speedup(self) -> Speedup | None:
        """Speedup of the leader over off."""
        return None if self.leader is None else self.leader.speedup

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the leader against off; empty if there was no race."""
        return () if self.leader is None else self.leader.pairs

    @property
    def off_token_s(self) -> float | None:
        """Seconds per token of the target alone in the race; None if there was none."""
        timed = measurements(self.pairs)
        n_tokens = sum(one.baseline_tokens for one in timed)
        return sum(one.baseline_s for one in timed) / n_tokens if n_tokens else None

    def raced(self, arm: Arm) -> Speedup | None:
        """Speedup of a setting in the race; None where the race was without it."""
        return next((one.speedup for one in self.finalists if one.arm == arm), None)

    def last_trial(self, arm: Arm) -> TrialRecord | None:
        """The last trial of a setting that was measured; None without one."""
        measured = (one for one in self.trials if one.arm == arm and one.tokens_per_s)
        return max(measured, key=lambda one: one.number, default=None)

    def setting_document(self, arm: Arm) -> Json:
        """A setting with its gain as JSON: that of the race, else of its last trial."""
        raced, trial = self.raced(arm), self.last_trial(arm)
        if raced is not None:
            return {"params": arm.document(), **raced.document()}
        gain = or_reason("speedup", trial and trial.speedup, "it was not measured")
        return {"params": arm.document(), **gain}


def why_nothing(
    records: Sequence[TrialRecord], forecasts: Sequence[Forecast], *, interrupted: bool
) -> str:
    """Why there is no confirmation, from what was tried and forecast."""
    tried = [one for one in records if one.is_tried]
    errors = [one.error for one in tried if one.error]
    if interrupted:
        return "it was interrupted before the best setting was confirmed"
    if errors:
        return errors[-1]
    if forecasts and not any(one.n_drafted for one in forecasts):
        return "no setting drafts anything on the recorded text; use other prompts or drafts"
    if forecasts or not tried:
        return "there was no time to measure a setting; allow more time"
    return "the model ended every answer at once; use other prompts or --ignore-eos"
