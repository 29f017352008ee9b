"""``tune``: forecast, search, and a last race of the best against off.

Each phase rests on the one before. A short recording is replayed for every setting of the space;
trials measure the most promising ones; and the race measures what the trials leave open, on prompts
that no choice was made by.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError, SpectuiError
from spectui.replay.costs import Costs
from spectui.tune.decoding import Decoding, Loading
from spectui.tune.estimates import estimates, finalists
from spectui.tune.events import (
    ConfirmationStarted,
    ForecastMade,
    PromptMeasured,
    SearchDecided,
    StudyResumed,
    TraceProgress,
    TuneEvent,
)
from spectui.tune.forecast import Forecast, Forecaster, Outlook, in_order
from spectui.tune.lossless import LosslessCheck, check_lossless, differs
from spectui.tune.measurement import Measurer, Pair
from spectui.tune.pace import RESERVED, Pace, Spent
from spectui.tune.race import LOOK_EVERY, Race, Standing
from spectui.tune.statistics import Speedup
from spectui.tune.study import TuningStudy
from spectui.tune.trialing import TrialRunner
from spectui.tune.trials import OFF, Arm, TrialRecord, TrialState, best_trial
from spectui.tune.verdict import Verdict, judge
from spectui.tune.workload import WorkItem, Workload

_FORECAST_SHARE = 0.4
"""Of the time budget, the off trial included: where that is too little for all prompts, fewer are
recorded."""
_MIN_RECORDED = 4
"""Prompts without which a forecast is not worth its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to stop searching."""

    n_trials: int
    """At most: the search ends when the forecasts say that more would gain nothing."""
    time_budget_s: float | None = None
    """Of the search's own work: pauses and turns of the chat do not count."""
    n_trial_prompts: int = 8
    """Prompts per trial; the race uses all that there is time for."""
    n_confirmations: int = 1
    """How often the race may measure each prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What tuning found."""

    trials: tuple[TrialRecord, ...]
    best: Arm | None
    """The race's leader; without a race, what measured best."""
    pairs: tuple[Pair, ...]
    """What the race measured of the leader, against off; empty if it did not take place."""
    off: Arm = OFF
    """What the verdict compares with."""
    in_place: tuple[Pair, ...] = ()
    """The leader's runs against the target alone as it lies beside the leader's draft; empty where
    that is no other place than off's."""
    finalists: tuple[Standing, ...] = ()
    """How the race ended, the leader first."""
    speedup: Speedup | None
    """Of the leader over off."""
    verdict: Verdict
    lossless: LosslessCheck | None
    """Of the race; None with temperature, or if it did not take place."""
    interrupted: bool
    error: SpectuiError | None
    """What ended the search early, besides an interrupt."""
    forecasts: tuple[Forecast, ...] = ()
    """What was replayed, best first; empty if nothing was recorded."""
    costs: Mapping[str, Costs] = field(default_factory=dict)
    """What the recording found rounds to cost, by drafter."""
    expected_improvement: float | None = None
    """Why the search ended before ``--trials``: all that one more was expected to add to the
    speedup. None if it did not."""
    spent: Spent


