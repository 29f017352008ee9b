"""One setting for all prompts, or a profile per category? From the trials' own prompts.

The best of many settings in a category is the best of many noisy numbers, and with few prompts per
category it is easily the wrong one. So what profiles gain is told on prompts that had no part in
the choice: of each category one half chooses, both the setting for all and the category's, and the
two are compared on the other half; then the halves change places. Had every prompt but one chosen,
it would be nearly the choice by all: of settings that are all alike, profiles would have been
recommended in up to 6 of 100 simulated searches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spectui.documents import Json, or_reason
from spectui.format import gain_percent
from spectui.measure.arm import OFF, Arm
from spectui.measure.measurer import NOTHING_DRAFTED, Pair, throughput
from spectui.measure.statistics import PairedMeasurement, paired_speedup
from spectui.speculative.counters import Counters
from spectui.tune.trials import TrialRecord, TrialState, has_steady_off, levelled

_MIN_PER_CATEGORY = 2
"""Prompts of a category of which one can choose and another judge."""
_LEVEL = 0.97
"""A choice made in one half is judged in the other: the halves are not quite independent. Of
settings that are all alike, profiles were recommended in up to 2.2 of 100 simulated searches; with
95 % in up to 3."""


_NOT_TRIED = "no trial measured a prompt of it"
_OFF_ALONE = "the trials measured no setting but off on its prompts"
_NOT_CONFIRMED = "no prompt of it was confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryResult:
    """Result of the trials in one category."""

    category: str
    n_prompts: int
    n_tokens: int
    """Per pass, without the first token of each prompt."""
    n_settings: int
    """Settings that were compared, off included; 1 where nothing else was tried."""
    best: Arm
    """Fastest in the trials, off included."""
    best_speedup: float
    """Over off, drift taken out; of the fastest of several, so that it flatters itself."""
    winner_speedup: float | None
    """Speedup of the setting chosen for all prompts, in the same trials; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiles:
    """Whether a profile per category is worth it."""

    recommended: bool
    gain: float | None
    """On prompts left out of the choice; 0.05 is 5 %. None where it cannot be told."""
    gain_ci: tuple[float, float] | None
    """Interval of ``gain`` at the level of 97 %."""
    apparent_gain: float | None
    """On the prompts of the choice: noise counts as gain here."""
    reason: str
    """One sentence."""

    def document(self) -> Json:
        """Its fields as JSON."""
        interval = None if self.gain_ci is None else list(self.gain_ci)
        unknown = self.reason
        return {
            "recommended": self.recommended,
            **or_reason("gain", self.gain, unknown),
            **or_reason("gain_ci", interval, "the interval is not known"),
            "gain_ci_level": _LEVEL,
            **or_reason("apparent_gain", self.apparent_gain, unknown),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class _Prompt:
    id: str
    category: str
    n_tokens: int


class _Trials:
    """Seconds by setting and prompt, in units of the machine's speed at the time.

    Only settings that measured every prompt of the off arm can be compared.
    """

    def __init__(self, records: Sequence[TrialRecord]) -> None:
        complete = [
            r for r in levelled(records) if r.state is TrialState.COMPLETE and r.anchor_tokens_per_s
        ]
        if has_steady_off(complete):
            complete = [one for one in complete if not (one.arm.is_off and one.noisy)]
        off = [record for record in complete if record.arm.is_off]
        self.off = off[0].arm if off else OFF
        # Tokens are the target's own and the same in every trial; off tells them first.
        self.prompts = tuple(
            _Prompt(score.prompt_id, score.category, score.n_tokens)
            for score in (off[0].prompts if off else ())
            if score.n_tokens
        )
        sums: dict[Arm, dict[str, list[float]]] = {}
        for record in complete:
            seconds = sums.setdefault(record.arm, {})
            for score in record.prompts:
                if score.n_tokens:
                    per_token = score.decode_s / score.n_tokens * (record.anchor_tokens_per_s or 1)
                    seconds.setdefault(score.prompt_id, []).append(per_token)
        self._per_token = {
            arm: {prompt: sum(values) / len(values) for prompt, values in seconds.items()}
            for arm, seconds in sums.items()
            if all(prompt.id in seconds for prompt in self.prompts)
        }

    @property
    def arms(self) -> tuple[Arm, ...]:
        return tuple(self._per_token)

    def seconds(self, arm: Arm, prompts: Iterable[_Prompt]) -> float:
        return sum(self._per_token[arm][prompt.id] * prompt.n_tokens for prompt in prompts)

    def fastest(self, prompts: Sequence[_Prompt]) -> Arm:
        return min(self.arms, key=lambda arm: self.seconds(arm, prompts))

    def by_category(self) -> dict[str, list[_Prompt]]:
        found: dict[str, list[_Prompt]] = {}
        for prompt in self.prompts:
            found.setdefault(prompt.category, []).append(prompt)
        return found


def per_category(records: Sequence[TrialRecord], winner: Arm | None) -> tuple[CategoryResult, ...]:
    """Find the fastest setting of each category.

    Args:
        records: all trials; those without prompts are passed over.
        winner: the setting chosen for all prompts.
    """
    trials = _Trials(records)
    known = winner if winner in trials.arms else None
    results = []
    for category, prompts in trials.by_category().items():
        off_s = trials.seconds(trials.off, prompts)
        best = trials.fastest(prompts)
        results.append(
            CategoryResult(
                category=category,
                n_prompts=len(prompts),
                n_tokens=sum(prompt.n_tokens for prompt in prompts),
                n_settings=len(trials.arms),
                best=best,
                best_speedup=off_s / trials.seconds(best, prompts),
                winner_speedup=None if known is None else off_s / trials.seconds(known, prompts),
            )
        )
    return tuple(results)


def judge_profiles(records: Sequence[TrialRecord], *, min_gain: float) -> Profiles:
    """Say whether each category should have a setting of its own.

    Args:
        records: all trials.
        min_gain: least gain that makes profiles worth the trouble; 0.02 is 2 %.
    """
    trials = _Trials(records)
    categories = trials.by_category()
    if not categories:
        return _unknown("the off arm was not measured")
    if len(categories) < 2:  # noqa: PLR2004 - a choice needs two
        return _unknown("the trials' prompts are all of one category")
    if len(trials.arms) < 2:  # noqa: PLR2004 - a choice needs two
        return _unknown("the trials measured fewer than two settings on the same prompts")
    best = {name: trials.fastest(prompts) for name, prompts in categories.items()}
    if len(set(best.values())) == 1:
        return Profiles(
            recommended=False,
            gain=0.0,
            gain_ci=None,
            apparent_gain=0.0,
            reason=f"One setting for all: {_fastest(best)} was fastest in every category.",
        )
    single_s = trials.seconds(trials.fastest(trials.prompts), trials.prompts)
    profiles_s = sum(trials.seconds(best[name], prompts) for name, prompts in categories.items())
    apparent = single_s / profiles_s - 1
    if apparent <= min_gain:
        reason = (
            "One setting for all: even one per category, chosen with hindsight, gained "
            f"{_percent(apparent)}."
        )
        return Profiles(
            recommended=False, gain=None, gain_ci=None, apparent_gain=apparent, reason=reason
        )
    if max(map(len, categories.values())) < _MIN_PER_CATEGORY:
        return _unknown(
            f"a setting per category looks {_percent(apparent)} faster, but every category has one "
            "prompt in the trials, which cannot tell the category from the prompt",
            apparent,
        )
    return _judged(_cross_validated(trials, categories), apparent, min_gain)


def _fastest(best: Mapping[str, Arm]) -> str:
    """The one that all categories have, named where that is none."""
    return "off" if all(arm.is_off for arm in best.values()) else "the same one"


def _cross_validated(
    trials: _Trials, categories: Mapping[str, Sequence[_Prompt]]
) -> list[PairedMeasurement]:
    """Each prompt with the setting for all and with its category's, as the other half chose."""
    halves: tuple[list[_Prompt], list[_Prompt]] = [], []
    for index, prompts in enumerate(categories.values()):
        for place, prompt in enumerate(prompts, index):
            halves[place % 2].append(prompt)
    first, second = halves
    return [*_compared(trials, first, second), *_compared(trials, second, first)]


def _compared(
    trials: _Trials, choosing: Sequence[_Prompt], judging: Sequence[_Prompt]
) -> Iterator[PairedMeasurement]:
    """The settings that some prompts choose, on others; a category without any has that of all."""
    if not choosing:
        return
    single = trials.fastest(choosing)
    for prompt in judging:
        alike = [other for other in choosing if other.category == prompt.category]
        profile = trials.fastest(alike) if alike else single
        yield PairedMeasurement(
            prompt_id=prompt.id,
            category=prompt.category,
            baseline_s=trials.seconds(single, (prompt,)),
            baseline_tokens=prompt.n_tokens,
            speculative_s=trials.seconds(profile, (prompt,)),
            speculative_tokens=prompt.n_tokens,
        )


def _judged(pairs: Sequence[PairedMeasurement], apparent: float, min_gain: float) -> Profiles:
    speedup = paired_speedup(pairs, level=_LEVEL)
    gain = speedup.estimate - 1
    on_own = f"{_percent(apparent)} on prompts that chose them"
    if speedup.low is None or speedup.high is None:
        reason = (
            f"One setting for all, not decided: one per category gained {_percent(gain)} on "
            f"prompts that did not choose them, {on_own}; {speedup.interval_reason}."
        )
        return Profiles(
            recommended=False, gain=gain, gain_ci=None, apparent_gain=apparent, reason=reason
        )
    low, high = speedup.low - 1, speedup.high - 1
    recommended = low > 0 and gain > min_gain
    found = f"{_percent(gain)} ({100 * _LEVEL:g} % interval {_percent(low)} to {_percent(high)})"
    if recommended:
        reason = (
            f"A setting per category: it gained {found} on prompts that did not choose it, over "
            "one setting for all."
        )
    else:
        reason = (
            "One setting for all: none per category held on prompts that did not choose it, "
            f"where they gained {found}; {on_own}."
        )
    return Profiles(
        recommended=recommended,
        gain=gain,
        gain_ci=(low, high),
        apparent_gain=apparent,
        reason=reason,
    )


def _unknown(because: str, apparent: float | None = None) -> Profiles:
    return Profiles(
        recommended=False,
        gain=None,
        gain_ci=None,
        apparent_gain=apparent,
        reason=f"One setting for all, not decided: {because}.",
    )


def _percent(share: float) -> str:
    return gain_percent(100 * share, 1)


def per_category_rows(pairs: Sequence[Pair], categories: Sequence[CategoryResult]) -> list[Json]:
    """Rows per category as JSON: the winner's confirmation, and the trials of all settings.

    Args:
        pairs: confirmation of the winner.
        categories: results of the trials.
    """
    confirmed: dict[str, list[Pair]] = {}
    for pair in pairs:
        confirmed.setdefault(pair.item.category, []).append(pair)
    tried = {one.category: one for one in categories}
    names = dict.fromkeys((*tried, *confirmed))
    return [_row(name, confirmed.get(name, []), tried.get(name)) for name in names]


def _row(name: str, pairs: Sequence[Pair], tried: CategoryResult | None) -> Json:
    off = throughput([pair.baseline for pair in pairs])
    on = throughput([pair.speculative for pair in pairs])
    rounds = sum((pair.speculative.counters for pair in pairs), Counters())
    trials, why = None, _NOT_TRIED if tried is None else _OFF_ALONE
    # Off alone is the fastest of nothing.
    if tried is not None and tried.n_settings > 1:
        trials = {
            "n_prompts": tried.n_prompts,
            "n_tokens": tried.n_tokens,
            "best": {"params": tried.best.document(), "speedup": tried.best_speedup},
            **or_reason("winner_speedup", tried.winner_speedup, "it was not tried there"),
        }
    return {
        "category": name,
        "n_prompts": len(pairs),
        **or_reason("speedup", on / off if on and off else None, _NOT_CONFIRMED),
        **or_reason(
            "acceptance_rate", rounds.acceptance_rate, NOTHING_DRAFTED if pairs else _NOT_CONFIRMED
        ),
        **or_reason("trials", trials, why),
    }
