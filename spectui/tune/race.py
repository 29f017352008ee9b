"""The last phase: the winner and off on the same prompts, until it is decided.

Each prompt is decoded without speculation and with the winner, one right after the other. Where
prompts were recorded, these runs tell how far counts and prices are off (``evidence``), and a few
will do; elsewhere they are the verdict, on prompts that had no part in the choice, since the winner
of a search is flattered by the numbers that it won with. The race ends when the verdict on it is
decided: the question is on or off.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from spectui.documents import Json, or_reason
from spectui.format import counted, percent_text
from spectui.measure.arm import Arm
from spectui.measure.measurer import Pair, measurements, steady
from spectui.measure.reading import NONE_APART, Readings
from spectui.measure.requests import Request
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import Answer, Basis, judge
from spectui.measure.workload import WorkItem
from spectui.tune.evidence import Evidence
from spectui.tune.forecast import Forecast, promising
from spectui.tune.looks import ERROR, Looks
from spectui.tune.race_runs import RaceRuns
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
    """A setting after the last look."""

    arm: Arm
    speedup: Speedup | None
    """Over off; its interval holds for all looks together. None if nothing was decoded."""
    n_pairs: int
    pairs: tuple[Pair, ...] = ()
    """Paired measurements against off; empty where recorded prompts alone tell of it."""
    apart: Readings = NONE_APART
    """Prompts that were evaluated for the recording."""

    def document(self) -> Json:
        """A setting as JSON."""
        nothing = "nothing was decoded"
        speedup = self.speedup
        if speedup is None:
            return {"params": self.arm.document(), **or_reason("speedup", None, nothing)}
        return {
            "params": self.arm.document(),
            "n_prompts": speedup.n_prompts,
            "n_timed": speedup.n_prompts if speedup.n_timed is None else speedup.n_timed,
            **speedup.document(),
        }


@dataclass(eq=False)
class Race:
    """Measures a setting against off. Use it once."""

    runs: RaceRuns
    """Measure the setting and off."""
    items: Sequence[WorkItem]
    """Prompts in order; one that comes again is a repeat."""
    _: KW_ONLY
    min_gain: float
    """Least gain of speculation that is worth it; 0.02 is 2 %."""
    n_affordable: Callable[[Sequence[WorkItem]], int] = len
    """Given the prompts that are left, how many of those, from the first, there is time for; asked
    at every look. The prompts before the first look are measured in any case."""
    requests: Callable[[Standing], Sequence[Request]] = lambda _standing: ()
    """Whole requests as the setting stands, which have to gain as well."""
    basis: Basis | None = None
    """Text that judges; None where no choice was made."""
    evidence: Evidence | None = None
    """Recorded prompts; None where none were."""
    error: float = ERROR
    """Error of all looks together, both sides; below ``ERROR`` where text of the same prompts chose
    the setting, so that intervals are of ``LEVEL`` for other prompts."""
    until_decided: bool = True
    """Whether it ends as soon as it is decided."""
    n_resamples: int = _N_RESAMPLES
    """Resamples of the bootstrap."""

    def __post_init__(self) -> None:
        self.arm = self.runs.arm
        self.speedup: Speedup | None = None
        """At the last look; None before the first."""
        self._looks = Looks(self.error)
        self._fraction = 0.0
        """Fraction of the planned prompts at the last look."""
        self._n_seen = 0
        """Pairs at the last look."""

    def run(self) -> None:
        """Measure until it is decided, if it may end then, time is up, or prompts are.

        It ends as well where more timed prompts would hardly narrow the interval. May be
        interrupted.
        """
        left = self._affordable()
        if self._n_seen and self._is_timed(self._progress(len(left))):
            return
        step = max(LOOK_EVERY, -(-len(left) // _MAX_LOOKS))
        leg = left[:step] if self.runs.n_items else self.items[:step]
        while leg:
            self.runs.measure(leg)
            rest = self._affordable()
            progress = self._progress(len(rest))
            self._look_at(progress)
            if (self.until_decided and self.is_decided) or self._is_timed(progress):
                return
            # A short rest is no look of its own: each one spends some of the error.
            leg = rest if len(rest) < step + _SHORTEST_LEG else rest[:step]

    def _is_timed(self, progress: float) -> bool:
        """Whether more timed prompts would hardly add to what recorded ones tell."""
        return self.evidence is not None and progress >= 1

    def extend(self, evidence: Evidence, items: Sequence[WorkItem]) -> None:
        """Look again with further prompts that were recorded; they may be timed."""
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
        evidence, timed = self.evidence, measurements(self.pairs)
        if evidence is None or not timed:
            return self._share(n_left)
        return evidence.progress(timed, len(timed) + n_left)

    def _share(self, n_left: int) -> float:
        """Share of the prompts that is measured."""
        return self.runs.n_items / (self.runs.n_items + n_left)

    def _affordable(self) -> Sequence[WorkItem]:
        """Prompts that are left and that there is time for."""
        rest = self.items[self.runs.n_items :]
        return rest[: self.n_affordable(rest)]

    def conclude(self) -> Standing:
        """Return how the setting stands in the end; after an interrupt as well."""
        is_open = 0 < self._fraction < 1 and not self.is_decided
        if self._n_seen < len(self.runs.pairs) or is_open:
            # The last look, whatever was planned.
            self._look(1.0)
        return self._standing

    @property
    def _standing(self) -> Standing:
        evidence = self.evidence
        return Standing(
            arm=self.arm,
            speedup=self.speedup,
            n_pairs=len(self.runs.pairs),
            pairs=self.pairs,
            apart=NONE_APART if evidence is None else evidence.reading,
        )

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements against off, on an undisturbed machine."""
        return steady(self.runs.pairs)

    @property
    def pairs_where_target_moved(self) -> tuple[Pair, ...]:
        """Paired measurements against the target alone as it lies beside the setting's draft.

        Empty where that is no other place.
        """
        return steady(self.runs.pairs_where_target_moved)

    @property
    def n_left(self) -> int:
        """Prompts that may still be measured."""
        return len(self.items) - self.runs.n_items

    def _look(self, fraction: float) -> None:
        self._fraction = fraction
        n_data = self.runs.n_items if self.evidence is None else math.ceil(_WHOLE * fraction)
        level = self._looks.level(n_data, fraction)
        measured = measurements(self.pairs)
        if measured:
            found = self._speedup(measured, level)
            self.speedup = replace(found, level=LEVEL, n_looks=self._looks.n)
        # An interrupt before this has the look taken again.
        self._n_seen = len(self.runs.pairs)

    def _speedup(self, measured: Sequence[PairedMeasurement], level: float) -> Speedup:
        if self.evidence is not None:
            return self.evidence.speedup(measured, level=level)
        return paired_speedup(measured, level=level, n_resamples=self.n_resamples)

    @property
    def is_decided(self) -> bool:
        """Whether the last look has a verdict on the setting."""
        if self.speedup is None:
            return False
        requests = self.requests(self._standing)
        found = judge(self.speedup, min_gain=self.min_gain, basis=self.basis, requests=requests)
        return found.answer is not Answer.UNDECIDED


