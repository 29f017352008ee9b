"""``tune``: a forecast of every setting, and a race of the best against off.

A recording is replayed for every setting of the space, and the best forecast is timed on some of
the recorded prompts. Counts are exact and prices are measured, so that a forecast is
off by 1 to 2 %, a trial by 5 %: trials choose where nothing can be forecast, and are run beside
forecasts only where the user asks for them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from spectui.engine.events import GenerationResult
from spectui.errors import (
    CancelledError,
    EngineDiedError,
    EngineLostError,
    HopelessError,
    ServerError,
    SpectuiError,
)
from spectui.format import counted, duration_text
from spectui.known import Known
from spectui.measure.arm import Arm
from spectui.measure.lossless import LosslessCheck
from spectui.measure.verdict import judge
from spectui.measure.workload import WorkItem
from spectui.trace.record import Recording
from spectui.tune.confirmation import Confirmation
from spectui.tune.depths import DepthRuns, raced_requests
from spectui.tune.events import (
    ForecastFailed,
    ForecastMade,
    Notice,
    PromptMeasured,
    StudyResumed,
    TraceProgress,
)
from spectui.tune.evidence import Evidence, evidence_of
from spectui.tune.expert_use import Experts, read_experts
from spectui.tune.forecast import Forecast, Outlook, in_order
from spectui.tune.forecaster import Forecaster
from spectui.tune.pace import ENDED, RESERVED, OutOfTimeError, Pace, Spent
from spectui.tune.race import LOOK_EVERY, finalist
from spectui.tune.result import TuneResult, why_nothing
from spectui.tune.served_forecast import ServedForecaster
from spectui.tune.setup import MOST_TRIALS, SearchSetup
from spectui.tune.temperatures import Temperatures, predicted
from spectui.tune.tracing import Deadlines, TracingEvent
from spectui.tune.trialing import TrialRunner
from spectui.tune.trials import TrialRecord, best_trial, has_steady_off

_FEW, _SOME = 3, 8
"""Settings below which it is said that the time allows few, and how many would be a choice."""


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
        self._goes_on = False
        """Whether earlier runs of the study had trials."""
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
            self._setup, self._pace, self._trials, on_decoded=self._decoded
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
            self._forecast()
            self._depths.reserve(self._confirmation.race_s(self._favourites(), 1))
            self._search()
            self._trials.check_measured()
            self._confirmation.run(
                self._allowed,
                self._forecasting.forecasts,
                self._forecasting.evidence,
                self._forecasting.further,
            )
            lossless = self._confirmation.check_lossless()
            self._depths.run(self._confirmation.conclude())
            standings = self._confirmation.conclude()
            for found in predicted(self._setup, self._pace, self._recorder, standings):
                self._temperatures = found
            self._experts = read_experts(self._setup, self._pace, self._recorder)
        except OutOfTimeError:
            self._ended_trials = True
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
        if standings and standings[0].speedup is not None:
            best, speedup = standings[0].arm, standings[0].speedup
        depths = self._depths.conclude()
        requests = raced_requests(standings, self._setup.requests, depths)
        return TuneResult(
            trials=records,
            best=best,
            pairs=self._confirmation.pairs(),
            off=self._setup.study.space.off,
            in_place=self._confirmation.in_place(),
            finalists=standings,
            categories=self._confirmation.categories,
            speedup=speedup,
            verdict=judge(
                speedup,
                min_gain=self._setup.min_gain,
                what=best.label if best else "",
                failure=why_nothing(records, self._forecasting.forecasts, interrupted=interrupted),
                basis=self._confirmation.basis if speedup else None,
                temp=self._setup.workload.sampling.temp,
                prompt_s=self._confirmation.prompt_s,
                requests=requests.value or (),
                of_others=self._confirmation.of_others,
            ),
            requests=requests,
            depths=depths,
            temperatures=self._temperatures,
            experts=self._experts,
            lossless=lossless,
            interrupted=interrupted,
            error=error,
            outlook=self._forecasting.outlook,
            spent=self._spent(),
        )

    def _spent(self) -> Spent:
        return Spent(
            budget_s=self._pace.budget_s,
            took_s=self._pace.took_s,
            n_trials=self._n_trials,
            n_tried=self._trials.n_tried,
            ended_trials=self._ended_trials,
        )

    def _forecast(self) -> None:
        """Record once, and replay everything."""
        self._goes_on = bool(self._trials.records)
        self._setup.study.begin()
        self._forecasting.look_ahead()
        self._pace.expect(self._forecasting.seconds(self._setup.study.space.off))

    @property
    def _n_trials(self) -> int:
        """Trials to run in all, earlier ones and off included."""
        asked = self._setup.limits.n_trials
        if asked is None:
            return 0 if self._forecasting.forecasts else MOST_TRIALS
        return asked

    def _search(self) -> None:
        """Try settings, beside other machines, until there were enough."""
        if self._trials.n_tried < self._n_trials:
            self._queue()
        # Every estimate is over off: where only a noisy trial has it, there is one more.
        wanted = self._noisy_off()
        self._mind_little_time()
        while True:
            self._trials.look_around()
            if self._trials.n_tried >= self._n_trials:
                return
            if not self._has_time_for_trial():
                self._ended_trials = True
                return
            try:
                self._pace.trial(partial(self._trials.run, wanted))
            except OutOfTimeError:
                self._ended_trials = True
                return
            wanted = None
            self._forecasting.forecast_tried()

    def _queue(self) -> None:
        """Put what looks best before the sampler's choices."""
        found, study = self._forecasting.forecasts, self._setup.study
        chains = any(one.arm.speculation and one.arm.speculation.ahead for one in found)
        study.follow(in_order(found, study.space.defaults), chains=chains)

    def _mind_little_time(self) -> None:
        """Say beforehand that hardly a setting can be tried, and what some would take."""
        race_s = self._confirmation.race_s(self._favourites(), RESERVED)
        n = self._pace.n_trials(race_s)
        wanted = min(_SOME, self._n_trials - self._trials.n_tried)
        # Of replayed settings the best is known before it is tried.
        if n is None or n >= min(_FEW, wanted) or self._forecasting.forecasts:
            return
        takes_s = self._pace.took_s + wanted * max(self._pace.trial_s) + race_s
        have = "no setting" if n == 0 else f"about {counted(n, 'setting')}"
        text = (
            f"in this time {have} can be tried; {counted(wanted, 'setting')} would take some "
            f"{duration_text(takes_s)} in all"
        )
        self._setup.on_event(Notice(text=text))

    def _noisy_off(self) -> Arm | None:
        """Off, where no other than noisy trials have measured it, and a setting can be tried too.

        Without a time budget this run has repeated a noisy trial at once.
        """
        records = self._trials.records
        is_measured = any(one.arm.is_off and one.relative for one in records)
        is_noisy = is_measured and not has_steady_off(records)
        has_room = self._trials.n_tried + 1 < self._n_trials
        may_repeat = self._pace.is_bounded or self._goes_on
        return self._setup.study.space.off if is_noisy and has_room and may_repeat else None

    def _decoded(self, item: WorkItem, result: GenerationResult) -> None:
        left_s = self._seconds_left()
        self._setup.on_event(PromptMeasured(prompt_id=item.id, result=result, seconds_left=left_s))

    def _now_s(self) -> float:
        """Clock of this search's own work: it stands still while others have the engine."""
        return self._clock() - self._setup.engine.waited_s

    def _has_time_for_trial(self) -> bool:
        """Whether one more trial leaves time to race the best against off."""
        race_s = self._confirmation.race_s(self._favourites(), RESERVED)
        return self._pace.has_time_for_trial(race_s)

    def _check_trial(self) -> None:
        """End a trial that takes the time of the race's first prompts; off goes on to the end."""
        best = self._favourites()
        self._pace.check(self._confirmation.race_s(best, LOOK_EVERY) if best else 0.0)

    @property
    def _allowed(self) -> list[TrialRecord]:
        """Trials of arms that may be recommended: a study may know more than this run may use."""
        return [one for one in self._trials.records if self._setup.study.space.allows(one.arm)]

    def _favourites(self) -> list[Arm]:
        """The setting that would be raced now; empty as long as none is known."""
        best = finalist(self._allowed, self._forecasting.forecasts)
        return [] if best is None else [best]

    def _seconds_left(self) -> float | None:
        """Most seconds until the end, by what trials took; before the first, by the budget."""
        trial_s = self._pace.trial_s
        if not (trial_s or self._forecasting.forecasts):
            return max(0.0, self._pace.left_s) if self._pace.is_bounded else None
        left = self._confirmation.left_s(self._favourites())
        if trial_s and not self._confirmation.has_begun:
            n_left = max(0, self._n_trials - self._trials.n_tried)
            left = n_left * sum(trial_s) / len(trial_s) + left
        return max(0.0, min(left, self._pace.left_s))


