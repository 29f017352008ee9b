"""``tune``: a forecast of every setting, and a race of the best against off.

A recording is replayed for every setting of the space, and the best forecast is timed on some of
the recorded prompts. Counts are exact and prices are measured, so that a forecast beside others is
off by 1 to 2 %, a trial by 5 %: trials choose where nothing can be forecast, and are run beside
forecasts only where the user asks for them.
"""

from dataclasses import replace
from operator import itemgetter

from spectui.documents import Known
from spectui.engine.commands import ReadExperts
from spectui.engine.driver import Engine
from spectui.errors import (
    BadInputError,
    CancelledError,
    DoesNotFitError,
    EngineDiedError,
    HopelessError,
    ServerError,
    SpectuiError,
    UsageError,
)
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.measurer import measurements, steady
from spectui.measure.statistics import paired_speedup
from spectui.measure.verdict import judge, undecided
from spectui.trace.routing import ExpertUse, use_of
from spectui.tune.confirmation import Confirmation
from spectui.tune.depths import DepthRuns
from spectui.tune.forecast import in_order
from spectui.tune.forecaster import Forecaster
from spectui.tune.forecasting import Forecasting
from spectui.tune.pace import ENDED, NO_TIME, RESERVED, OutOfTimeError, Pace
from spectui.tune.progress import Phase, TrialFinished
from spectui.tune.race import LOOK_EVERY, finalist
from spectui.tune.result import TuneResult, why_nothing
from spectui.tune.served_forecast import ServedForecaster
from spectui.tune.setup import MOST_TRIALS
from spectui.tune.trials import TrialRecord, TrialState, best_trial, n_measured, score

_HOPELESS = 3
"""Settings that may end their server or process in the beginning before that ends the search."""
_MOST_TOKENS = 1024
"""Tokens of answers whose experts are read: enough for each expert to have been used many times."""
_SLOWER = 2.0
"""Factor by which reading experts takes longer than a prompt does: for the logits of every token,
and as llama.cpp stops behind each router."""


