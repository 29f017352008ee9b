"""Phases of a search around its trials: the forecasts before, and the race after."""

from collections.abc import Callable, Mapping, Sequence

from spectui.engine.events import GenerationResult
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck, check_lossless, differs
from spectui.measure.measurer import Pair
from spectui.measure.workload import WorkItem
from spectui.trace.costs import Costs
from spectui.tune.estimates import finalists
from spectui.tune.events import ConfirmationStarted, ForecastMade, TraceProgress
from spectui.tune.forecast import Forecast, Forecaster, Outlook
from spectui.tune.pace import RESERVED, Pace
from spectui.tune.race import LOOK_EVERY, Race, Standing
from spectui.tune.race_runs import race_runs
from spectui.tune.setup import SearchSetup
from spectui.tune.trialing import TrialRunner
from spectui.tune.trials import TrialRecord, TrialState

_SHARE = 0.4
"""Share of the time budget, the off trial included: where that is too little for all prompts, fewer
are recorded."""
_FEWEST = 4
"""Prompts without which a forecast is not worth its time."""


class Forecasting:
    """Forecasts of settings; none without a forecaster."""

    def __init__(
        self,
        forecaster: Forecaster | None,
        setup: SearchSetup,
        pace: Pace,
        trials: TrialRunner,
    ) -> None:
        """Prepare; nothing is recorded yet.

        Args:
            forecaster: None for the sampler alone.
            setup: setup of the search.
            pace: time keeper of the search.
            trials: runner of the trials.
        """
        self._forecaster = forecaster
        self._measurer = setup.measurer
        self._on_event = setup.on_event
        self._pace = pace
        self._trials = trials
        self.forecasts: tuple[Forecast, ...] = ()
        """Best first."""
        self.costs: Mapping[str, Costs] = {}
        """Costs of rounds by drafter, from the recording."""
        self.left_out_recording = False
        """Whether there was no time for it."""

    @property
    def is_asked_for(self) -> bool:
        """Whether there is anybody to forecast."""
        return self._forecaster is not None

    def look_ahead(self, *, goes_on: bool) -> None:
        """Record once, and replay everything.

        Args:
            goes_on: an earlier run of this study may have recorded already.
        """
        outlook = self._outlook(goes_on=goes_on)
        if outlook is not None:
            self.forecasts, self.costs = outlook.forecasts, outlook.costs
            self._on_event(ForecastMade(forecasts=self.forecasts, costs=self.costs))

    def _outlook(self, *, goes_on: bool) -> Outlook | None:
        forecaster = self._forecaster
        if forecaster is None:
            return None
        if goes_on and (kept := forecaster.recall()) is not None:
            return kept
        n_prompts = self._n_to_record(forecaster)
        if not n_prompts:
            self.left_out_recording = True
            return None
        n_steps = forecaster.n_steps(n_prompts)
        self._on_event(TraceProgress(step=None, n_steps=n_steps))
        return forecaster.run(
            n_prompts,
            lambda step: self._on_event(TraceProgress(step=step, n_steps=n_steps)),
            outputs=self._trials.outputs,
            has_time=lambda: self._pace.left_of(_SHARE) > 0,
        )

    def _n_to_record(self, forecaster: Forecaster) -> int:
        """Prompts to record; 0 for no forecast."""
        if not self._pace.is_bounded:
            return forecaster.n_prompts
        tokens_per_s = self._measurer.anchor()
        left_s = self._pace.left_of(_SHARE)
        for n in range(forecaster.n_prompts, 0, -1):
            needs_s = forecaster.seconds(
                n,
                tokens_per_s,
                self._measurer.prompt_token_s,
                n_written=len(self._trials.outputs),
            )
            if needs_s <= left_s:
                return n if n >= min(_FEWEST, forecaster.n_prompts) else 0
        return 0

    def forecast_tried(self) -> None:
        """Replay what the sampler has chosen outside the replayed settings."""
        known = {one.arm for one in self.forecasts}
        new = [one.arm for one in self._trials.records[-1:] if one.arm not in known]
        found = [self._forecaster.forecast(arm) for arm in new] if self._forecaster else []
        told = [one for one in found if one is not None]
        if told:
            every = (*self.forecasts, *told)
            self.forecasts = tuple(sorted(every, key=lambda one: -one.speedup))


