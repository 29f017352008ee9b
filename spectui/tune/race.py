"""The last phase: the winner and off on the same prompts, until it is decided.

Each prompt is decoded without speculation and with the winner, one right after the other. Where
prompts were recorded, these runs show how far counts and prices are off (``evidence``), and a few
will do; elsewhere they are the verdict, on prompts that had no part in the choice, since the winner
of a search is flattered by the numbers that it won with. The race ends when the verdict on it is
decided: the question is on or off.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from spectui.documents import Json, or_reason
from spectui.measure.arm import OFF, Arm
from spectui.measure.backend import again_after_a_death
from spectui.measure.measurer import Measurer, Pair, Timed, measurements, paired, steady
from spectui.measure.reading import NONE_APART, Readings
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import Answer, Basis, judge
from spectui.measure.workload import WorkItem
from spectui.tune.evidence import LEVEL, CategoryGain, Evidence
from spectui.tune.forecast import Forecast, promising
from spectui.tune.looks import ERROR, Looks
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
_N_RESAMPLES = 40_000
"""A look spends a part of the error: its interval lies far out in the tails."""
_WHOLE = 1_000
"""Data that all information counts as, where recorded prompts are a part of it."""


@dataclass(eq=False)
class RaceRuns:
    """Measures a setting and off on the same prompts, in legs of alternating order.

    Where the setting's draft takes room from the target's experts, off is not measured beside it
    but where it is fastest, without a draft. Both cannot be loaded at once, so all prompts of a leg
    are decoded in one place of the target after the other. Where each change loads models, every
    prompt of a leg is decoded by one side, and then by the other. Where a server has several slots,
    blocks of prompts take the place of single ones. The order turns round from leg to leg: it
    begins with what is loaded, and drift cancels.
    """

    measurer: Measurer
    """Decodes."""
    arm: Arm
    """The setting."""
    _: KW_ONLY
    off: Arm = OFF
    """Arm that the verdict compares with."""
    load: Callable[[Arm], None]
    """Loads an arm's draft, and the target in its layout beside that draft."""
    on_pair: Callable[[Pair], None]
    """Called with every measured pair."""
    check_time: Callable[[int], None] = lambda _n: None
    """Called before each prompt, with the number of decoded ones; raises to end the runs."""

    def __post_init__(self) -> None:
        self._is_apart = self.measurer.n_beside_off == 0
        """Whether no setting is loaded beside off."""
        self._is_moved = self.arm.layout != self.off.layout
        """Whether the target has another layout beside the setting's draft."""
        self._items: list[WorkItem] = []
        self._beside: list[Pair] = []
        """Runs of the setting, each with the target alone in the same place."""
        self._off: list[Timed] = []
        """Runs of off in a place of its own."""
        self._on: list[Timed] = []
        """Runs of the setting where nothing is loaded beside off."""
        self._n_reported = 0
        self._n_legs = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the setting against off."""
        # An interrupt may have left one of both sides behind.
        if self._is_apart:
            return tuple(paired(self._items, self._off, self._on))
        if not self._is_moved:
            return tuple(self._beside)
        both = zip(self._beside, self._off, strict=False)
        return tuple(replace(pair, baseline=alone, segments=()) for pair, (alone, _s) in both)

    @property
    def pairs_where_target_moved(self) -> tuple[Pair, ...]:
        """Paired measurements against the target alone, in its layout beside the setting's draft.

        Empty where that layout is the same as off's.
        """
        return tuple(self._beside) if self._is_moved else ()

    @property
    def n_items(self) -> int:
        """Prompts that were measured with the setting."""
        return len(self._on if self._is_apart else self._beside)

    def measure(self, items: Sequence[WorkItem]) -> None:
        """Measure the next prompts with the setting and off."""
        start = self.n_items
        self._items += items
        self._n_legs += 1
        sides = (self.off, self.arm) if self._is_apart or self._is_moved else (self.arm,)
        # Each leg begins with what the one before has left loaded.
        for side in sides[:: 1 if self._n_legs % 2 else -1]:
            self.load(side)
            again_after_a_death(partial(self.measurer.warm_up, side.speculation))
            size = self.measurer.n_streams
            for at in range(0, len(items), size):
                self.check_time(self.n_items)
                self._decode(side, items[at : at + size], -(-(start + at) // size))

    def _decode(self, side: Arm, block: Sequence[WorkItem], turn: int) -> None:
        """Decode with one side, or with the setting beside the target alone."""
        if side.is_off or self._is_apart:
            alone = partial(self.measurer.decode_together, block, side.speculation)
            runs = self._off if side.is_off else self._on
            runs += again_after_a_death(lambda: list(alone()))
        else:
            beside = partial(self.measurer.block, block, side.speculation, turn)
            self._beside += again_after_a_death(beside)
        for pair in self.pairs[self._n_reported :]:
            self._n_reported += 1
            self.on_pair(pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A setting after the last look."""

    arm: Arm
    speedup: Speedup | None
    """Over off; its interval holds for all looks together. None if nothing was decoded."""
    pairs: tuple[Pair, ...] = ()
    """Paired measurements against off; empty for a setting that was only counted and priced."""
    apart: Readings = NONE_APART
    """Prompts that were evaluated for the recording."""
    moved: tuple[Pair, ...] = ()
    """Runs against the target alone in its layout beside the setting's draft; empty where that is
    off's layout, too."""
    categories: tuple[CategoryGain, ...] = ()
    """Gains by category of recorded prompt; empty without any."""
    of_others: Speedup | None = None
    """Gain on other prompts, where ``speedup`` is on just these."""

    def document(self) -> Json:
        """A setting as JSON."""
        speedup, params = self.speedup, {"params": self.arm.document()}
        if speedup is None:
            return {**params, **or_reason("speedup", None, "nothing was decoded")}
        return {
            **params,
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
    """Given the prompts that are left, how many of those, from the first, there is time for; called
    at every look. The prompts before the first look are measured in any case."""
    requests: Callable[[Standing], Sequence[Request]] = lambda _standing: ()
    """Whole requests as the setting stands, which have to gain as well."""
    basis: Basis | None = None
    """Text that judges; None where no choice was made."""
    evidence: Evidence | None = None
    """Recorded prompts; None where none were."""
    until_decided: bool = True
    """Whether it ends as soon as it is decided."""
    on_look: Callable[[Speedup], None] = lambda _speedup: None
    """Called with what a look has found, but for the last one."""
    n_resamples: int = _N_RESAMPLES
    """Resamples of the bootstrap."""

    def __post_init__(self) -> None:
        self.arm = self.runs.arm
        self.speedup: Speedup | None = None
        """At the last look; None before the first."""
        self._looks = Looks(ERROR if self.evidence is None else self.evidence.error)
        self._fraction = 0.0
        """Fraction of the planned prompts at the last look."""
        self._n_seen = 0
        """Pairs at the last look."""

    def run(self) -> None:
        """Measure until it is decided, if it may end then, time is up, or prompts are.

        It ends as well where more timed prompts would hardly narrow the interval. May be
        interrupted.
        """
        if self.is_timed:
            return
        left = self._affordable()
        step = max(LOOK_EVERY, -(-len(left) // _MAX_LOOKS))
        leg = left[:step] if self.runs.n_items else self.items[:step]
        while leg:
            self.runs.measure(leg)
            rest = self._affordable()
            progress = self._progress(len(rest))
            self._look_at(progress)
            if (self.until_decided and self.is_decided) or self._is_all(progress):
                return
            # A short rest is no look of its own: each one spends some of the error.
            leg = rest if len(rest) < step + _SHORTEST_LEG else rest[:step]

    @property
    def is_timed(self) -> bool:
        """Whether more timed prompts would hardly narrow the interval of the recorded ones."""
        return bool(self._n_seen) and self._is_all(self._progress(len(self._affordable())))

    def _is_all(self, progress: float) -> bool:
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
            if self.speedup is not None:
                self.on_look(self.speedup)

    def _progress(self, n_left: int) -> float:
        """Share of the timing that is done; 1 where more of it would hardly narrow the interval."""
        evidence, timed = self.evidence, measurements(self.pairs)
        if evidence is None or not timed:
            return self.runs.n_items / (self.runs.n_items + n_left)
        return evidence.progress(timed, len(timed) + n_left)

    def _affordable(self) -> Sequence[WorkItem]:
        """Prompts that are left and that there is time for."""
        return self.left[: self.n_affordable(self.left)]

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
            pairs=self.pairs,
            apart=NONE_APART if evidence is None else evidence.reading,
            moved=steady(self.runs.pairs_where_target_moved),
        )

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements against off, on an undisturbed machine."""
        return steady(self.runs.pairs)

    @property
    def left(self) -> Sequence[WorkItem]:
        """Prompts that may still be measured."""
        return self.items[self.runs.n_items :]

    def _look(self, fraction: float) -> None:
        self._fraction = fraction
        n_data = self.runs.n_items if self.evidence is None else math.ceil(_WHOLE * fraction)
        level = self._looks.level(n_data, fraction)
        measured = measurements(self.pairs)
        if measured:
            if self.evidence is None:
                found = paired_speedup(measured, level=level, n_resamples=self.n_resamples)
            else:
                found = self.evidence.speedup(measured, level=level)
            self.speedup = replace(found, level=LEVEL, n_looks=self._looks.n)
        # An interrupt before this has the look taken again.
        self._n_seen = len(self.runs.pairs)

    @property
    def is_decided(self) -> bool:
        """Whether the last look has a verdict on the setting."""
        if self.speedup is None:
            return False
        requests = self.requests(self._standing)
        found = judge(self.speedup, min_gain=self.min_gain, basis=self.basis, requests=requests)
        return found.answer is not Answer.UNDECIDED


def choosable(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> list[Forecast]:
    """The forecasts of settings that have not failed in a trial, in their order."""
    failed = {one.arm for one in records if one.state is TrialState.FAIL}
    return [one for one in forecasts if one.arm not in failed]


def finalist(records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> Arm | None:
    """The best forecast that has not failed in a trial, or a setting that only a trial knows.

    Beside others, a forecast is off by 1 to 2 %, a trial of eight prompts by 5 %
    (``benchmarks/replay_times.py``): where there is a forecast, a trial shows no more than whether
    the setting runs at all.

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
