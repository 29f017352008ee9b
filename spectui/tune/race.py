"""The last phase: finalists and off on the same prompts, until it is decided.

Each prompt is decoded without speculation and with every finalist, one right after the other. Where
prompts were recorded, these runs tell how far counts and prices are off (``evidence``), and a few
will do; elsewhere they are the verdict, on prompts that had no part in the choice, since the winner
of a search is flattered by the numbers that it won with. The race ends when the verdict on the
leader is decided: the question is on or off, and the finalists are all settings that may be used.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from spectui.documents import Json, or_reason
from spectui.format import counted, percent_text
from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair, measurements, steady
from spectui.measure.reading import Readings
from spectui.measure.requests import Request
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import Answer, Basis, judge
from spectui.measure.workload import WorkItem
from spectui.tune.evidence import Evidence
from spectui.tune.forecast import Forecast, promising
from spectui.tune.looks import ERROR, Looks
from spectui.tune.race_runs import RaceLegs
from spectui.tune.trials import TrialRecord, TrialState, best_trial

LOOK_EVERY = 8
"""Prompts between two looks, at least; fewer give no useful interval."""
BASELINE_SHARE = 0.25
"""Share of each answer that the target decodes alone as well, where both sides take turns within
it. What a token of the target costs hardly differs from prompt to prompt, what is accepted does: in
the time of the rest there is room for more prompts."""
_MAX_LOOKS = 8
"""Limit of looks: more would leave the first ones too little error to be of use."""
_SHORTEST_LEG = 4
"""Prompts between the last look and the one before it."""
LEVEL = 0.95
"""Confidence level of the intervals."""
_N_RESAMPLES = 40_000
"""A look spends a part of the error: its interval lies far out in the tails."""
_WHOLE = 1_000
"""Data that all information counts as, where recorded prompts are a part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A finalist after the last look."""

    arm: Arm
    speedup: Speedup | None
    """Over off; its interval holds for all looks together. None if nothing was decoded."""
    n_pairs: int
    pairs: tuple[Pair, ...] = ()
    """Paired measurements against off."""
    apart: Readings = field(default_factory=Readings)
    """Prompts that were evaluated for the recording."""

    def document(self) -> Json:
        """A finalist as JSON."""
        nothing = "nothing was decoded"
        speedup = self.speedup
        if speedup is None:
            return {"params": self.arm.document(), **or_reason("speedup", None, nothing)}
        return {
            "params": self.arm.document(),
            "n_prompts": speedup.n_prompts,
            "n_timed": speedup.n_prompts if speedup.n_timed is None else speedup.n_timed,
            **speedup.document(),
            "n_slow_rounds": sum(pair.n_slow for pair in self.pairs),
        }


@dataclass(eq=False)
class Race:
    """Measures finalists against off. Use it once."""

    runs: RaceLegs
    """Measure the finalists, the favourite first, and off."""
    items: Sequence[WorkItem]
    """Prompts in order; one that comes again is a repeat."""
    _: KW_ONLY
    min_gain: float
    """Least gain of speculation that is worth it, and least lead of another finalist that is worth
    measuring on; 0.02 is 2 %."""
    n_affordable: Callable[[Sequence[Arm], Sequence[WorkItem]], int] = lambda _arms, items: len(
        items
    )
    """Given the finalists that still run and the prompts that are left, how many of those, from the
    first, there is time for; asked at every look. The prompts before the first look are measured in
    any case."""
    requests: Callable[[Sequence[Standing]], Sequence[Request]] = lambda _standings: ()
    """Whole requests as the standings have them, which have to gain as well."""
    basis: Basis | None = None
    """Text that judges; None where no choice was made."""
    evidence: Evidence | None = None
    """Recorded prompts; None where none were."""
    error: float = ERROR
    """Error of all looks together, both sides; below ``ERROR`` where text of the same prompts chose
    the finalists, so that intervals are of ``LEVEL`` for other prompts."""
    n_resamples: int = _N_RESAMPLES
    """Resamples of the bootstrap."""

    def __post_init__(self) -> None:
        self._running = list(self.runs.arms)
        self._speedups: dict[Arm, Speedup] = {}
        self._looks = Looks(self.error)
        self._fraction = 0.0
        """Fraction of the planned prompts at the last look."""
        self._n_seen = 0
        """Pairs at the last look."""
        self.leader = self.runs.arms[0]
        """The favourite, or the finalist that was shown to be faster by the last look."""

    def run(self, *, until_decided: bool = True) -> None:
        """Measure until it is decided, time is up, or prompts are. May be interrupted.

        Args:
            until_decided: whether to end as soon as it is decided, and where more timed prompts
                would hardly narrow the interval; else time and prompts alone end it.
        """
        left = self._affordable()
        if until_decided and self._n_seen and self._is_timed(self._progress(len(left))):
            return
        step = max(LOOK_EVERY, -(-len(left) // _MAX_LOOKS))
        leg = left[:step] if self.runs.n_items else self.items[:step]
        while leg:
            self.runs.measure(self._running, self.runs.n_items, leg)
            rest = self._affordable()
            progress = self._progress(len(rest)) if until_decided else self._share(len(rest))
            self._look_at(progress)
            if until_decided and (self.is_decided or self._is_timed(progress)):
                return
            # A short rest is no look of its own: each one spends some of the error.
            leg = rest if len(rest) < step + _SHORTEST_LEG else rest[:step]

    def _is_timed(self, progress: float) -> bool:
        """Whether more timed prompts would hardly add to what recorded ones tell."""
        return self.evidence is not None and progress >= 1

    def extend(self, evidence: Evidence, items: Sequence[WorkItem]) -> None:
        """Look again with further prompts that were recorded for the leader; they may be timed."""
        self.evidence = evidence
        self.items = (*self.items, *items)
        self._look_at(self._progress(len(self._affordable())))

    def _look_at(self, progress: float) -> None:
        """Take a look; ``progress`` is that of timing the prompts that are recorded."""
        fraction = progress * (1.0 if self.evidence is None else self.evidence.share)
        # With more time than there seemed to be, there is nothing to spend on this look.
        if fraction > self._fraction:
            self._look(fraction)

    def _progress(self, n_left: int) -> float:
        """Share of the timing that is done; 1 where more would hardly add to what is known."""
        evidence, timed = self.evidence, measurements(self.pairs(self.leader))
        if evidence is None or not timed or not evidence.covers(self.leader):
            return self._share(n_left)
        return evidence.progress(self.leader, timed, len(timed) + n_left)

    def _share(self, n_left: int) -> float:
        """Share of the prompts that is measured."""
        return self.runs.n_items / (self.runs.n_items + n_left)

    def _affordable(self) -> Sequence[WorkItem]:
        """Prompts that are left and that there is time for."""
        rest = self.items[self.runs.n_items :]
        return rest[: self.n_affordable(self._running, rest)]

    def conclude(self) -> tuple[Standing, ...]:
        """Return how the finalists stand, the leader first; after an interrupt as well."""
        is_open = 0 < self._fraction < 1 and not self.is_decided
        if self._n_seen < self.runs.n_pairs or is_open:
            # The last look, whatever was planned.
            self._look(1.0)
        return self._standings()

    def _standings(self) -> tuple[Standing, ...]:
        arms = sorted(self.runs.arms, key=lambda arm: arm != self.leader)
        return tuple(
            Standing(
                arm=arm,
                speedup=self._speedups.get(arm),
                n_pairs=len(self.runs.pairs(arm)),
                pairs=self.pairs(arm),
                apart=Readings() if self.evidence is None else self.evidence.reading_of(arm),
            )
            for arm in arms
        )

    def pairs(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements of a finalist against off, on an undisturbed machine."""
        return steady(self.runs.pairs(arm))

    def pairs_where_target_moved(self, arm: Arm) -> tuple[Pair, ...]:
        """Paired measurements against the target alone as it lies beside the arm's draft.

        Empty where that is no other place.
        """
        return steady(self.runs.pairs_where_target_moved(arm))

    @property
    def n_left(self) -> int:
        """Prompts that may still be measured."""
        return len(self.items) - self.runs.n_items

    def _look(self, fraction: float) -> None:
        self._fraction = fraction
        is_counted = self.evidence is not None
        n_data = math.ceil(_WHOLE * fraction) if is_counted else self.runs.n_items
        level = self._looks.level(n_data, fraction)
        for arm in self._running:
            measured = measurements(self.pairs(arm))
            if measured:
                found = self._speedup(arm, measured, level)
                self._speedups[arm] = replace(found, level=LEVEL, n_looks=self._looks.n)
        running = [arm for arm in self._running if arm in self._speedups]
        if running:
            self.leader = self._next_leader(running)
            self._running = [arm for arm in running if not self._is_beaten(arm)]
        # An interrupt before this has the look taken again.
        self._n_seen = self.runs.n_pairs

    def _speedup(self, arm: Arm, measured: Sequence[PairedMeasurement], level: float) -> Speedup:
        evidence = self.evidence
        if evidence is not None and evidence.covers(arm):
            return evidence.speedup(arm, measured, level=level)
        return paired_speedup(measured, level=level, n_resamples=self.n_resamples)

    def _next_leader(self, running: Sequence[Arm]) -> Arm:
        """The leader so far, unless another finalist has been shown to be faster.

        The larger of two noisy numbers flatters itself: with the faster one in the lead whatever
        the difference, settings that gain just the least gain were advised in 4.5 of 100 races.
        """
        furthest = max(len(self.runs.pairs(arm)) for arm in running)
        # An interrupt may have left some behind.
        level = [arm for arm in running if len(self.runs.pairs(arm)) == furthest]
        fastest = max(level, key=lambda arm: self._speedups[arm].estimate)
        if self.leader not in level:
            return fastest
        common = _over(self.pairs(fastest), self.pairs(self.leader))
        low = paired_speedup(common).low if common else None
        return fastest if low is not None and low > 1 else self.leader

    def _is_beaten(self, arm: Arm) -> bool:
        """Whether it cannot be ahead of the leader by ``min_gain``.

        Which finalists go on is no claim, so this interval does not share the looks' error.
        """
        if arm == self.leader:
            return False
        common = _over(self.pairs(arm), self.pairs(self.leader))
        high = paired_speedup(common).high if common else None
        return high is not None and high < 1 + self.min_gain

    @property
    def speedup(self) -> Speedup | None:
        """The leader's at the last look; None before the first."""
        return self._speedups.get(self.leader)

    @property
    def is_decided(self) -> bool:
        """Whether the last look has a verdict on the leader that the other finalists leave.

        A leader that pays does, whatever they gain beyond it. One that does not leaves the question
        to whoever still may.
        """
        standings = self._standings()
        speedup = self.speedup
        if speedup is None:
            return False
        requests = self.requests(standings)
        answer = judge(speedup, min_gain=self.min_gain, basis=self.basis, requests=requests).answer
        if answer in {Answer.USE, Answer.UNDECIDED}:
            return answer is Answer.USE
        others = [self._speedups[arm] for arm in self._running if arm in self._speedups]
        return all(one.high is not None and one.high <= 1 + self.min_gain for one in others)


