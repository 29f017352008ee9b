"""The setting of the user's present command, as the search and its race have measured it."""

from dataclasses import dataclass

from spectui.documents import Json, or_reason
from spectui.measure.arm import Arm
from spectui.measure.statistics import Speedup
from spectui.tune.result import TuneResult
from spectui.tune.trials import speedup_estimate

NO_COMMAND = "no command was given with --from"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentArm:
    """The present setting as an arm of a study."""

    arm: Arm | None
    """None if the setting cannot be measured, or the command does not draft."""
    reason: str | None
    """Reason why there is no arm."""
    drafts: bool
    """Whether the command drafts at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Measurements of the present setting."""

    estimate: float | None
    """Estimate of the speedup; None if it was not measured."""
    confirmed: Speedup | None
    """Speedup from the last race, if the setting took part."""
    is_noisy: bool = False
    """Whether the estimate is of a trial whose anchors disagreed."""


def standing_of(present: Arm, result: TuneResult) -> Standing:
    """Look up the setting in the last race, and in the trials."""
    arms = {one.arm: one.speedup for one in result.finalists}
    confirmed = arms.get(present)
    if confirmed is not None:
        return Standing(estimate=confirmed.estimate, confirmed=confirmed)
    trials = [one for one in result.trials if one.arm == present and one.tokens_per_s]
    estimate = speedup_estimate(trials[-1], result.trials) if trials else None
    return Standing(estimate=estimate, confirmed=None, is_noisy=bool(trials) and trials[-1].noisy)


def present_document(present: PresentArm | None, result: TuneResult) -> Json:
    """The field ``present`` of ``spectui.tune/1``."""
    if present is None:
        return or_reason("present", None, NO_COMMAND)
    if present.arm is None:
        return or_reason("present", None, present.reason or "")
    standing = standing_of(present.arm, result)
    speedup: Json = or_reason("speedup", standing.estimate, "it was not measured")
    speedup |= or_reason("speedup_ci95", None, "the last race was without it")
    if standing.confirmed is not None:
        speedup = standing.confirmed.document()
    return {
        "present": {
            "params": present.arm.document(),
            **speedup,
            "is_best": result.best == present.arm,
        }
    }