class Confirmation:
    """Races what trials and forecasts leave open. Use it once."""

    def __init__(
        self,
        setup: SearchSetup,
        pace: Pace,
        trials: TrialRunner,
        *,
        on_decoded: Callable[[WorkItem, GenerationResult], None],
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            setup: setup of the search.
            pace: time keeper of the search.
            trials: runner of the trials, with their records.
            on_decoded: told of every prompt.
        """
        self._setup = setup
        self._pace = pace
        self._trials = trials
        self._on_decoded = on_decoded
        self._items = setup.race_items
        self._race: Race | None = None

    def run(self, records: Sequence[TrialRecord], forecasts: Sequence[Forecast]) -> None:
        """Race, if anything is left to be confirmed.

        Args:
            records: trials of arms that may be recommended.
            forecasts: best first.
        """
        arms = self._finalists(records, forecasts)
        if not arms:
            return
        # A rival is worth less than what its time adds to the verdict's precision.
        if self.race_s(arms, RESERVED) > self._pace.left_s:
            arms = arms[:1]
        n = min(len(self._items), max(LOOK_EVERY, self._n_affordable(arms, self._items)))
        self._setup.on_event(ConfirmationStarted(arm=arms[0], rivals=arms[1:], n_prompts=n))
        runs = race_runs(
            self._setup.measurer,
            arms,
            off=self._setup.study.space.off,
            load=lambda arm: self._setup.loader.load(arm.draft),
            on_pair=lambda pair: self._on_decoded(pair.item, pair.speculative),
        )
        self._race = Race(
            runs, self._items, min_gain=self._setup.min_gain, n_affordable=self._n_affordable
        )
        self._race.run()

    def _finalists(
        self, records: Sequence[TrialRecord], forecasts: Sequence[Forecast]
    ) -> tuple[Arm, ...]:
        """Arms to confirm, by trials and forecasts; the defaults if there was no time for those."""
        arms = finalists(records, forecasts, min_gain=self._setup.min_gain)
        tried = any(not one.arm.is_off for one in records)
        if not (arms or tried or not self._pace.trial_s or not self._pace.is_bounded):
            arms = self._setup.study.defaults[:1]
        # Of the user's own setting, nobody wants to hear that it was not measured.
        own, states = self._setup.study.space.present, (TrialState.COMPLETE, TrialState.FAIL)
        is_known = own in arms or any(o.arm == own and o.state in states for o in records)
        return arms if own is None or is_known else (*arms, own)

    def check_lossless(self) -> LosslessCheck | None:
        """Whether the leader wrote what the target alone did; None where that cannot be asked."""
        race = self._race
        pairs = self.in_place() or self.pairs()
        if race is None or not pairs or self._setup.workload.sampling.temp > 0:
            return None
        if any(map(differs, pairs)):
            # What batching moves is asked where it was seen.
            self._setup.loader.load(race.leader.draft)
        return check_lossless(self._setup.engine, pairs)

    def conclude(self) -> tuple[Standing, ...]:
        """End the race; its standings, the leader first, or empty if there was none."""
        return () if self._race is None else self._race.conclude()

    def pairs(self) -> tuple[Pair, ...]:
        """Paired measurements of the leader against off."""
        return () if self._race is None else self._race.pairs(self._race.leader)

    def in_place(self) -> tuple[Pair, ...]:
        """The leader against the target alone as it lies beside the leader's draft, if moved."""
        return () if self._race is None else self._race.in_place(self._race.leader)

    def left_s(self, favourites: Sequence[Arm]) -> float:
        """Estimate of what is left of the race, or of all of it with ``favourites``."""
        if self._race is not None:
            return self.race_s([self._race.leader], self._race.n_left)
        return self.race_s(favourites, len(self._items))

    def race_s(self, arms: Sequence[Arm], n_prompts: int) -> float:
        """Estimate of a race on the next prompts."""
        n_done = 0 if self._race is None else len(self._items) - self._race.n_left
        items = self._items[n_done : n_done + n_prompts]
        return self._pace.race_s(self._trials.records, arms, items)

    def _n_affordable(self, arms: Sequence[Arm], items: Sequence[WorkItem]) -> int:
        return self._pace.n_affordable(self._trials.records, arms, items)

    @property
    def has_begun(self) -> bool:
        """Whether trials are over."""
        return self._race is not None
