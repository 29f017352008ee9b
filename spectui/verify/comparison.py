"""A promise of a study, and whether what was delivered agrees with it. Pure."""

import math
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from spectui.measure.arm import Arm
from spectui.measure.promise import Case, Observed
from spectui.measure.speedup import Speedup, gain_text
from spectui.measure.statistics import paired_ratio
from spectui.measure.verdict import doubt


class Advice(StrEnum):
    """A study's advice on the setting that it confirmed."""

    USE = "use it"
    OFF = "leave speculation off"
    OTHER = "another setting"


_ADVISED = {
    None: "",
    Advice.USE: ", which it advised",
    Advice.OFF: (
        ". It advised to leave speculation off: this is the best that it measured, and what it "
        "measured of it stands for the promise"
    ),
    Advice.OTHER: ". It advised another setting: this is the one that it measured best",
}


def subject_of(case: Case, study: str, changed: datetime, advice: Advice | None) -> str:
    """The confirmed setting and its study, in a line.

    Args:
        case: the setting, beside off.
        study: name of the study.
        changed: end of the study.
        advice: None if it has not advised anything.
    """
    draft = case.speculation.own.label if case.draft is None else case.draft.path.stem
    setting = Arm(draft=draft, speculation=case.speculation).label
    return f"study {study} ({changed.astimezone():%Y-%m-%d %H:%M}): {setting}{_ADVISED[advice]}"


class Agreement(StrEnum):
    """Whether the delivered speedup agrees with the promised one."""

    HOLDS = "holds"
    """Both agree to within 5 %, or no difference was detected where one of 10 % would be."""
    LESS = "less"
    """Delivered less by more than 5 %, over the whole interval."""
    MORE = "more"
    """Delivered more by more than 5 %, over the whole interval."""
    OPEN = "open"
    """One speedup is unknown or noise, or the interval of their ratio is inconclusive."""


CLOSE = 1.05
"""Two speedups whose ratio is nearer to 1 than this, or than its inverse, are the same."""
_MISSED = 1.10
"""A ratio this far from 1 must not pass for 1 more often than not."""
_WIDEST = _MISSED**2
"""Largest ratio of the ends of an interval that holds 1 and still counts as agreement.

An interval from ``m / w`` to ``m * w`` holds 1 where the estimate ``m`` is within ``w`` of it. If
the true ratio is ``d``, estimates scatter around ``d``, so that the interval holds 1 in half of
the cases for ``w = d``, and in fewer for a smaller ``w``. So with a ``w`` of 1.10 a deviation of
10 % is seen every other time, one of 15 % in four of five cases (``d = w ** (1 + 0.84 / 1.96)``),
one of 5 % in every sixth. To see 5 % every other time an interval must have a ``w`` of 1.05, in
four of five cases 1.035; 8 to 24 prompts of 64 tokens rarely give either, more prompts or
``--repeats`` do. An interval within 5 % on both sides needs no such argument: it has excluded
larger deviations.
"""


def agreement(promised: Speedup, delivered: Speedup, ratio: Speedup | None) -> Agreement:
    """Compare two speedups, as a test of equivalence does: by the interval of their ratio.

    Swapping the two only swaps ``LESS`` and ``MORE``.

    Args:
        promised: speedup in spectui's own engine.
        delivered: speedup on the server.
        ratio: of the second to the first on the same prompts, which tells more than both do
            apart; None where the prompts are others.
    """
    promised_ends, delivered_ends = promised.interval, delivered.interval
    if promised_ends is None or delivered_ends is None or promised.is_noise or delivered.is_noise:
        return Agreement.OPEN
    low, high = (ratio and ratio.interval) or _ratio_interval(
        promised, promised_ends, delivered, delivered_ends
    )
    if high < 1 / CLOSE or low > CLOSE:
        return Agreement.LESS if high < 1 else Agreement.MORE
    is_within = low >= 1 / CLOSE and high <= CLOSE
    is_narrow = low <= 1 <= high and high / low <= _WIDEST
    return Agreement.HOLDS if is_within or is_narrow else Agreement.OPEN


def _ratio_interval(
    promised: Speedup,
    promised_ends: tuple[float, float],
    delivered: Speedup,
    delivered_ends: tuple[float, float],
) -> tuple[float, float]:
    """Interval of the ratio of two independent speedups, from their own intervals.

    Errors of logarithms add up in squares, each side with its own (Zou and Donner 2008,
    "Construction of confidence limits about effect measures", the MOVER method).
    """
    ratio = delivered.estimate / promised.estimate
    below = math.hypot(
        math.log(delivered.estimate / delivered_ends[0]),
        math.log(promised_ends[1] / promised.estimate),
    )
    above = math.hypot(
        math.log(delivered_ends[1] / delivered.estimate),
        math.log(promised.estimate / promised_ends[0]),
    )
    return ratio * math.exp(-below), ratio * math.exp(above)


def ratio_of(delivered: Sequence[Observed], promised: Sequence[Observed]) -> Speedup | None:
    """Delivered over promised speedup on the common prompts; None without common prompts."""
    both = {_prompt(one) for one in delivered} & {_prompt(one) for one in promised}
    ours, theirs = (
        [one.measurement for one in side if _prompt(one) in both] for side in (delivered, promised)
    )
    return paired_ratio(ours, theirs) if both else None


def _prompt(one: Observed) -> tuple[str, str]:
    return one.measurement.prompt_id, one.digest


_TOO_WIDE = "so wide an interval tells too little; more prompts, --repeats or a quiet machine help"
_SAID = {
    Agreement.HOLDS: "the promise holds",
    Agreement.LESS: "llama-server gives less than was promised",
    Agreement.MORE: "llama-server gives more than was promised",
}


def verdict(promised: Speedup, delivered: Speedup, ratio: Speedup | None = None) -> str:
    """The verdict in one sentence."""
    said = f"delivered: {gain_text(delivered)} where {gain_text(promised)} was promised"
    found = agreement(promised, delivered, ratio)
    if found is Agreement.OPEN:
        noise = next((doubt(one) for one in (delivered, promised) if one.is_noise), None)
        reason = noise or delivered.interval_reason or promised.interval_reason or _TOO_WIDE
        return f"{said}; whether the promise holds is open: {reason}"
    return f"{said}: {_SAID[found]}"
