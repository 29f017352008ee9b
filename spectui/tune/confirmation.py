"""Confirmation of what trials and forecasts leave open: its finalists, its text and its time."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

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
from spectui.tune.race_runs import RaceLegs
from spectui.tune.setup import SearchSetup
from spectui.tune.trialing import TrialRunner
from spectui.tune.trials import TrialRecord

_PRECISE = 0.07
"""Half of an interval with which a speedup is known well, as a share of it."""


@dataclass(eq=False)
class Confirmation:
    """Races what trials and forecasts leave open. Use it once."""

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
        self._race: Race | None = None
        self._decided_s: float | None = None
        """Seconds from the search's start to the first look that decided."""
        self.basis: Basis | None = None
        """Text that was raced on; None before the race."""

    def run(self, records: Sequence[TrialRecord]) -> None:
        """Race, if anything is left to be confirmed.

        Args:
            records: trials of arms that may be recommended.
        """
        arms = self._finalists(records)
        if not arms:
            return
        forecasts = choosable(records, self.forecasting.forecasts)
        evidence = self.forecasting.evidence(arms[0], forecasts)
        if evidence is None:
            self._find_text()
        else:
            # What was recorded is timed as often as it takes to know the prices' error.
            items = self._recorded(evidence.prompts)
            self._items = self._repeated(items, evidence.n_passes)
            self.basis = evidence.basis
        # The user's own setting is worth less than what its time adds to the verdict's precision.
        if self.race_s(arms, RESERVED) > self.pace.left_s:
            arms = arms[:1]
        self._run_race(arms, evidence)

    def _run_race(self, arms: tuple[Arm, ...], evidence: Evidence | None) -> None:
        n = min(len(self._items), max(LOOK_EVERY, self.pace.n_affordable(arms, self._items)))
        until_decided = not self.setup.limits.until_precise
        names = " and ".join(arm.label for arm in arms)
        until = ", until it is decided" if until_decided else ""
        text = f"confirming {names} against off{until}, on {counted(n, 'prompt')} at most"
        self.setup.on_event(RunsStarted(text=text, arm=arms[0], n_runs=n * len(arms)))
        runs = RaceLegs(
            self.setup.measurer,
            arms,
            off=self.setup.study.space.off,
            load=lambda arm: self.setup.loader.load(arm.draft),
            on_pair=lambda pair: self.on_decoded(pair.item, pair.speculative),
            check_time=self.pace.check_race,
        )
        error = LATER_ERROR if self.basis is Basis.LATER else ERROR
        self._race = race = Race(
            runs,
            self._items,
            min_gain=self.setup.min_gain,
            n_affordable=self.pace.n_affordable,
            requests=self._requests,
            basis=self.basis,
            evidence=evidence,
            error=error if evidence is None else evidence.error,
        )
        with suppress(OutOfTimeError):
            race.run(until_decided=until_decided)
            while self._goes_on(race, until_decided=until_decided):
                race.run(until_decided=until_decided)
        if race.is_decided and runs.n_items < n:
            self.setup.on_event(RaceDecided(n_prompts=runs.n_items, n_planned=n))

    def _goes_on(self, race: Race, *, until_decided: bool) -> bool:
        """Look again with further prompts; False where no more are needed, or to be had."""
        evidence = race.evidence
        if evidence is None or race.leader != evidence.chosen:
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

    def _requests(self, standings: Sequence[Standing]) -> tuple[Request, ...]:
        """Whole requests that the verdict takes in, as far as they are known before the depths."""
        return raced_requests(standings, self.setup.requests, Depths()).value or ()

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

    def _finalists(self, records: Sequence[TrialRecord]) -> tuple[Arm, ...]:
        """The arm to confirm, by trials and forecasts; a default if there was no time for those.

        And the user's own, of which nobody wants to hear that it was not measured.
        """
        best = finalist(records, self.forecasting.forecasts)
        tried = any(not one.arm.is_off and one.state.is_tried for one in records)
        own = self.setup.study.space.present
        arms: tuple[Arm, ...] = () if best is None else (best,)
        if not (arms or tried or not self.pace.trial_s or not self.pace.is_bounded):
            arms = self.setup.study.space.defaults[:1] if own is None else (own,)
        is_known = own in arms or any(o.arm == own and o.state.is_tried for o in records)
        return arms if own is None or is_known else (*arms, own)

    def check_lossless(self) -> LosslessCheck | None:
        """Whether the leader wrote what the target alone did; None where that cannot be asked."""
        race = self._race
        pairs = self.pairs_where_target_moved() or self.pairs()
        if race is None or not pairs or not self.setup.workload.sampling.is_greedy:
            return None
        if any(map(differs, pairs)):
            # What batching moves is asked where it was seen.
            self.setup.loader.load(race.leader.draft)
        return check_lossless(self.setup.engine, pairs)

    def conclude(self) -> tuple[Standing, ...]:
        """End the race; its standings, the leader first, or empty if there was none."""
        return () if self._race is None else self._race.conclude()

    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the leader against off."""
        return () if self._race is None else self._race.pairs(self._race.leader)

    @property
    def categories(self) -> tuple[CategoryGain, ...]:
        """Gains of the leader by category of prompt; empty without a race."""
        timed, race = measurements(self.pairs()), self._race
        evidence = None if race is None or not timed else race.evidence
        if race is None or evidence is None or not evidence.covers(race.leader):
            return by_category(self.pairs())
        return evidence.by_category(race.leader, timed)

    @property
    def of_others(self) -> Speedup | None:
        """Gain on other prompts, where the verdict is on just these; else None."""
        timed, race = measurements(self.pairs()), self._race
        if race is None or race.evidence is None or not timed:
            return None
        return race.evidence.of_others(race.leader, timed)

    @property
    def prompt_s(self) -> float | None:
        """Seconds that a prompt took without speculation and with the leader; None if none did."""
        runs = [run for pair in self.pairs() for run in (pair.baseline, pair.speculative)]
        prompts = {pair.item.id for pair in self.pairs()}
        total_s = sum(run.prompt_s + run.decode_s for run in runs)
        return total_s / len(prompts) if prompts else None

    def pairs_where_target_moved(self) -> tuple[Pair, ...]:
        """The leader against the target alone as it lies beside the leader's draft, if moved."""
        return () if self._race is None else self._race.pairs_where_target_moved(self._race.leader)

    def left_s(self, favourites: Sequence[Arm]) -> float:
        """Estimate of what is left of the race, or of all of it with ``favourites``."""
        if self._race is not None:
            return self.race_s([self._race.leader], self._race.n_left)
        return self.race_s(favourites, len(self._items))

    def race_s(self, arms: Sequence[Arm], n_prompts: int) -> float:
        """Estimate of a race on the next prompts."""
        n_done = 0 if self._race is None else len(self._items) - self._race.n_left
        items = self._items[n_done : n_done + n_prompts]
        return self.pace.race_s(arms, items)

    @property
    def has_begun(self) -> bool:
        """Whether trials are over."""
        return self._race is not None
