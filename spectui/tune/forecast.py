"""Forecasts of every setting from a short recording, and the choice of those worth a real trial."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spectui.documents import Json, Known
from spectui.format import counted, percent_text
from spectui.measure.arm import OFF, Arm
from spectui.measure.reading import Readings
from spectui.options.drafters import Ngram
from spectui.trace.costs import Costs, Vector
from spectui.trace.ngrams import (
    NGRAM_COSTS,
    hashes_tokens,
    ngram_costs,
    replay_settings,
)
from spectui.trace.policies import Policies, Policy, replay_policies
from spectui.trace.probabilistic import NOT_SAMPLED, Sampled, best_sampled
from spectui.trace.record import Recording
from spectui.trace.replay import Total, off_part_seconds, replay_trace
from spectui.tune.space import SearchSpace

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


EVEN = 0.015
"""Difference of two forecasts that are equal for all that one can tell: their error is 1 to 2 %."""
_PROMISING = 5
"""Settings that trials measure first."""
_CHAINED = 8
"""Settings of a draft model, the best of so many lengths, that are replayed behind n-gram drafters:
each of these walks along the text in Python, where the grid walks all settings together."""
_CHAIN_GAIN = 1.02
"""Forecast gain that a drafter ahead must add. Most texts give it nothing to propose."""


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

    def only(self, some: npt.NDArray[np.bool_]) -> "Answers":
        """Zeros but for ``some`` parts: [n_recordings, n_parts]."""
        return Answers(*np.where(some, self, 0.0))

    @property
    def spread(self) -> float:
        """Standard deviation over the answers of the logarithm of the speedup."""
        on_s, off_s = self.on_s.sum(axis=1), self.off_s.sum(axis=1)
        logs = np.log(off_s[on_s > 0] / on_s[on_s > 0])
        return float(logs.std(ddof=1)) if len(logs) > 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast of a replayed setting."""

    arm: Arm
    speedup: float
    """Predicted, over off."""
    n_drafted: int
    """Exact, on the recorded prompts."""
    n_accepted: int
    answers: Answers | None = field(default=None, compare=False, repr=False)
    """None where totals alone are known."""

    @property
    def spread(self) -> float:
        """Standard deviation over the prompts of the logarithm of the speedup."""
        return 0.0 if self.answers is None else self.answers.spread

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted, None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    def document(self) -> Json:
        """A replayed setting as JSON."""
        return {
            "source": "replayed",
            "params": self.arm.document(),
            "speedup": self.speedup,
            "n_drafted": self.n_drafted,
            "n_accepted": self.n_accepted,
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
    adaptive: Known[Adaptive] = UNKNOWN
    """Rules of draft length beside the best forecast."""
    sampled: Known[Sampled] = NOT_SAMPLED
    """The best forecast of drafts whose tokens are sampled."""


def forecasts(
    recordings: Sequence[Recording],
    costs_by_draft: Mapping[str, Costs],
    space: SearchSpace,
    *,
    has_text: bool = True,
) -> tuple[Forecast, ...]:
    """Replay every setting of ``space`` with every drafter whose costs are known.

    Args:
        recordings: recordings of a trace.
        costs_by_draft: costs of a trace.
        space: settings to replay.
        has_text: whether tokens are those of the vocabulary; otherwise n-gram drafters that hash
            them are left out.

    Returns:
        Best first; settings that do the same on all recordings stand for themselves.
    """
    found = list[Forecast]()
    if not recordings:
        return ()
    for draft in space.drafts:
        costs = costs_by_draft.get(draft)
        off = off_costs(draft, costs_by_draft, space)
        if costs is not None and off is not None:
            forecast = partial(forecast_of, recordings=recordings, space=space, off=off)
            totals = replay_trace(recordings, draft, space.grid(draft), costs)
            alone = [forecast(total) for total in totals if total.model.check() is None]
            ahead = [s for s in space.ahead() if has_text or not s.hashes_tokens]
            found += [*alone, *_chained(recordings, alone, ahead, costs, forecast)]
    costs = ngram_costs(costs_by_draft)
    if costs is not None:
        settings = [s for s in space.ngrams() if has_text or not hashes_tokens(s)]
        forecast = partial(forecast_of, recordings=recordings, space=space, off=costs)
        found += map(forecast, replay_settings(recordings, settings, costs))
    return tuple(sorted(found, key=lambda one: -one.speedup))


def off_costs(draft: str, costs_by_draft: Mapping[str, Costs], space: SearchSpace) -> Costs | None:
    """Costs of off, from the placement of the target without a draft.

    None where nothing was measured there.
    """
    layouts = space.layouts
    is_moved = layouts is not None and layouts.of(draft) != layouts.alone
    return costs_by_draft.get(NGRAM_COSTS if is_moved else draft)


def _chained(
    recordings: Sequence[Recording],
    alone: Sequence[Forecast],
    ahead: Sequence[Ngram],
    costs: Costs,
    forecast: Callable[[Total], Forecast],
) -> Iterator[Forecast]:
    """The best settings of a draft model with each of ``ahead`` before it, where that gains."""
    best = _best_of_each_length(sorted(alone, key=lambda one: -one.speedup))[:_CHAINED]
    for one in best:
        if one.arm.draft is None or one.arm.speculation is None:
            continue
        settings = [one.arm.speculation.after((drafter,)) for drafter in ahead]
        for total in replay_settings(recordings, settings, costs, draft=one.arm.draft):
            chained = forecast(total)
            if chained.speedup > _CHAIN_GAIN * one.speedup:
                yield chained


def forecast_of(
    total: Total, *, recordings: Sequence[Recording], space: SearchSpace, off: Costs
) -> Forecast:
    """The forecast that a replay gives, over the target alone as ``off`` prices it."""
    off_s = off_part_seconds(recordings, total.parts.tokens, off)
    answers = None if total.seconds is None else Answers(*total.parts, off_s)
    return Forecast(
        arm=space.placed(Arm(draft=total.draft, speculation=total.speculation)),
        speedup=float(off_s.sum() / total.seconds) if total.seconds else 0.0,
        n_drafted=total.n_drafted,
        n_accepted=total.n_accepted,
        answers=answers,
    )


def adaptive_best(
    recordings: Sequence[Recording], costs: Mapping[str, Costs], ordered: Sequence[Forecast]
) -> Known[Adaptive]:
    """Rules of draft length beside the best forecast of a draft model that drafts alone."""
    for one in ordered:
        arm, answers = one.arm, one.answers
        own = None if arm.speculation is None or arm.speculation.ahead else arm.speculation.model
        if arm.draft is not None and own is not None and answers is not None:
            on_s, off_s = float(answers.on_s.sum()), float(answers.off_s.sum())
            return Known(
                Adaptive(
                    draft=arm.draft,
                    fixed=arm if on_s <= off_s else OFF,
                    fixed_s=min(on_s, off_s),
                    policies=replay_policies(recordings, arm.draft, costs[arm.draft], own),
                )
            )
    return UNKNOWN


def sampled_best(
    recordings: Sequence[Recording], costs_by_draft: Mapping[str, Costs], space: SearchSpace
) -> Known[Sampled]:
    """The best forecast of drafts whose tokens are sampled, of all draft models."""
    found = [
        best_sampled(recordings, draft, costs, off)
        for draft, costs in costs_by_draft.items()
        if draft in space.drafts and (off := off_costs(draft, costs_by_draft, space)) is not None
    ]
    known = [one for one in found if one is not None]
    return Known(max(known, key=lambda one: one.speedup)) if known else NOT_SAMPLED


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

    Of those that are as good as the best for all that a forecast can tell, the one that gains most
    evenly comes first: it serves other prompts as well, and fewer of them decide whether it pays.
    """
    best = _best_of_each_length(ordered)
    bound = (1 - EVEN) * best[0].speedup if best else 0.0
    even = sorted((one for one in best if one.speedup >= bound), key=lambda one: one.spread)
    return tuple(one.arm for one in (*even, *best[len(even) :])[:n])


def in_order(ordered: Sequence[Forecast], defaults: Sequence[Arm]) -> tuple[Arm, ...]:
    """Put what is worth a trial in the order in which to try it.

    The most promising setting comes first: where time is short it is worth more than what
    llama-server would do by default. Defaults that are forecast to lose come last, as they would
    only show that the forecast was right; but those of the best draft model, which the user would
    otherwise run, keep their place.

    Args:
        ordered: forecasts, best first.
        defaults: arms that the user has or gets without tuning.
    """
    best = promising(ordered)
    known = [one for one in ordered if one.arm in defaults]
    losing = {one.arm for one in known if one.speedup < 1 - EVEN}
    losing -= set([one.arm for one in known if one.arm.draft is not None][:1])
    hopeful = [arm for arm in defaults if arm not in losing]
    hopeless = [arm for arm in defaults if arm in losing]
    return tuple(dict.fromkeys((*best[:1], *hopeful, *best[1:], *hopeless)))


def _best_of_each_length(ordered: Sequence[Forecast]) -> list[Forecast]:
    chosen: dict[tuple[str, int], Forecast] = {}
    done = set[tuple[str, float, int, int]]()
    for one in ordered:
        speculation = one.arm.speculation
        if speculation is not None and one.n_drafted:
            # With and without a drafter ahead, a model of one length shares its error, too.
            who = one.arm.draft or one.arm.drafter
            place = who, speculation.own.longest
            # Lengths that no draft reaches do the same as the first of them.
            does = who, one.speedup, one.n_drafted, one.n_accepted
            if place not in chosen and does not in done:
                chosen[place] = one
                done.add(does)
    return list(chosen.values())
