"""Confirmation of what trials and forecasts chose: its text and its time."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial

from spectui.engine.events import GenerationResult
from spectui.format import counted
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck, check_lossless, differs
from spectui.measure.measurer import Pair, measurements
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Basis
from spectui.measure.workload import WorkItem
from spectui.tune.depths import Depths, raced_requests
from spectui.tune.division import LATER_ERROR, mixed
from spectui.tune.events import RaceDecided, RunsStarted
from spectui.tune.evidence import CategoryGain, Evidence, by_category
from spectui.tune.forecasting import Forecasting
from spectui.tune.looks import ERROR
from spectui.tune.pace import RESERVED, OutOfTimeError, Pace
from spectui.tune.race import LOOK_EVERY, Race, Standing, choosable, finalist
from spectui.tune.race_runs import RaceRuns
from spectui.tune.setup import SearchSetup
from spectui.tune.trialing import TrialRunner
from spectui.tune.trials import TrialRecord

_PRECISE = 0.07
"""Half of an interval with which a speedup is known well, as a share of it."""


@dataclass(eq=False)
class Confirmation:
    """Races what trials and forecasts chose. Use it once."""

    setup: SearchSetup
    """Setup of the search."""
    pace: Pace
    """Time keeper of the search."""
    trials: TrialRunner
    """Runner of the trials, with their records."""
    forecasting: Forecasting
    """Knows what recorded prompts say, and records more."""
    _: KW_ONLY
    on_decoded: Callable[[WorkItem, GenerationResult], None]
    """Told of every prompt."""

    def __post_init__(self) -> None:
        self._items = self._repeated(self.setup.division.planned)
        """Text to race on; until the race, as far as it is known."""
        self._races: list[Race] = []
        """Of the winner, and of the user's own setting where only a race tells of it."""
        self._decided_s: float | None = None
        """Seconds from the search's start to the first look that decided."""
        self.basis: Basis | None = None
        """Text that was raced on; None before the race."""

    def run(self, records: Sequence[TrialRecord]) -> None:
        """Race, if anything is left to be confirmed.

        Args:
            records: trials of arms that may be recommended.
        """
        arm = self._winner(records)
        if arm is None:
            return
        forecasts = choosable(records, self.forecasting.forecasts)
        evidence = self.forecasting.evidence(arm, forecasts)
        if evidence is None:
            self._find_text()
        else:
            # What was recorded is timed as often as it takes to know the prices' error.
            items = self._recorded(evidence.prompts)
            self._items = self._repeated(items, evidence.n_passes)
            self.basis = evidence.basis
        self._run_race(arm, evidence)
        own = self._own
        if own is None or own == arm or (evidence is not None and evidence.covers(own)):
            return
        is_tried = any(one.arm == own and one.state.is_tried for one in records)
        # Nobody wants to hear of a setting of their own that it was not measured.
        if not is_tried and self.pace.race_s(own, self._items[:RESERVED]) <= self.pace.left_s:
            self._run_race(own, None)

    @property
    def _own(self) -> Arm | None:
        """The user's present setting."""
        return self.setup.study.space.present

    def _run_race(self, arm: Arm, evidence: Evidence | None) -> None:
        n = min(len(self._items), max(LOOK_EVERY, self._n_affordable(arm, self._items)))
        until_decided = not self.setup.limits.until_precise
        until = ", until it is decided" if until_decided else ""
        text = f"confirming {arm.label} against off{until}, on {counted(n, 'prompt')} at most"
        self.setup.on_event(RunsStarted(text=text, arm=arm, n_runs=n))
        runs = RaceRuns(
            self.setup.measurer,
            arm,
            off=self.setup.study.space.off,
            load=lambda side: self.setup.loader.load(side.draft),
            on_pair=lambda pair: self.on_decoded(pair.item, pair.speculative),
            check_time=self.pace.check_race,
        )
        error = LATER_ERROR if self.basis is Basis.LATER else ERROR
        race = Race(
            runs,
            self._items,
            min_gain=self.setup.min_gain,
            n_affordable=partial(self._n_affordable, arm),
            requests=self._requests,
            basis=self.basis,
            evidence=evidence,
            error=error if evidence is None else evidence.error,
        )
        self._races.append(race)
        with suppress(OutOfTimeError):
            race.run(until_decided=until_decided)
            while self._goes_on(race, until_decided=until_decided):
                race.run(until_decided=until_decided)
        if race.is_decided and runs.n_items < n:
            self.setup.on_event(RaceDecided(n_prompts=runs.n_items, n_planned=n))

    def _n_affordable(self, arm: Arm, items: Sequence[WorkItem]) -> int:
        return self.pace.n_affordable(arm, items)

    def _goes_on(self, race: Race, *, until_decided: bool) -> bool:
        """Look again with further prompts; False where no more are needed, or to be had."""
        evidence = race.evidence
        if evidence is None:
            return False
        is_decided = until_decided and race.is_decided
        if is_decided and self._is_precise(race):
            return False
        more = self.forecasting.further(evidence, is_decided=is_decided)
        if more is not None:
            items = self._recorded(more.prompts[len(evidence.prompts) :])
            self._items = (*self._items, *items)
            race.extend(more, items)
        return more is not None

    def _is_precise(self, race: Race) -> bool:
        """Whether a gain that was shown is known well, or as much time again has gone into that."""
        if self._decided_s is None:
            self._decided_s = self.pace.took_s
        found = race.speedup
        if found is None or found.low is None or found.high is None or found.low <= 1:
            return True
        is_known = found.high - found.low <= 2 * _PRECISE * found.estimate
        return is_known or self.pace.took_s >= 2 * self._decided_s

    def _requests(self, standing: Standing) -> tuple[Request, ...]:
        """Whole requests that the verdict takes in, as far as they are known before the depths."""
        return raced_requests(standing, self.setup.requests, Depths()).value or ()

    def _recorded(self, prompts: Sequence[tuple[str, str]]) -> Sequence[WorkItem]:
        """Prompts by their names and categories, of all categories in turn."""
        names = {name for name, _category in prompts}
        return mixed([one for one in self.setup.workload.items if one.id in names])

    def _find_text(self) -> None:
        """Settle what judges; a study that goes on has to write its answers again."""
        setup, written = self.setup, dict(self.trials.outputs)
        if setup.division.takes_later_text:
            for item in setup.division.trial_items:
                if item.id not in written and self.pace.left_s > 0:
                    written[item.id] = setup.measurer.decode(item, None)
                    self.on_decoded(item, written[item.id])
        items, self.basis = setup.division.judged(
            written, n_predict=setup.workload.n_predict, n_ctx=setup.n_ctx
        )
        self._items = self._repeated(items)

    def _repeated(self, items: Sequence[WorkItem], n_passes: int = 1) -> tuple[WorkItem, ...]:
        n_passes = max(self.setup.limits.n_confirmations, n_passes)
        return tuple(self.setup.workload.passes(items, range(n_passes)))

    def _winner(self, records: Sequence[TrialRecord]) -> Arm | None:
        """The setting to confirm, by trials and forecasts.

        Without either it is the user's own, or a default where there was no time to try any.
        """
        best = finalist(records, self.forecasting.forecasts)
        if best is not None or any(not o.arm.is_off and o.state.is_tried for o in records):
            return best
        was_short = self.pace.trial_s and self.pace.is_bounded
        return self._own or next(iter(self.setup.study.space.defaults if was_short else ()), None)

    def check_lossless(self) -> LosslessCheck | None:
        """Whether the leader wrote what the target alone did; None where that cannot be asked."""
        race = self._leader
        pairs = self.pairs_where_target_moved() or self.pairs()
        if race is None or not pairs or not self.setup.workload.sampling.is_greedy:
            return None
        if any(map(differs, pairs)):
            # What batching moves is asked where it was seen.
            self.setup.loader.load(race.arm.draft)
        return check_lossless(self.setup.engine, pairs)

    @property
    def _leader(self) -> Race | None:
        """The winner's race, unless the user's own setting was shown to be faster."""
        if not self._races:
            return None
        first, last = self._races[0].speedup, self._races[-1].speedup
        is_slower = (
            first is not None
            and last is not None
            and first.high is not None
            and last.low is not None
            and first.high < last.low
        )
        return self._races[-1 if is_slower else 0]

    def conclude(self) -> tuple[Standing, ...]:
        """End the races; how the winner and the user's own setting stand, the leader first."""
        found = [race.conclude() for race in self._races]
        leader = self._leader
        if leader is None:
            return ()
        found.sort(key=lambda one: one.arm != leader.arm)
        own, evidence, timed = self._own, leader.evidence, measurements(leader.pairs)
        if own is None or own == leader.arm or evidence is None or not timed:
            return tuple(found)
        if evidence.covers(own):
            found.append(Standing(arm=own, speedup=evidence.beside(own, timed), n_pairs=0))
        return tuple(found)

    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the leader against off."""
        return () if self._leader is None else self._leader.pairs

    @property
    def categories(self) -> tuple[CategoryGain, ...]:
        """Gains of the leader by category of prompt; empty without a race."""
        pairs, race = self.pairs(), self._leader
        timed = measurements(pairs)
        if race is None or race.evidence is None or not timed:
            return by_category(pairs)
        return race.evidence.by_category(timed)

    @property
    def of_others(self) -> Speedup | None:
        """Gain on other prompts, where the verdict is on just these; else None."""
        timed, race = measurements(self.pairs()), self._leader
        if race is None or race.evidence is None or not timed:
            return None
        return race.evidence.of_others(timed)

    def pairs_where_target_moved(self) -> tuple[Pair, ...]:
        """The leader against the target alone as it lies beside the leader's draft, if moved."""
        return () if self._leader is None else self._leader.pairs_where_target_moved

    def left_s(self, favourite: Arm | None) -> float:
        """Estimate of what is left of the race, or of all of it with ``favourite``."""
        if self._races:
            race = self._races[-1]
            return self.race_s(race.arm, race.n_left)
        return 0.0 if favourite is None else self.race_s(favourite, len(self._items))

    def race_s(self, arm: Arm, n_prompts: int) -> float:
        """Estimate of a race on the next prompts."""
        n_done = len(self._items) - self._races[-1].n_left if self._races else 0
        return self.pace.race_s(arm, self._items[n_done : n_done + n_prompts])

    @property
    def has_begun(self) -> bool:
        """Whether trials are over."""
        return bool(self._races)
