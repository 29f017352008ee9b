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
from spectui.tune.depths import raced_requests
from spectui.tune.division import mixed
from spectui.tune.events import RunsStarted
from spectui.tune.evidence import CategoryGain, Evidence
from spectui.tune.forecasting import Forecasting
from spectui.tune.looks import ERROR
from spectui.tune.pace import OutOfTimeError, Pace
from spectui.tune.race import LOOK_EVERY, Race, Standing, choosable, finalist
from spectui.tune.setup import SearchSetup
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
    forecasting: Forecasting
    """Knows what recorded prompts say, and records more."""
    _: KW_ONLY
    on_decoded: Callable[[WorkItem, GenerationResult], None]
    """Told of every prompt."""

    def __post_init__(self) -> None:
        self._items = self.setup.division.judges
        """Prompts to race on."""
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
        arm = self._winner(records)
        if arm is None:
            return
        forecasts = choosable(records, self.forecasting.forecasts)
        evidence = self.forecasting.evidence(arm, forecasts)
        self.basis = self.setup.division.basis if evidence is None else evidence.basis
        if evidence is not None:
            # What was recorded is timed as often as it takes to know the prices' error.
            items = self._recorded(evidence.prompts)
            self._items = tuple(self.setup.workload.passes(items, range(evidence.n_passes)))
        n = min(len(self._items), max(LOOK_EVERY, self._n_affordable(arm, self._items)))
        text = (
            f"confirming {arm.label} against off, until it is decided, on {counted(n, 'prompt')} "
            "at most"
        )
        self.setup.on_event(RunsStarted(text=text, arm=arm, n_runs=n))
        race = self._race = self._prepared(arm, evidence)
        with suppress(OutOfTimeError):
            race.run()
            while self._goes_on(race):
                race.run()

    def _prepared(self, arm: Arm, evidence: Evidence | None) -> Race:
        return Race(
            self.setup.runs(arm, self.on_decoded, self.pace.check_race),
            self._items,
            min_gain=self.setup.min_gain,
            n_affordable=partial(self._n_affordable, arm),
            requests=self._requests,
            basis=self.basis,
            evidence=evidence,
            error=ERROR if evidence is None else evidence.error,
        )

    def _n_affordable(self, arm: Arm, items: Sequence[WorkItem]) -> int:
        return self.pace.n_affordable(arm, items)

    def _goes_on(self, race: Race) -> bool:
        """Look again with further prompts; False where no more are needed, or to be had."""
        evidence = race.evidence
        if evidence is None:
            return False
        if race.is_decided and self._is_precise(race):
            return False
        more = self.forecasting.further(evidence, is_decided=race.is_decided)
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
        return raced_requests(standing, self.setup.requests, {}).value or ()

    def _recorded(self, prompts: Sequence[tuple[str, str]]) -> Sequence[WorkItem]:
        """Prompts by their names and categories, of all categories in turn."""
        names = {name for name, _category in prompts}
        return mixed([one for one in self.setup.workload.items if one.id in names])

    def _winner(self, records: Sequence[TrialRecord]) -> Arm | None:
        """The setting to confirm, by trials and forecasts.

        Without either it is the user's own, or a default: there was no time to try any.
        """
        forecasts, space = self.forecasting.forecasts, self.setup.study.space
        best = finalist(records, forecasts)
        tried = (one for one in records if one.state.is_tried and not one.arm.is_off)
        if best is not None or forecasts or any(tried):
            return best
        return next(iter((*filter(None, (space.present,)), *space.defaults)), None)

    def check_lossless(self) -> LosslessCheck | None:
        """Whether the leader wrote what the target alone did; None where that cannot be asked."""
        race = self._race
        pairs = self.pairs_where_target_moved() or self.pairs()
        if race is None or not pairs or not self.setup.workload.sampling.is_greedy:
            return None
        if any(map(differs, pairs)):
            # What batching moves is asked where it was seen.
            self.setup.loader.load(race.arm.draft)
        return check_lossless(self.setup.engine, pairs)

    def conclude(self) -> tuple[Standing, ...]:
        """End the race; how the leader stands, and the user's own setting where it was recorded."""
        race, own = self._race, self.setup.study.space.present
        if race is None:
            return ()
        leader, evidence, timed = race.conclude(), race.evidence, measurements(race.pairs)
        if own is None or own == race.arm or evidence is None or not timed:
            return (leader,)
        if not evidence.covers(own):
            return (leader,)
        return leader, Standing(arm=own, speedup=evidence.beside(own, timed), n_pairs=0)

    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the leader against off."""
        return () if self._race is None else self._race.pairs

    @property
    def categories(self) -> tuple[CategoryGain, ...]:
        """Gains of the leader by category of recorded prompt; empty without any."""
        timed, race = measurements(self.pairs()), self._race
        if race is None or race.evidence is None or not timed:
            return ()
        return race.evidence.by_category(timed)

    @property
    def of_others(self) -> Speedup | None:
        """Gain on other prompts, where the verdict is on just these; else None."""
        timed, race = measurements(self.pairs()), self._race
        if race is None or race.evidence is None or not timed:
            return None
        return race.evidence.of_others(timed)

    def pairs_where_target_moved(self) -> tuple[Pair, ...]:
        """The leader against the target alone as it lies beside the leader's draft, if moved."""
        return () if self._race is None else self._race.pairs_where_target_moved

    @property
    def left_s(self) -> float | None:
        """Estimate of what is left of the race; None before it."""
        return None if self._race is None else self.race_s(self._race.arm, self._race.n_left)

    def race_s(self, arm: Arm, n_prompts: int) -> float:
        """Estimate of a race on the next prompts."""
        n_done = len(self._items) - self._race.n_left if self._race else 0
        return self.pace.race_s(arm, self._items[n_done : n_done + n_prompts])
