"""``tune``: forecast, search, and a last race of the best against off.

Each phase rests on the one before. A short recording is replayed for every setting of the space;
trials measure the most promising ones; and the race measures what the trials leave open, on prompts
that no choice was made by.
"""

import time
from collections.abc import Callable

from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError, SpectuiError
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.verdict import judge
from spectui.measure.workload import WorkItem
from spectui.tune.estimates import estimates
from spectui.tune.events import PromptMeasured, SearchDecided, StudyResumed
from spectui.tune.forecast import Forecaster, in_order
from spectui.tune.pace import RESERVED, Pace, Spent
from spectui.tune.phases import Confirmation, Forecasting
from spectui.tune.result import TuneResult, why_nothing
from spectui.tune.setup import SearchSetup
from spectui.tune.trialing import TrialRunner
from spectui.tune.trials import TrialRecord, best_trial


class Search:
    """Runs a study on the engine. Use it once."""

    def __init__(
        self,
        setup: SearchSetup,
        *,
        forecaster: Forecaster | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            setup: study, prompts, what decodes them, and limits.
            forecaster: says which settings are worth a trial; None for the sampler alone.
            clock: seconds; what the engine gave to others meanwhile is taken off.
        """
        self._setup = setup
        self._clock = clock
        self._expected_improvement: float | None = None
        self._ended_trials = False
        self._pace = self._begun_pace()
        self._trials = TrialRunner(setup, self._decoded)
        self._forecasting = Forecasting(forecaster, self._setup, self._pace, self._trials)
        self._confirmation = Confirmation(
            self._setup, self._pace, self._trials, on_decoded=self._decoded
        )

    def _begun_pace(self) -> Pace:
        setup = self._setup
        return Pace(
            setup.limits.time_budget_s,
            self._now_s,
            setup.measurer,
            setup.trial_items,
            move_s=lambda: setup.loader.move_s,
        )

    def run(self) -> TuneResult:
        """Forecast, search and race. An interrupt ends it early with what was measured."""
        interrupted, failure, lossless = False, None, None
        if self._trials.records:
            self._setup.on_event(StudyResumed(records=self._trials.records))
        try:
            self._setup.measurer.warm_up(None)
            self._forecast()
            self._search()
            self._trials.check_measured()
            self._confirmation.run(self._allowed, self._forecasting.forecasts)
            lossless = self._confirmation.check_lossless()
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
        standings = self._confirmation.conclude()
        best, speedup = next(iter(self._best_arms()), None), None
        if standings and standings[0].speedup is not None:
            best, speedup = standings[0].arm, standings[0].speedup
        return TuneResult(
            trials=records,
            best=best,
            pairs=self._confirmation.pairs(),
            off=self._setup.study.space.off,
            in_place=self._confirmation.in_place(),
            finalists=standings,
            speedup=speedup,
            verdict=judge(
                speedup,
                min_gain=self._setup.min_gain,
                what=best.label if best else "",
                failure=why_nothing(records, interrupted=interrupted),
            ),
            lossless=lossless,
            interrupted=interrupted,
            error=error,
            forecasts=self._forecasting.forecasts,
            costs=self._forecasting.costs,
            expected_improvement=self._expected_improvement,
            spent=self._spent(),
        )

    def _spent(self) -> Spent:
        return Spent(
            budget_s=self._pace.budget_s,
            took_s=self._pace.took_s,
            n_trials=self._setup.limits.n_trials,
            n_tried=self._trials.n_tried,
            ended_trials=self._ended_trials,
            left_out_recording=self._forecasting.left_out_recording,
        )

    def _forecast(self) -> None:
        """Record once, replay everything, and put what looks best before the sampler's choices.

        The off trial comes first: what it decodes is the recording's output on its prompts.
        """
        goes_on = bool(self._trials.records)
        self._setup.study.begin()
        if self._forecasting.is_asked_for and not self._trials.n_tried:
            self._pace.trial(self._trials.run)
        self._forecasting.look_ahead(goes_on=goes_on)
        found = self._forecasting.forecasts
        chains = any(one.arm.speculation and one.arm.speculation.ahead for one in found)
        self._setup.study.follow(in_order(found, self._setup.study.defaults), chains=chains)

    def _search(self) -> None:
        while self._trials.n_tried < self._setup.limits.n_trials:
            if not self._has_time_for_trial():
                self._ended_trials = True
                return
            if self._is_decided():
                return
            self._pace.trial(self._trials.run)
            self._forecasting.forecast_tried()

    def _is_decided(self) -> bool:
        """Whether the forecasts say that more trials would gain next to nothing."""
        gain = estimates(self._allowed, self._forecasting.forecasts).expected_improvement()
        if gain is None or gain >= self._setup.min_gain:
            return False
        self._expected_improvement = gain
        self._setup.on_event(SearchDecided(expected_improvement=gain))
        return True

    def _decoded(self, item: WorkItem, result: GenerationResult) -> None:
        left_s = self._seconds_left()
        self._setup.on_event(PromptMeasured(prompt_id=item.id, result=result, seconds_left=left_s))

    def _now_s(self) -> float:
        """Clock of this search's own work: it stands still while others have the engine."""
        return self._clock() - self._setup.engine.waited_s

    def _has_time_for_trial(self) -> bool:
        """Whether one more trial leaves time to race the best against off."""
        return self._pace.has_time_for_trial(self._confirmation.race_s(self._best_arms(), RESERVED))

    @property
    def _allowed(self) -> list[TrialRecord]:
        """Trials of arms that may be recommended: a study may know more than this run may use."""
        return [one for one in self._trials.records if self._setup.study.space.allows(one.arm)]

    def _best_arms(self) -> list[Arm]:
        best = best_trial(self._allowed)
        return [] if best is None else [best.arm]

    def _seconds_left(self) -> float | None:
        """Estimate until the end. None before the first trial has ended."""
        trial_s = self._pace.trial_s
        if not trial_s:
            return None
        left = self._confirmation.left_s(self._best_arms())
        if not self._confirmation.has_begun:
            n_left = max(0, self._setup.limits.n_trials - self._trials.n_tried)
            left = n_left * sum(trial_s) / len(trial_s) + left
        return max(0.0, min(left, self._pace.left_s))