_SHARE = 0.5
"""Share of the time budget, the text included: where that is too little for all of the text, less
is recorded."""
_TEXT_SHARE = 0.25
"""Share after which the target continues no more prompts."""
_MOST_SHARE = 0.7
"""After it, a recording that takes longer than was estimated goes on with the first prompt alone:
without a race there is no verdict."""
_COSTS_SHARE = 0.2
"""After it, costs of rounds are measured on no more prompts than they have to be: the race has
better use for the time."""
STAGE = 12
"""Prompts that are recorded at first, and again as long as it is not decided: a dozen decide gains
of 20 %."""
_FURTHER_SHARE = 0.8
"""Share of the time that is left in which further prompts are recorded."""
_FEWEST = 6
"""Prompts that are recorded rather with less of each answer than fewer of them."""
_SHORTEST = 16
"""Tokens of an answer that are recorded at least."""


class Forecasting:
    """Forecasts of settings; none without a forecaster."""

    def __init__(
        self,
        forecaster: Forecaster | ServedForecaster | None,
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
        self._n_given = len(setup.workload.items)
        self._on_event = setup.on_event
        self._pace = pace
        self._trials = trials
        self.outlook = Outlook()
        self._n_planned = 0
        """Prompts that are recorded in all, should it take so many."""

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        """Best first."""
        return self.outlook.forecasts

    def seconds(self, off: Arm) -> dict[Arm, float]:
        """Forecast seconds of a prompt in the mean, by setting and for ``off``."""
        able = [(one.arm, one.answers) for one in self.forecasts if one.answers is not None]
        found = {arm: float(answers.on_s.sum(axis=1).mean()) for arm, answers in able}
        if able:
            found[off] = float(able[0][1].off_s.sum(axis=1).mean())
        return found

    def evidence(self, chosen: Arm, forecasts: Sequence[Forecast]) -> Evidence | None:
        """What the recorded prompts say of a setting that they chose of ``forecasts``."""
        forecaster = self._forecaster
        if forecaster is None:
            return None
        return evidence_of(
            chosen,
            forecasts,
            forecaster.prompts,
            forecaster.forecast,
            self.outlook.readings,
            n_given=self._n_given,
            n_planned=self._n_planned,
        )

    def further(self, evidence: Evidence) -> Evidence | None:
        """Record further prompts for the setting that was chosen, as far as time allows."""
        forecaster, n_left = self._forecaster, self._n_planned - len(evidence.prompts)
        if not isinstance(forecaster, Forecaster):
            return None
        n = min(STAGE, n_left)
        if self._pace.is_bounded:
            prompt_s = forecaster.prompt_s(self._measurer.prompt_token_s)
            n = min(n, int(_FURTHER_SHARE * self._pace.left_s / prompt_s))
        if n < min(_FEWEST, n_left) or n < 1:
            return None
        self._on_event(Notice(text=f"recording {counted(n, 'further prompt')}"))
        found = forecaster.further(evidence.chosen, n)
        if found is None:
            return None
        recordings, answers = found
        return evidence.followed_by([(one.id, one.category) for one in recordings], answers)

    def look_ahead(self) -> None:
        """Record once, and replay everything."""
        try:
            outlook = self._outlook()
        except (EngineLostError, HopelessError):
            raise
        except (EngineDiedError, ServerError) as error:
            # Each trial has a process that is new again; trials choose.
            self._on_event(ForecastFailed(reason=str(error)))
            return
        if outlook is not None:
            self.outlook = outlook
            self._on_event(ForecastMade(forecasts=outlook.forecasts, costs=outlook.costs))

    def _outlook(self) -> Outlook | None:
        forecaster = self._forecaster
        if forecaster is None:
            return None
        few = min(_FEWEST, forecaster.n_prompts)
        n_prompts, n_tokens = self._extent(forecaster)
        self._n_planned = n_prompts
        if isinstance(forecaster, Forecaster):
            self._n_planned, n_prompts = forecaster.n_prompts, min(n_prompts, STAGE)
        # What an earlier run had no more time for would take as long again.
        kept = forecaster.recall(max(few, n_prompts // 2), n_tokens)
        if kept is not None:
            return kept
        if forecaster.taken:
            self._on_event(Notice(text=_taken(forecaster.taken)))
        elif n_prompts < few or n_tokens < forecaster.n_tokens:
            self._on_event(Notice(text=_short(n_prompts, n_tokens)))
        n_steps = forecaster.n_steps(n_prompts)
        if not forecaster.taken:
            self._on_event(TraceProgress(step=None, n_steps=n_steps))

        def on_step(step: TracingEvent) -> None:
            self._on_event(TraceProgress(step=step, n_steps=n_steps))

        outlook = forecaster.run(
            n_prompts,
            n_tokens,
            on_step,
            Deadlines(
                has_time=lambda: self._pace.left_of(_COSTS_SHARE) > 0,
                is_late=lambda: self._pace.left_of(_MOST_SHARE) <= 0,
                may_write=lambda: self._pace.left_of(_TEXT_SHARE) > 0,
            ),
        )
        if forecaster.not_kept is not None:
            text = f"the recording is not kept for a search that goes on: {forecaster.not_kept}"
            self._on_event(Notice(text=text))
        return outlook

    def _extent(self, forecaster: Forecaster | ServedForecaster) -> tuple[int, int]:
        """Prompts to record, and tokens of each answer."""
        n_prompts = forecaster.n_prompts
        if not self._pace.is_bounded:
            return n_prompts, forecaster.n_tokens
        tokens_per_s = self._measurer.anchor()
        left_s = self._pace.left_of(_SHARE)
        for n, n_tokens in _extents(n_prompts, forecaster.n_tokens):
            prompt_token_s = self._measurer.prompt_token_s
            needs_s = forecaster.seconds(n, n_tokens, tokens_per_s, prompt_token_s)
            if needs_s <= left_s:
                return n, n_tokens
        return 1, min(_SHORTEST, forecaster.n_tokens)

    def forecast_tried(self) -> None:
        """Replay what the sampler has chosen outside the replayed settings."""
        known = {one.arm for one in self.forecasts}
        new = [one.arm for one in self._trials.records[-1:] if one.arm not in known]
        found = [self._forecaster.forecast(arm) for arm in new] if self._forecaster else []
        told = [one for one in found if one is not None]
        if told:
            every = sorted((*self.forecasts, *told), key=lambda one: -one.speedup)
            self.outlook = replace(self.outlook, forecasts=tuple(every))


def _extents(n_prompts: int, n_tokens: int) -> Iterator[tuple[int, int]]:
    """Extents of a recording, the most text first: fewer prompts, less of each, fewer still."""
    few = min(_FEWEST, n_prompts)
    while True:
        yield from ((n, n_tokens) for n in range(n_prompts, few - 1, -1))
        if n_tokens <= _SHORTEST:
            break
        n_tokens = max(_SHORTEST, n_tokens // 2)
    yield from ((n, n_tokens) for n in range(few - 1, 0, -1))


def _taken(recordings: Sequence[Recording]) -> str:
    n, tokens = len(recordings), sum(one.n_decoded for one in recordings)
    return (
        f"taking the study's recording: {counted(tokens, 'token')} of {counted(n, 'answer')} are "
        "not decoded again; prices are measured on this machine"
    )


def _short(n_prompts: int, n_tokens: int) -> str:
    what = f"{n_tokens} tokens of {counted(n_prompts, 'answer')}"
    return f"in this time {what} can be recorded; forecasts from more text are surer"
