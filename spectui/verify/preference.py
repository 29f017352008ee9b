"""Ranks settings by llama-server where it disagrees with the engine. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from spectui.measure.arm import OFF, Arm
from spectui.measure.statistics import Speedup
from spectui.measure.verdict import Verdict, judge
from spectui.verify.comparison import gain_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The setting to use, and the verdict."""

    arm: Arm
    verdict: Verdict
    is_other: bool
    """Whether it differs from the advice of the in-process measurements."""


def preferred(
    verdict: Verdict, best: Arm, deliveries: Mapping[Arm, Speedup], *, min_gain: float
) -> Preference:
    """Rank off and the settings by the server's speedups.

    What cannot be is the machine's noise, and ranks nothing.

    Args:
        verdict: verdict of the in-process measurements.
        best: the setting of that verdict.
        deliveries: speedups of that setting, and of other open ones.
        min_gain: least gain for which speculation is advised.
    """
    stays = Preference(
        arm=best if verdict.use_speculation else OFF, verdict=verdict, is_other=False
    )
    possible = [arm for arm, speedup in deliveries.items() if not speedup.is_noise]
    if not possible:
        return stays
    fastest = max(possible, key=lambda arm: deliveries[arm].estimate)
    speedup = deliveries[fastest]
    own = judge(speedup, min_gain=min_gain, what=fastest.label)
    if not verdict.use_speculation:
        return _instead(fastest, own, "to leave it off") if own.use_speculation else stays
    # An advice stands as long as off is not faster: few prompts need not show it once more.
    if speedup.estimate <= 1 + min_gain:
        return _instead(OFF, own, "to use it")
    if fastest == best:
        return stays
    reason = (
        f"Use it: {fastest.label} is what llama-server ran fastest ("
        f"{gain_text(speedup)}). In-process {best.label} was ahead; the server's own "
        "numbers count more."
    )
    return Preference(
        arm=fastest, verdict=Verdict(use_speculation=True, reason=reason), is_other=True
    )


def _instead(arm: Arm, own: Verdict, before: str) -> Preference:
    reason = (
        f"{own.reason} These are llama-server's own numbers, which count more; in-process it was "
        f"{before}."
    )
    verdict = Verdict(use_speculation=not arm.is_off, reason=reason)
    return Preference(arm=arm, verdict=verdict, is_other=True)
