"""Gains of rules of adaptive draft length over the best fixed setting, and the most of any."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.documents import Json
from spectui.format import counted, percent_text
from spectui.known import Known
from spectui.measure.arm import OFF, Arm
from spectui.options.drafters import ModelDrafter
from spectui.trace.costs import Costs
from spectui.trace.policies import Policies, Policy, replay_policies
from spectui.trace.record import Recording

_MATTERS = 0.01
"""Gain from which on it is told which rule comes nearest."""
_NOTHING = 0.0005
"""Gain that rounds to 0.0 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Rules of draft length beside fixed settings of one draft, by counts and prices."""

    fixed: Arm
    """The best fixed setting: off where that is faster than every length."""
    draft: str
    fixed_s: float
    """Seconds of the recorded answers with it."""
    policies: Policies

    def gain(self, seconds: float) -> float:
        """Throughput over that of the best fixed setting, less 1."""
        return self.fixed_s / seconds - 1

    @property
    def most(self) -> float:
        """The gain that no rule can beat on the recorded text."""
        return self.gain(self.policies.least_s)

    @property
    def sentence(self) -> str:
        """The bound in words; where it matters, the best rule as well."""
        if self.most <= 0:
            return (
                "No draft length makes this draft pay, not even one that fits the text each time."
            )
        over = " over the target alone" if self.fixed.is_off else ""
        text = f"Adaptive draft length could add at most {percent_text(self.most, 1)}{over}"
        if self.most < _MATTERS:
            return f"{text}."
        best, rules = self.policies.rules[0], counted(len(self.policies.rules), "known rule")
        told = f"none of {rules} adds anything"
        if (gain := self.gain(best.seconds)) >= _NOTHING:
            told = f"the best of {rules} adds {percent_text(gain, 1)} ({best.text})"
        return f"{text}, if it knew the text beforehand; {told}."

    def document(self) -> Json:
        """The bound and the rules as JSON."""
        return {
            "draft": self.draft,
            "fixed": self.fixed.document(),
            "most_gain": self.most,
            "rules": [self._rule(one) for one in self.policies.rules],
        }

    def _rule(self, one: Policy) -> Json:
        floor = {} if one.draft_p_min is None else {"draft_p_min": one.draft_p_min}
        gain = self.gain(one.seconds)
        return {"rule": one.rule, "draft_max": one.draft_max, **floor, "gain": gain}


UNKNOWN = Known[Adaptive](None, "no draft was recorded")


def adaptive_length(
    recordings: Sequence[Recording],
    arm: Arm,
    costs: Mapping[str, Costs],
    *,
    fixed_s: float,
    off_s: float,
) -> Known[Adaptive]:
    """Replay rules of draft length with the draft of the best forecast.

    Args:
        recordings: recordings of a trace.
        arm: the best forecast setting.
        costs: costs of rounds by drafter.
        fixed_s: seconds of the recorded answers with it.
        off_s: seconds of the target alone.
    """
    own = None if arm.speculation is None or arm.speculation.ahead else arm.speculation.own
    if arm.draft is None or not isinstance(own, ModelDrafter):
        return Known(None, "n-gram drafters draft in the best forecast")
    return Known(
        Adaptive(
            draft=arm.draft,
            fixed=arm if fixed_s <= off_s else OFF,
            fixed_s=min(fixed_s, off_s),
            policies=replay_policies(recordings, arm.draft, costs[arm.draft], own),
        )
    )