class Search:
    """Runs a study on the engine. Use it once."""

    def __init__(
        self,
        engine: Decoding,
        study: TuningStudy,
        *,
        workload: Workload,
        measurer: Measurer,
        loader: Loading,
        limits: Limits,
        min_gain: float,
        on_event: Callable[[TuneEvent], None],
        forecaster: Forecaster | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            engine: has loaded the target.
            study: keeps the trials.
            workload: what is decoded.
            measurer: decodes it.
            loader: of the drafts that the study's arms name.
            limits: when to stop.
            min_gain: what speculation must gain to be worth it; 0.02 is 2 %.
            on_event: told what happens, on the caller's thread.
            forecaster: says which settings are worth a trial; None for the sampler alone.
            clock: seconds; what the engine gave to others meanwhile is taken off.
        """
        self._engine = engine
        self._workload = workload
        self._measurer = measurer
        self._study = study
        self._loader = loader
        self._limits = limits
        self._min_gain = min_gain
        self._on_event = on_event
        self._forecaster = forecaster
        self._forecasts: tuple[Forecast, ...] = ()
        self._costs: Mapping[str, Costs] = {}
        self._expected_improvement: float | None = None
        self._clock = clock
        self._pace = Pace(
            limits.time_budget_s,
            self._now_s,
            measurer,
            workload.items[: limits.n_trial_prompts],
            move_s=lambda: loader.move_s,
        )
        self._race: Race | None = None
        self._left_out_recording = self._ended_trials = False
        self._trials = TrialRunner(
            engine,
            study,
            measurer,
            items=workload.items[: limits.n_trial_prompts],
            loader=loader,
            on_event=on_event,
            on_decoded=self._decoded,
            repeats=limits.time_budget_s is None,
        )

    def run(self) -> TuneResult:
        """Forecast, search and race. An interrupt ends it early with what was measured."""
        interrupted, failure, lossless = False, None, None
        if self._trials.records:
            self._on_event(StudyResumed(records=self._trials.records))
        try:
            self._measurer.warm_up(None)
            self._forecast()
            self._search()
            self._trials.check_measured()
            self._confirm()
            lossless = self._check_lossless()
        except (KeyboardInterrupt, CancelledError):
            interrupted = True
        except SpectuiError as error:
            # Reported with what was measured, then raised by the caller.
            failure = error
        return self._result(interrupted=interrupted, error=failure, lossless=lossless)

    def _result(
        self, *, interrupted: bool, error: SpectuiError | None, lossless: LosslessCheck | None
    ) -> TuneResult:
        records = self._trials.records
        standings = () if self._race is None else self._race.conclude()
        best, speedup = next(iter(self._best_arms()), None), None
        if standings and standings[0].speedup is not None:
            best, speedup = standings[0].arm, standings[0].speedup
        return TuneResult(
            trials=records,
            best=best,
            pairs=self._leaders_pairs(),
            off=self._study.space.off,
            in_place=() if self._race is None else self._race.in_place(self._race.leader),
            finalists=standings,
            speedup=speedup,
            verdict=judge(
                speedup,
                min_gain=self._min_gain,
                what=best.label if best else "",
                failure=_why_nothing(records, interrupted=interrupted),
            ),
            lossless=lossless,
            interrupted=interrupted,
            error=error,
            forecasts=self._forecasts,
            costs=self._costs,
            expected_improvement=self._expected_improvement,
            spent=Spent(
                budget_s=self._pace.budget_s,
                took_s=self._pace.took_s,
                n_trials=self._limits.n_trials,
                n_tried=self._trials.n_tried,
                ended_trials=self._ended_trials,
                left_out_recording=self._left_out_recording,
            ),
        )

    def _forecast(self) -> None:
        """Record once, replay everything, and put what looks best before the sampler's choices.

        The off trial comes first: what it decodes is the recording's output on its prompts.
        """
        goes_on = bool(self._trials.records)
        self._study.begin()
        if self._forecaster is not None and not self._trials.n_tried:
            self._pace.trial(self._trials.run)
        outlook = self._outlook(goes_on=goes_on)
        if outlook is not None:
            self._forecasts, self._costs = outlook.forecasts, outlook.costs
            self._on_event(ForecastMade(forecasts=self._forecasts, costs=self._costs))
        chains = any(one.arm.speculation and one.arm.speculation.ahead for one in self._forecasts)
        self._study.follow(in_order(self._forecasts, self._study.defaults), chains=chains)

    def _outlook(self, *, goes_on: bool) -> Outlook | None:
        """Record, or take up what an earlier run of this study has recorded."""
        forecaster = self._forecaster
        if forecaster is None:
            return None
        if goes_on and (kept := forecaster.recall()) is not None:
            return kept
        n_prompts = self._n_to_record(forecaster)
        if not n_prompts:
            self._left_out_recording = True
            return None
        n_steps = forecaster.n_steps(n_prompts)
        self._on_event(TraceProgress(step=None, n_steps=n_steps))
        return forecaster.run(
            n_prompts,
            lambda step: self._on_event(TraceProgress(step=step, n_steps=n_steps)),
            outputs=self._trials.outputs,
            has_time=lambda: self._pace.left_of(_FORECAST_SHARE) > 0,
        )

    def _n_to_record(self, forecaster: Forecaster) -> int:
        """Prompts to record; 0 for no forecast."""
        if not self._pace.is_bounded:
            return forecaster.n_prompts
        tokens_per_s = self._measurer.anchor()
        left_s = self._pace.left_of(_FORECAST_SHARE)
        for n in range(forecaster.n_prompts, 0, -1):
            needs_s = forecaster.seconds(
                n,
                tokens_per_s,
                self._measurer.prompt_token_s,
                n_written=len(self._trials.outputs),
            )
            if needs_s <= left_s:
                return n if n >= min(_MIN_RECORDED, forecaster.n_prompts) else 0
        return 0

    def _search(self) -> None:
        while self._trials.n_tried < self._limits.n_trials:
            if not self._has_time_for_trial():
                self._ended_trials = True
                return
            if self._is_decided():
                return
            self._pace.trial(self._trials.run)
            self._forecast_tried()

    def _forecast_tried(self) -> None:
        """Replay what the sampler has chosen outside the replayed settings."""
        known = {one.arm for one in self._forecasts}
        new = [one.arm for one in self._trials.records[-1:] if one.arm not in known]
        found = [self._forecaster.forecast(arm) for arm in new] if self._forecaster else []
        told = [one for one in found if one is not None]
        if told:
            every = (*self._forecasts, *told)
            self._forecasts = tuple(sorted(every, key=lambda one: -one.speedup))

    def _is_decided(self) -> bool:
        """Whether the forecasts say that more trials would gain next to nothing."""
        gain = estimates(self._allowed, self._forecasts).expected_improvement()
        if gain is None or gain >= self._min_gain:
            return False
        self._expected_improvement = gain
        self._on_event(SearchDecided(expected_improvement=gain))
        return True

    def _confirm(self) -> None:
        arms = self._finalists()
        if not arms:
            return
        # A rival is worth less than what its time adds to the verdict's precision.
        if self._race_s(arms, RESERVED) > self._pace.left_s:
            arms = arms[:1]
        n = min(len(self._race_items), max(LOOK_EVERY, self._n_affordable(arms, self._race_items)))
        self._on_event(ConfirmationStarted(arm=arms[0], rivals=arms[1:], n_prompts=n))
        self._race = Race(
            self._measurer,
            arms,
            self._race_items,
            min_gain=self._min_gain,
            off=self._study.space.off,
            load=lambda arm: self._loader.load(arm.draft),
            on_pair=lambda pair: self._decoded(pair.item, pair.speculative),
            n_affordable=self._n_affordable,
        )
        self._race.run()

    def _finalists(self) -> tuple[Arm, ...]:
        """What trials and forecasts leave open; where there was no time for them, the defaults."""
        records = self._allowed
        arms = finalists(records, self._forecasts, min_gain=self._min_gain)
        tried = any(not one.arm.is_off for one in records)
        if not (arms or tried or not self._pace.trial_s or not self._pace.is_bounded):
            arms = self._study.defaults[:1]
        # Of the user's own setting, nobody wants to hear that it was not measured.
        own, states = self._study.space.present, (TrialState.COMPLETE, TrialState.FAIL)
        is_known = own in arms or any(o.arm == own and o.state in states for o in records)
        return arms if own is None or is_known else (*arms, own)

    @property
    def _race_items(self) -> tuple[WorkItem, ...]:
        """All prompts, unseen ones first.

        The trials' prompts chose the finalists: what comes out on them flatters the winner.
        """
        n = self._limits.n_trial_prompts
        items = (*self._workload.items[n:], *self._workload.items[:n])
        return items * self._limits.n_confirmations

    def _race_s(self, arms: Sequence[Arm], n_prompts: int) -> float:
        """Estimate of a race on the next prompts."""
        n_done = 0 if self._race is None else len(self._race_items) - self._race.n_left
        items = self._race_items[n_done : n_done + n_prompts]
        return self._pace.race_s(self._trials.records, arms, items)

    def _n_affordable(self, arms: Sequence[Arm], items: Sequence[WorkItem]) -> int:
        return self._pace.n_affordable(self._trials.records, arms, items)

    def _check_lossless(self) -> LosslessCheck | None:
        race = self._race
        pairs = () if race is None else race.in_place(race.leader) or race.pairs(race.leader)
        if race is None or not pairs or self._workload.sampling.temp > 0:
            return None
        if any(map(differs, pairs)):
            # What batching moves is asked where it was seen.
            self._loader.load(race.leader.draft)
        return check_lossless(self._engine, pairs)

    def _leaders_pairs(self) -> tuple[Pair, ...]:
        return () if self._race is None else self._race.pairs(self._race.leader)

    def _decoded(self, item: WorkItem, result: GenerationResult) -> None:
        left_s = self._seconds_left()
        self._on_event(PromptMeasured(prompt_id=item.id, result=result, seconds_left=left_s))

    def _now_s(self) -> float:
        """Clock of this search's own work: it stands still while others have the engine."""
        return self._clock() - self._engine.waited_s

    def _has_time_for_trial(self) -> bool:
        """Whether one more trial leaves time to race the best against off."""
        return self._pace.has_time_for_trial(self._race_s(self._best_arms(), RESERVED))

    @property
    def _allowed(self) -> list[TrialRecord]:
        """Trials of arms that may be recommended: a study may know more than this run may use."""
        return [one for one in self._trials.records if self._study.allows(one.arm)]

    def _best_arms(self) -> list[Arm]:
        best = best_trial(self._allowed)
        return [] if best is None else [best.arm]

    def _seconds_left(self) -> float | None:
        """Estimate until the end. None before the first trial has ended."""
        trial_s = self._pace.trial_s
        if not trial_s:
            return None
        if self._race is not None:
            left = self._race_s([self._race.leader], self._race.n_left)
        else:
            n_left = max(0, self._limits.n_trials - self._trials.n_tried)
            left = n_left * sum(trial_s) / len(trial_s)
            left += self._race_s(self._best_arms(), len(self._race_items))
        return max(0.0, min(left, self._pace.left_s))


def _why_nothing(records: Sequence[TrialRecord], *, interrupted: bool) -> str:
    """Why there is no confirmation, from what was tried."""
    if interrupted:
        return "it was interrupted before the best setting was confirmed"
    speculative = [record for record in records if not record.arm.is_off]
    if not speculative:
        return "only the target alone was tried; allow more --trials or more time"
    errors = [record.error for record in speculative if record.error]
    if errors:
        return errors[-1]
    return "the model ended every answer at once; use other prompts or --ignore-eos"