def _over(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[PairedMeasurement]:
    """Speedup of one finalist over another, prompt by prompt, each against its own off run."""
    found = []
    # An interrupt may have left one of them behind.
    for pair, other in zip(pairs, others, strict=False):
        one, two = pair.measurement, other.measurement
        if one is not None and two is not None:
            drift = one.baseline_s / two.baseline_s
            found.append(
                replace(
                    one,
                    baseline_s=two.speculative_s * drift,
                    baseline_tokens=two.speculative_tokens,
                    n_accepted=None,
                )
            )
    return found


_LARGE_ERROR = 0.1
_UNMEASURABLE = frozenset({TrialState.FAIL, TrialState.PRUNED})


def choosable(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> list[Forecast]:
    """The forecasts of settings that have not failed in a trial, in their order."""
    failed = {one.arm for one in records if one.state in _UNMEASURABLE}
    return [one for one in forecasts if one.arm not in failed]


def finalist(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> Arm | None:
    """The best forecast that has not failed in a trial; without forecasts, the best trial.

    A forecast is off by 1 to 2 %, a trial of eight prompts by 5 % (``benchmarks/replay_times.py``):
    where there is a forecast, a trial says no more than whether the setting runs at all.

    A close second is not raced: what it may gain beyond the best is about the least gain, and its
    runs take time from the prompts that decide between on and off.

    Args:
        records: trials of arms that may be recommended.
        forecasts: best first.
    """
    chosen = promising(choosable(records, forecasts), n=1)
    if chosen:
        return chosen[0]
    best = best_trial(records)
    return None if best is None else best.arm


def forecast_errors(
    standings: Sequence[Standing], forecasts: Sequence[Forecast]
) -> tuple[float, ...]:
    """Logarithms of raced over forecast speedups, one per finalist that has both."""
    predicted = {one.arm: one.speedup for one in forecasts if one.speedup > 0}
    return tuple(
        math.log(one.speedup.estimate / predicted[one.arm])
        for one in standings
        if one.speedup is not None and one.arm in predicted
    )


def forecast_error(errors: Sequence[float]) -> str | None:
    """By how much forecasts of a search are off, in words; None within 10 %, or without any.

    Args:
        errors: logarithms of measured over forecast speedups, one per setting.
    """
    if not errors or abs(gain := math.expm1(statistics.median(errors))) < _LARGE_ERROR:
        return None
    what = "the timed speedup is"
    if len(errors) > 1:
        what = f"in the median of {counted(len(errors), 'setting')} {what}"
    side = "above" if gain > 0 else "below"
    return (
        f"{what} {percent_text(abs(gain))} {side} the forecast: forecasts rank settings, and what "
        "was timed decides"
    )
