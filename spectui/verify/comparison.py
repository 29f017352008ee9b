"""Promised against delivered: totals, agreement of intervals, and the verdict. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.documents import Json, or_reason
from spectui.format import factor, gain_percent, is_large
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.measure.promise import Observed
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import paired_ratio, paired_speedup
from spectui.measure.verdict import doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Totals over all prompts, in-process or of a server."""

    baseline_tokens: int
    baseline_s: float
    speculative_tokens: int
    speculative_s: float
    n_drafted: int
    n_accepted: int
    speedup: Speedup

    @property
    def baseline_tokens_per_s(self) -> float:
        """Decode throughput without speculation."""
        return self.baseline_tokens / self.baseline_s

    @property
    def tokens_per_s(self) -> float:
        """Decode throughput with it."""
        return self.speculative_tokens / self.speculative_s

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    def document(self) -> Json:
        """The totals in documents."""
        return {
            "baseline": {
                "tokens_per_s": self.baseline_tokens_per_s,
                "n_tokens": self.baseline_tokens,
                "decode_s": self.baseline_s,
            },
            "speculative": {
                "tokens_per_s": self.tokens_per_s,
                "n_tokens": self.speculative_tokens,
                "decode_s": self.speculative_s,
                "n_drafted": self.n_drafted,
                "n_accepted": self.n_accepted,
                **or_reason("acceptance_rate", self.acceptance_rate, NOTHING_DRAFTED),
            },
            **self.speedup.document(),
        }


def summarise(observed: Sequence[Observed], speedup: Speedup | None = None) -> Summary:
    """Sum up the observations.

    Args:
        observed: observations of one engine or server.
        speedup: where it was estimated before, with an interval that allows for looks; None to
            estimate it from ``observed``.

    Raises:
        ValueError: nothing was seen.
    """
    measured = [one.measurement for one in observed]
    return Summary(
        baseline_tokens=sum(one.baseline_tokens for one in measured),
        baseline_s=sum(one.baseline_s for one in measured),
        speculative_tokens=sum(one.speculative_tokens for one in measured),
        speculative_s=sum(one.speculative_s for one in measured),
        n_drafted=sum(one.n_drafted for one in observed),
        n_accepted=sum(one.n_accepted for one in observed),
        speedup=paired_speedup(measured) if speedup is None else speedup,
    )


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
        promised: speedup in-process.
        delivered: speedup on the server.
        ratio: of the second to the first on the same prompts, which tells more than both do
            apart; None where the prompts are others.
    """
    theirs, own = promised.interval, delivered.interval
    if theirs is None or own is None or promised.is_noise or delivered.is_noise:
        return Agreement.OPEN
    low, high = (ratio and ratio.interval) or _of_both(promised, theirs, delivered, own)
    if high < 1 / CLOSE or low > CLOSE:
        return Agreement.LESS if high < 1 else Agreement.MORE
    is_within = low >= 1 / CLOSE and high <= CLOSE
    is_narrow = low <= 1 <= high and high / low <= _WIDEST
    return Agreement.HOLDS if is_within or is_narrow else Agreement.OPEN


def _of_both(
    promised: Speedup, theirs: tuple[float, float], delivered: Speedup, own: tuple[float, float]
) -> tuple[float, float]:
    """Interval of the ratio of two independent speedups, from their own intervals.

    Errors of logarithms add up in squares, each side with its own (Zou and Donner 2008,
    "Construction of confidence limits about effect measures", the MOVER method).
    """
    ratio = delivered.estimate / promised.estimate
    below = math.hypot(
        math.log(delivered.estimate / own[0]), math.log(theirs[1] / promised.estimate)
    )
    above = math.hypot(
        math.log(own[1] / delivered.estimate), math.log(promised.estimate / theirs[0])
    )
    return ratio * math.exp(-below), ratio * math.exp(above)


def ratio_of(delivered: Sequence[Observed], promised: Sequence[Observed]) -> Speedup | None:
    """Delivered over promised speedup on the common prompts; None without common prompts."""
    known = {(one.measurement.prompt_id, one.digest) for one in promised}
    ours = [one for one in delivered if (one.measurement.prompt_id, one.digest) in known]
    same = {(one.measurement.prompt_id, one.digest) for one in ours}
    theirs = [one for one in promised if (one.measurement.prompt_id, one.digest) in same]
    if not ours:
        return None
    return paired_ratio([one.measurement for one in ours], [one.measurement for one in theirs])


_TOO_WIDE = "so wide an interval tells too little; more prompts, --repeats or a quiet machine help"
_SAID = {
    Agreement.HOLDS: "the promise holds",
    Agreement.LESS: "llama-server gives less than was promised",
    Agreement.MORE: "llama-server gives more than was promised",
}


def verdict(promised: Speedup | None, delivered: Speedup, ratio: Speedup | None = None) -> str:
    """The verdict in one sentence."""
    said = f"delivered: {gain_text(delivered)}"
    if promised is None:
        because = doubt(delivered) or (delivered.interval_reason if delivered.low is None else None)
        return f"{said}{f' ({because})' if because else ''}; nothing was promised"
    said += f" where {gain_text(promised)} was promised"
    found = agreement(promised, delivered, ratio)
    if found is Agreement.OPEN:
        noise = next((doubt(one) for one in (delivered, promised) if one.is_noise), None)
        reason = noise or delivered.interval_reason or promised.interval_reason or _TOO_WIDE
        return f"{said}; whether the promise holds is open: {reason}"
    return f"{said}: {_SAID[found]}"


def gain_text(speedup: Speedup) -> str:
    """A gain such as ``+27 % (+20 to +34)``; without an interval if there is none."""
    interval = interval_text(speedup)
    return f"{gain(speedup)} ({interval})" if interval else gain(speedup)


def gain(speedup: Speedup) -> str:
    """A gain such as ``+27 %``."""
    told = speedup.capped
    return _written(told.estimate, told)


def interval_text(speedup: Speedup) -> str:
    """An interval such as ``+20 to +34``; empty if it is unknown."""
    told = speedup.capped
    if told.interval is None:
        return ""
    low, high = (_written(end, told).removesuffix(" %") for end in told.interval)
    return f"{low} to {high}"


def _written(value: float, speedup: Speedup) -> str:
    """An estimate or limit; all in the notation of the largest, so that they compare."""
    ends = (speedup.estimate, speedup.high)
    if any(end is not None and is_large(100 * (end - 1)) for end in ends):
        return f"{factor(value)}×"
    return gain_percent(100 * (value - 1), _decimals(speedup))


_SMALL = 0.0995
"""Below ten per cent, as it is printed, a decimal is shown."""


def _decimals(speedup: Speedup) -> int:
    ends = (speedup.estimate, speedup.low, speedup.high)
    return int(all(end is None or abs(end - 1) < _SMALL for end in ends))