_LARGE_ERROR = 0.1


def choosable(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> list[Forecast]:
    """The forecasts of settings that have not failed in a trial, in their order."""
    failed = {one.arm for one in records if one.state is TrialState.FAIL}
    return [one for one in forecasts if one.arm not in failed]


def finalist(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> Arm | None:
    """The best forecast that has not failed in a trial, or a setting that only a trial knows.

    A forecast is off by 1 to 2 %, a trial of eight prompts by 5 % (``benchmarks/replay_times.py``):
    where there is a forecast, a trial says no more than whether the setting runs at all.

    A close second is not raced: what it may gain beyond the best is about the least gain, and its
    runs take time from the prompts that decide between on and off.

    Args:
        records: trials of arms that may be recommended.
        forecasts: best first.
    """
    able = choosable(records, forecasts)
    known = {one.arm: one.speedup for one in able}
    tried = best_trial([one for one in records if one.arm not in known])
    chosen = next(iter(promising(able, n=1)), None)
    if tried is None or tried.speedup is None:
        return chosen
    return tried.arm if chosen is None or tried.speedup > known[chosen] else chosen


def forecast_errors(
    standings: Sequence[Standing], forecasts: Sequence[Forecast]
) -> tuple[float, ...]:
    """Logarithms of timed over forecast speedups, one per setting that has both."""
    predicted = {one.arm: one.speedup for one in forecasts if one.speedup > 0}
    return tuple(
        math.log(one.speedup.estimate / predicted[one.arm])
        for one in standings
        if one.speedup is not None and one.n_pairs and one.arm in predicted
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
