"""``tune``: a forecast of every setting, and a race of the best against off.

A recording is replayed for every setting of the space, and the best forecast is timed on some of
the recorded prompts. Counts are exact and prices are measured, so that a forecast is
off by 1 to 2 %, a trial by 5 %: trials choose where nothing can be forecast, and are run beside
forecasts only where the user asks for them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from spectui.documents import Known
from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError, SpectuiError
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.requests import Request
from spectui.measure.speedup import Speedup
from spectui.measure.verdict import Verdict, judge, on_others, undecided
from spectui.measure.workload import WorkItem
from spectui.tune.confirmation import Confirmation
from spectui.tune.depths import NOT_CONFIRMED, DepthRuns, raced_requests
from spectui.tune.events import PromptMeasured, StudyResumed
from spectui.tune.expert_use import Experts, read_experts
from spectui.tune.forecast import in_order
from spectui.tune.forecaster import Forecaster
from spectui.tune.forecasting import Forecasting
from spectui.tune.pace import ENDED, RESERVED, OutOfTimeError, Pace, Spent
from spectui.tune.race import LOOK_EVERY, finalist
from spectui.tune.result import TuneResult, why_nothing
from spectui.tune.served_forecast import ServedForecaster
from spectui.tune.setup import MOST_TRIALS, SearchSetup
from spectui.tune.temperatures import Temperatures, predicted
from spectui.tune.trialing import TrialRunner
from spectui.tune.trials import TrialRecord, best_trial


class Search:
    """Runs a study on the engine. Use it once."""

    def __init__(
        self,
        setup: SearchSetup,
        *,
        forecaster: Forecaster | ServedForecaster | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            setup: study, prompts, what decodes them, and limits.
            forecaster: forecasts settings; None where trials have to choose.
            clock: seconds; what the engine gave to others meanwhile is taken off.
        """
        self._setup = setup
        self._clock = clock
        self._ended_trials = False
        self._pace = Pace(
            setup.limits.time_budget_s,
            self._now_s,
            setup.measurer,
            setup.division.trial_items,
            records=lambda: self._trials.records,
            move_s=lambda: setup.loader.move_s,
        )
        self._trials = TrialRunner(setup, self._decoded, check_time=self._check_trial)
        self._forecasting = Forecasting(forecaster, self._setup, self._pace, self._trials)
        self._confirmation = Confirmation(
            setup, self._pace, self._trials, self._forecasting, on_decoded=self._decoded
        )
        self._recorder = forecaster if isinstance(forecaster, Forecaster) else None
        self._temperatures: Temperatures = Known(None, ENDED)
        self._experts: Experts = Known(None, ENDED)
        self._depths = DepthRuns(self._setup, self._pace, self._decoded)

    def run(self) -> TuneResult:
        """Forecast, search and race. An interrupt ends it early with what was measured."""
        interrupted, failure, lossless = False, None, None
        if self._trials.records:
            self._setup.on_event(StudyResumed(records=self._trials.records))
        try:
            self._setup.measurer.warm_up(None)
            self._setup.study.begin()
            self._forecasting.look_ahead()
            self._pace.expected_s = self._forecasting.seconds(self._setup.study.space.off)
            self._depths.reserve(self._race_s(1))
            try:
                self._search()
            except OutOfTimeError:
                self._ended_trials = True
            self._trials.check_measured()
            self._confirmation.run(self._allowed)
            lossless = self._confirmation.check_lossless()
            leader = next(iter(self._confirmation.conclude()), None)
            if leader is not None:
                self._depths.run(leader)
            for found in predicted(self._setup, self._pace, self._recorder, leader):
                self._temperatures = found
            self._experts = read_experts(self._setup, self._pace, self._recorder)
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
        tried, speedup = best_trial(self._allowed), None
        best = None if tried is None else tried.arm
        depths, requests = self._depths.conclude(), NOT_CONFIRMED
        if standings:
            leader = standings[0]
            requests = raced_requests(leader, self._setup.requests, depths)
            if leader.speedup is not None:
                best, speedup = leader.arm, leader.speedup
        return TuneResult(
            trials=records,
            best=best,
            pairs=self._confirmation.pairs(),
            off=self._setup.study.space.off,
            pairs_where_target_moved=self._confirmation.pairs_where_target_moved(),
            finalists=standings,
            categories=self._confirmation.categories,
            speedup=speedup,
            verdict=undecided(
                why_nothing(records, self._forecasting.forecasts, interrupted=interrupted)
            )
            if best is None or speedup is None
            else self._verdict(best, speedup, requests.value or ()),
            requests=requests,
            depths=depths,
            temperatures=self._temperatures,
            experts=self._experts,
            lossless=lossless,
            interrupted=interrupted,
            error=error,
            outlook=self._forecasting.outlook,
            spent=Spent(
                budget_s=self._pace.budget_s,
                took_s=self._pace.took_s,
                n_trials=self._n_trials,
                n_tried=self._trials.n_tried,
                ended_trials=self._ended_trials,
            ),
        )

    def _verdict(self, best: Arm, speedup: Speedup, requests: Sequence[Request]) -> Verdict:
        confirmation = self._confirmation
        found = judge(
            speedup,
            min_gain=self._setup.min_gain,
            what=best.label,
            basis=confirmation.basis,
            temp=self._setup.workload.sampling.temp,
            requests=requests,
        )
        if confirmation.of_others is None:
            return found
        return replace(found, reason=f"{found.reason} {on_others(confirmation.of_others)}")

    @property
    def _n_trials(self) -> int:
        """Trials to run in all, earlier ones and off included."""
        usual = 0 if self._forecasting.forecasts else MOST_TRIALS
        asked = self._setup.limits.n_trials
        return usual if asked is None else asked

    def _search(self) -> None:
        """Try settings, beside other machines, until there were enough."""
        if self._trials.n_tried < self._n_trials:
            # What looks best comes before the sampler's choices.
            found, study = self._forecasting.forecasts, self._setup.study
            chains = any(one.arm.speculation and one.arm.speculation.ahead for one in found)
            study.follow(in_order(found, study.space.defaults), chains=chains)
        while True:
            self._trials.look_around()
            if self._trials.n_tried >= self._n_trials:
                return
            if not self._pace.has_time_for_trial(self._race_s(RESERVED)):
                raise OutOfTimeError
            self._pace.trial(self._trials.run)
            self._forecasting.forecast_tried()

    def _decoded(self, item: WorkItem, result: GenerationResult) -> None:
        left_s = self._seconds_left()
        self._setup.on_event(PromptMeasured(prompt_id=item.id, result=result, seconds_left=left_s))

    def _now_s(self) -> float:
        """Clock of this search's own work: it stands still while others have the engine."""
        return self._clock() - self._setup.engine.waited_s

    def _check_trial(self) -> None:
        """End a trial that takes the time of the race's first prompts; off goes on to the end."""
        self._pace.check(self._race_s(LOOK_EVERY))

    @property
    def _allowed(self) -> list[TrialRecord]:
        """Trials of arms that may be recommended: a study may know more than this run may use."""
        return [one for one in self._trials.records if self._setup.study.space.allows(one.arm)]

    @property
    def _favourite(self) -> Arm | None:
        """The setting that would be raced now; None as long as none is known."""
        return finalist(self._allowed, self._forecasting.forecasts)

    def _race_s(self, n_prompts: int) -> float:
        """Estimate of a race of the favourite; 0 without one."""
        arm = self._favourite
        return 0.0 if arm is None else self._confirmation.race_s(arm, n_prompts)

    def _seconds_left(self) -> float | None:
        """Most seconds until the end, by what trials took; before the first, by the budget."""
        trial_s = self._pace.trial_s
        if not (trial_s or self._forecasting.forecasts):
            return max(0.0, self._pace.left_s) if self._pace.is_bounded else None
        left = self._confirmation.left_s(self._favourite)
        if trial_s and not self._confirmation.has_begun:
            n_left = max(0, self._n_trials - self._trials.n_tried)
            left = n_left * sum(trial_s) / len(trial_s) + left
        return max(0.0, min(left, self._pace.left_s))
