"""Whether to use speculation, in one sentence that says what it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.format import gain_percent, is_large
from spectui.measure.statistics import Speedup

_MAX_DECIMALS = 3
_EVEN = 1.5
"""Sides of an interval that differ by no more than this factor are told as one ±."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer and its reason: one sentence for humans."""

    use_speculation: bool
    reason: str


def judge(
    speedup: Speedup | None,
    *,
    min_gain: float,
    what: str = "the best setting found",
    failure: str | None = None,
) -> Verdict:
    """Say whether speculation pays; only if the interval's lower end is above ``1 + min_gain``.

    Args:
        speedup: What was measured for the best setting; None when nothing could be.
        min_gain: The gain below which speculation is not worth its memory; 0.02 is 2 %.
        what: The best setting's name, as the subject of a sentence.
        failure: Why nothing could be measured, when ``speedup`` is None.

    Raises:
        ValueError: ``min_gain`` is negative.
    """
    if min_gain < 0:
        raise ValueError(f"min_gain {min_gain} would call a loss a gain")
    if speedup is None:
        because = failure or "no candidate could run"
        return _off(f"Leave it off: no setting was confirmed ({because}).")
    if speedup.is_noise:
        return _off(_undecided(speedup, what, doubt(speedup)))
    if speedup.low is None or speedup.high is None:
        return _off(_undecided(speedup, what, speedup.interval_reason))
    use = speedup.low > 1 + min_gain
    reason = _decided(speedup, speedup.low, speedup.high, min_gain=min_gain, what=what)
    return Verdict(use_speculation=use, reason=reason)


def _off(reason: str) -> Verdict:
    return Verdict(use_speculation=False, reason=reason)


def _undecided(speedup: Speedup, what: str, because: str | None) -> str:
    gain = gain_percent(_gain(speedup.estimate), _decimals([_gain(speedup.estimate)], [0.0]))
    return (
        f"Not decided, so leave it off: {what} measured {gain} on {_prompts(speedup)}; "
        f"{because or 'the interval is not known'}."
    )


NOISE = "the machine's noise"


def doubt(speedup: Speedup, cause: str = NOISE) -> str | None:
    """Why a speedup cannot be what speculation gave, in a clause; None where it can be.

    Args:
        speedup: measured speedup.
        cause: the other cause of the speedup.
    """
    if speedup.ceiling is None or not speedup.is_above_ceiling:
        return None
    most = (
        f"the tokens that were accepted can give {gain_percent(_gain(speedup.ceiling), 1)} at most"
        if speedup.ceiling > 1
        else "no token was accepted that could give a gain"
    )
    if not speedup.is_noise:
        return f"{most}: {cause} is part of it"
    if speedup.low is None:
        return f"{most}: this is {cause}"
    return f"{most}, and all of the interval is above that: this is {cause}"


def _decided(speedup: Speedup, low: float, high: float, *, min_gain: float, what: str) -> str:
    gain, gain_low, gain_high = _gain(speedup.estimate), _gain(low), _gain(high)
    decimals = _decimals([gain, gain_low, gain_high], [0.0, 100 * min_gain])
    interval = (
        f"{100 * speedup.level:g} % interval {gain_percent(gain_low, decimals)} to "
        f"{gain_percent(gain_high, decimals)}, {_prompts(speedup)}"
    )
    value = gain_percent(gain, decimals)
    if low > 1 + min_gain:
        below, above = gain - gain_low, gain_high - gain
        # A single ± would misstate an interval that reaches much further up than down.
        even = not is_large(gain_high) and max(below, above) <= _EVEN * min(below, above)
        spread = f" ± {(gain_high - gain_low) / 2:.{decimals}f}" if even else ""
        return f"Use it: {what} is worth {value}{spread} ({interval})."
    if high < 1:
        loss = gain_percent(-gain, decimals).removeprefix("+")
        return f"Turn it off: {what} makes decoding {loss} slower ({interval})."
    asked = f"a gain of at least {100 * min_gain:g} %" if min_gain else "a gain"
    is_open = high > 1 + min_gain
    answer = "Not decided, so leave it off" if is_open else "Turn it off"
    more = "; more prompts may decide it" if is_open else ""
    if low > 1:
        return f"{answer}: {what} gains {value} ({interval}), but {asked} was not shown{more}."
    return f"{answer}: {asked} was not shown ({what}: {value}, {interval}){more}."


def _gain(speedup: float) -> float:
    return 100 * (speedup - 1)


def _decimals(values: Sequence[float], limits: Sequence[float]) -> int:
    """Fewest decimals that keep every value on its side of every limit when printed."""
    for decimals in range(_MAX_DECIMALS):
        if all(
            value == limit or round(value, decimals) != round(limit, decimals)
            for value in values
            for limit in limits
        ):
            return decimals
    return _MAX_DECIMALS


def _prompts(speedup: Speedup) -> str:
    return f"{speedup.n_prompts} prompt{'' if speedup.n_prompts == 1 else 's'}"