class TrialRunner:
    """Measures the arms that a study proposes, and keeps the records."""

    def __init__(self, pace: Pace, forecasting: Forecasting) -> None:
        """Take up the study's trials."""
        self.setup = pace.setup
        self._pace = pace
        self._forecasting = forecasting
        self._by_number = {record.number: record for record in self.setup.study.records()}
        """Kept here too: a storage that fails must not take the result with it."""
        self._began_s = 0.0
        """When the present trial did."""
        self._n_measured = 0
        """Trials of this run: what failed in an earlier one, a repaired setup may have mended."""
        self._ended: list[SpectuiError] = []
        """Errors of servers and processes that ended in trials of this run."""

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """All trials by number, earlier runs' included."""
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    @property
    def n_tried(self) -> int:
        """Trials that were measured or cannot be."""
        return sum(one.is_tried for one in self._by_number.values())

    @property
    def n_wanted(self) -> int:
        """Trials to run in all, earlier ones included."""
        wanted = self.setup.limits.n_trials
        if wanted is not None:
            return wanted
        return 0 if self._forecasting.forecasts else MOST_TRIALS

    def run(self) -> None:
        """Try settings, beside other machines, until there were enough.

        Raises:
            KeyboardInterrupt: it was stopped; the study has noted that.
            OutOfTimeError: time was up; another run may repeat the trial that was begun.
            SpectuiError: a defect, a server that never ran with speculation, or memory that stays
                short. Anything else that fails is a failed trial.
        """
        found, study = self._forecasting.forecasts, self.setup.study
        own = study.space.present
        if self.n_tried < self.n_wanted:
            # The best forecasts and the defaults come before the sampler's choices.
            study.follow(in_order(found, study.space.defaults))
        elif found and own is not None and not self._is_known(own):
            study.enqueue((own,))
            self._try()
        while True:
            self._look_around()
            if self.n_tried >= self.n_wanted:
                return
            self._try()
            for record in self.records[-1:]:
                self._forecasting.forecast_also(record.arm)

    def _is_known(self, arm: Arm) -> bool:
        """Whether a setting was tried or has a forecast."""
        tried = any(one.arm == arm and one.is_tried for one in self.records)
        return tried or self._forecasting.forecast_also(arm)

    def _look_around(self) -> None:
        """Take up what other machines have measured."""
        for record in self.setup.study.records():
            known = self._by_number.get(record.number)
            if record.state is not TrialState.RUNNING and known != record:
                self._by_number[record.number] = record
                self.setup.on_event(TrialFinished(record=record))

    def _try(self) -> None:
        """Measure the study's next proposal."""
        pace, study = self._pace, self.setup.study
        if pace.trial_s and pace.left_s <= max(pace.trial_s) + self.race_s(RESERVED):
            raise OutOfTimeError
        self._began_s = pace.took_s
        proposal = study.ask()
        number, arm = proposal.number, proposal.arm
        n_steps = len(pace.division.trial_items)
        pace.begin(Phase.SEARCHING, f"trial {number}: {arm.label}", n_steps, arm)
        try:
            record = self._measured(proposal)
        except (CancelledError, KeyboardInterrupt, OutOfTimeError) as error:
            # Nothing is wrong with the setting: it is tried again.
            self._by_number[number] = study.interrupt(proposal)
            if isinstance(error, CancelledError):
                raise KeyboardInterrupt from None
            raise
        except SpectuiError as error:
            record = self._by_number[number] = study.fail(proposal, error)
            self._check_hope(error)
        else:
            self._by_number[number] = record
            if not study.finish(record):
                # Another process has taken the setting over.
                del self._by_number[number]
                return
        pace.trial_s.append(pace.took_s - self._began_s)
        self.setup.on_event(TrialFinished(record=record))

    def _measured(self, proposal: TrialRecord) -> TrialRecord:
        runs = self._pace.runs(proposal.arm, self._check_time)
        runs.measure(self._pace.division.trial_items)
        pairs = steady(runs.pairs)
        timed = measurements(pairs)
        self._n_measured += 1
        return replace(
            proposal,
            state=TrialState.COMPLETE,
            prompts=tuple(map(score, pairs)),
            speedup=paired_speedup(timed, n_resamples=1).estimate if timed else None,
        )

    def _check_time(self, n_done: int) -> None:
        """End a trial that takes the time of the race's first prompts."""
        alone_s = LOOK_EVERY * (self._pace.took_s - self._began_s) / max(n_done, 1)
        self._pace.check(self.race_s(LOOK_EVERY) or alone_s)

    def race_s(self, n_prompts: int) -> float:
        """Estimate of a race of what would be raced now; 0 as long as nothing is known."""
        arm, pace = finalist(self.records, self._forecasting.forecasts), self._pace
        return 0.0 if arm is None else pace.race_s(arm, pace.division.judges[:n_prompts])

    def _check_hope(self, error: SpectuiError) -> None:
        """Raise the error of a trial where further trials would fail in the same way."""
        # The engine attaches a traceback to defects.
        if isinstance(error, HopelessError) or getattr(error, "__notes__", None):
            raise error
        if isinstance(error, (ServerError, EngineDiedError)):
            self._ended.append(error)
            if len(self._ended) >= _HOPELESS and not self._n_measured:
                raise error

    def check_measured(self) -> None:
        """Refuse to conclude anything where a server has failed with every setting.

        Raises:
            ServerError: as it failed the last time.
        """
        failed = [one for one in self._ended if isinstance(one, ServerError)]
        if failed and not n_measured(self.records):
            raise failed[-1]


