"""Gains of rules of adaptive draft length over the best fixed setting, and the most of any."""

from dataclasses import dataclass

from spectui.documents import Json
from spectui.format import counted, percent_text
from spectui.known import Known
from spectui.measure.arm import Arm
from spectui.trace.policies import Policies, Policy

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
                "By counts and prices no draft length makes this draft pay, not even one that fits "
                "the text each time."
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


UNKNOWN = Known[Adaptive](None, "no draft model was forecast")
