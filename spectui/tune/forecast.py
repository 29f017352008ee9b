"""Forecasts of settings, and the choice of those worth a real trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from spectui.documents import Json, Known, fields_of
from spectui.format import counted, percent_text
from spectui.measure.arm import Arm
from spectui.measure.reading import Readings
from spectui.speculative.counters import Drafted
from spectui.trace.costs import Costs, Vector
from spectui.trace.policies import Policies, Policy
from spectui.trace.probabilistic import NOT_SAMPLED, Sampled

_MATTERS = 0.01
"""Gain from which on the best rule is reported."""
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
        text = f"Adaptive draft length could add at most {percent_text(self.most)}{over}"
        if self.most < _MATTERS:
            return f"{text}."
        best, rules = self.policies.rules[0], counted(len(self.policies.rules), "known rule")
        gains = f"none of {rules} adds anything"
        if (gain := self.gain(best.seconds)) >= _NOTHING:
            gains = f"the best of {rules} adds {percent_text(gain)} ({best.text})"
        return f"{text}, if it knew the text beforehand; {gains}."

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


_PROMISING = 5
"""Settings that trials measure first."""


class Answers(NamedTuple):
    """Recorded answers with one setting, by parts: of the rounds that begin in each.

    All are [n_recordings, n_parts]; an answer in which nothing was decoded is all zeros.
    """

    tokens: Vector
    drafted: Vector
    accepted: Vector
    on_s: Vector
    """Predicted seconds."""
    off_s: Vector
    """Predicted seconds of the target alone for the same tokens."""

    @property
    def whole(self) -> "Answers":
        """Each answer as one part."""
        return Answers(*np.sum(self, axis=2, keepdims=True))

    def followed_by(self, others: "Answers") -> "Answers":
        """These and other answers with the same setting."""
        return Answers(*np.concatenate((self, others), axis=1))


def shrunk(off_s: Vector, on_s: Vector) -> Vector:
    """Logarithm of the speedup of parts of answers together, shrunk by its uncertainty.

    A gain g of standard error s counts as g - s²/g, and one within its error as none (the positive
    part of James and Stein 1961, "Estimation with quadratic loss"): the best of thousands of
    settings may be so by a few parts alone. A loss counts as it is.

    Args:
        off_s: [..., n] seconds of the target alone by part; 0 where nothing was decoded.
        on_s: [..., n] seconds with a setting.

    Returns:
        [...]; minus infinity where nothing was decoded at all.
    """
    n = np.count_nonzero(on_s, axis=-1)
    sums = off_s.sum(axis=-1), on_s.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The ratio of sums, linearised in each part.
        influence = off_s / sums[0][..., None] - on_s / sums[1][..., None]
        variance = (influence**2).sum(axis=-1) * n / np.maximum(n - 1, 1)
        gain = np.log(sums[0] / sums[1])
        found = np.where(gain > 0, np.maximum(gain - variance / gain, 0), gain)
    return np.where(n > 0, found, -np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(Drafted):
    """Forecast of a replayed setting; its counts are exact, on the recorded prompts."""

    arm: Arm
    speedup: float
    """Predicted, over off."""
    answers: Answers = field(compare=False, repr=False)

    @property
    def shrunk(self) -> float:
        """Gain, ``shrunk`` by its error over the answers."""
        return float(shrunk(self.answers.off_s.ravel(), self.answers.on_s.ravel()))

    @property
    def off_token_s(self) -> float | None:
        """Predicted seconds per token of the target alone; None where nothing was decoded."""
        n_tokens = float(self.answers.tokens.sum())
        return float(self.answers.off_s.sum()) / n_tokens if n_tokens else None

    def document(self) -> Json:
        """A replayed setting as JSON."""
        return {
            "source": "replayed",
            "params": self.arm.document(),
            **fields_of(self, "", "speedup", "n_drafted", "n_accepted"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Forecasts from a recording, before any trial; none of no recording."""

    forecasts: tuple[Forecast, ...] = ()
    """Best first."""
    costs: Mapping[str, Costs] = field(default_factory=dict)
    """Costs of rounds by drafter."""
    readings: Mapping[str, Readings] = field(default_factory=dict)
    """Prompts that were evaluated meanwhile, by draft; under ``NGRAM_COSTS`` without one."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why a draft was not recorded, by its name."""
    adaptive: Known[Adaptive] = UNKNOWN
    """Rules of draft length beside the best forecast."""
    sampled: Known[Sampled] = NOT_SAMPLED
    """The best forecast of drafts whose tokens are sampled."""


def best_by_drafter(ordered: Sequence[Forecast]) -> tuple[Forecast, ...]:
    """The best forecast of each draft and of n-gram drafters together, best first."""
    found: dict[str | None, Forecast] = {}
    for one in ordered:
        if one.n_drafted:
            found.setdefault(one.arm.draft, one)
    return tuple(found.values())


def promising(ordered: Sequence[Forecast], n: int = _PROMISING) -> tuple[Arm, ...]:
    """Choose the best setting of each of the ``n`` best pairs of drafter and ``draft_max``.

    Where the cost model errs, it errs along the length of the draft: neighbours in the other
    parameters share its error, and measuring them would say little. A setting that drafted nothing
    is the off arm under another name.

    The gains are ``shrunk``: of those that are alike within their errors, the surest comes first.
    """
    best = best_of_each_length(sorted(ordered, key=lambda one: -one.shrunk))
    return tuple(one.arm for one in best[:n])


def in_order(ordered: Sequence[Forecast], defaults: Sequence[Arm]) -> tuple[Arm, ...]:
    """Arms worth a trial: the best forecast, what the user has or gets anyway, and the others.

    Args:
        ordered: forecasts, best first.
        defaults: arms that the user has or gets without tuning.
    """
    best = promising(ordered)
    return tuple(dict.fromkeys((*best[:1], *defaults, *best[1:])))


def best_of_each_length(ordered: Sequence[Forecast]) -> list[Forecast]:
    """The best forecast of each pair of drafter and longest draft, of those that draft."""
    chosen: dict[tuple[str, int], Forecast] = {}
    done = set[tuple[str, float, int, int]]()
    for one in ordered:
        speculation = one.arm.speculation
        if speculation is not None and one.n_drafted:
            # With and without a drafter ahead, a model of one length shares its error, too.
            drafter = one.arm.draft or one.arm.drafter
            place = drafter, speculation.own.longest
            # Lengths that no draft reaches do the same as the first of them.
            counts = drafter, one.speedup, one.n_drafted, one.n_accepted
            if place not in chosen and counts not in done:
                chosen[place] = one
                done.add(counts)
    return list(chosen.values())