class Search:
    """Runs a study on the engine. Use it once."""

    def __init__(self, pace: Pace, forecaster: Forecaster | ServedForecaster | None = None) -> None:
        """Prepare; nothing is measured yet.

        Args:
            pace: has study, prompts, what decodes them, and limits.
            forecaster: forecasts settings; None where trials have to choose.
        """
        self._pace = pace
        self._setup = pace.setup
        self._forecasting = Forecasting(self._pace, forecaster)
        self._trials = TrialRunner(self._pace, self._forecasting)
        self._depths = DepthRuns(self._pace)
        self._confirmation = Confirmation(self._pace, self._forecasting, self._depths)
        self._recorder = forecaster if isinstance(forecaster, Forecaster) else None
        self._experts = Known[ExpertUse](None, ENDED)
        self._cut_trials: tuple[int, int] | None = None

    def run(self) -> TuneResult:
        """Forecast, search and race. An interrupt ends the search early, with its measurements."""
        interrupted, failure, lossless = False, None, None
        engine = self._setup.engine
        if isinstance(engine, Engine):
            engine.check = self._pace.check_end
        try:
            self._pace.begin(Phase.STARTING, str(Phase.STARTING), 0)
            self._setup.measurer.warm_up(None)
            self._forecasting.look_ahead()
            self._pace.expected_s = self._forecasting.seconds(self._setup.study.space.off)
            self._depths.reserve(self._trials.race_s(1))
            try:
                self._trials.run()
            except OutOfTimeError:
                if self._trials.n_tried < self._trials.n_wanted:
                    self._cut_trials = self._trials.n_tried, self._trials.n_wanted
            self._trials.check_measured()
            self._confirmation.run(self._trials.records)
            lossless = self._confirmation.check_lossless()
            leader = next(iter(self._confirmation.conclude()), None)
            if leader is not None:
                self._depths.run(leader)
            self._experts = read_experts(self._pace, self._recorder)
        except (KeyboardInterrupt, CancelledError):
            interrupted = True
        except SpectuiError as error:
            # Reported with the measurements, then raised by the caller.
            failure = error
        except OutOfTimeError:
            # Within a part that is never left out, as the first recording.
            pass
        return self._result(interrupted=interrupted, error=failure, lossless=lossless)

    def _result(
        self, *, interrupted: bool, error: SpectuiError | None, lossless: LosslessCheck | None
    ) -> TuneResult:
        records, tried = self._trials.records, best_trial(self._trials.records)
        standings = self._confirmation.conclude()
        leader = next((one for one in standings[:1] if one.speedup is not None), None)
        best = leader.arm if leader is not None else tried.arm if tried is not None else None
        requests = self._depths.requests(leader)
        verdict = undecided(
            why_nothing(records, self._forecasting.forecasts, interrupted=interrupted)
        )
        if leader is not None and leader.speedup is not None:
            verdict = judge(
                leader.speedup,
                min_gain=self._setup.limits.min_gain,
                what=leader.arm.label,
                basis=self._confirmation.basis,
                temp=self._setup.workload.sampling.temp,
                requests=requests.value or (),
                others=leader.of_others,
            )
        return TuneResult(
            trials=records,
            best=best,
            off=self._setup.study.space.off,
            finalists=standings,
            verdict=verdict,
            requests=requests,
            experts=self._experts,
            lossless=lossless,
            interrupted=interrupted,
            error=error,
            outlook=self._forecasting.outlook,
            took_s=self._pace.spent_s + self._pace.took_s,
            cut_trials=self._cut_trials,
            cut_race=None if interrupted else self._confirmation.cut,
        )


def read_experts(pace: Pace, forecaster: Forecaster | None) -> Known[ExpertUse]:
    """Read what there is time for of the answers that ``forecaster`` has recorded."""
    if forecaster is None or not forecaster.texts:
        return Known(None, "no answers were recorded in this process")
    token_s, left_s = _SLOWER * pace.setup.measurer.prompt_token_s, pace.left_s
    chosen, n_left = list[tuple[tuple[int, ...], tuple[int, ...]]](), _MOST_TOKENS
    for prompt, answer in filter(itemgetter(1), forecaster.texts):
        left_s -= token_s * (len(prompt) + len(answer))
        if left_s < 0 or n_left <= 0:
            break
        n_left -= len(answer)
        chosen.append((prompt, answer))
    if not chosen:
        return Known(None, NO_TIME)
    try:
        routing = forecaster.loader.engine.read_experts(ReadExperts(texts=tuple(chosen)))
    except (BadInputError, DoesNotFitError, EngineDiedError, UsageError) as error:
        # Such as no room for one more context: all else is measured.
        return Known(None, str(error))
    return Known(use_of(routing)) if routing.layers else Known(None, "the target has no experts")
