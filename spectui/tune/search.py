"""``tune``: search for the best arm, then confirm it against off on all prompts.

The search picks the largest of many noisy numbers, so the winner's own number flatters it. The
verdict therefore rests on a second, paired measurement that the search has not seen.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectui.engine.driver import Engine
from spectui.engine.events import GenerationResult
from spectui.errors import CancelledError, SpectuiError
from spectui.tune.candidates import Candidate
from spectui.tune.events import (
    ConfirmationStarted,
    ForecastMade,
    PromptMeasured,
    StudyResumed,
    TraceProgress,
    TrialFinished,
    TrialStarted,
    TuneEvent,
)
from spectui.tune.forecast import Forecast, Forecaster, promising
from spectui.tune.lossless import LosslessCheck, check_lossless
from spectui.tune.measurement import Measurer, Pair, measurements
from spectui.tune.statistics import Speedup, drift, paired_speedup
from spectui.tune.study import Proposal, TuningStudy
from spectui.tune.trials import (
    OFF,
    Arm,
    TrialRecord,
    TrialState,
    best_trial,
    score,
)
from spectui.tune.verdict import Verdict, judge
from spectui.tune.workload import WorkItem, Workload

MAX_DRIFT = 0.15
"""Anchors further apart than this make a trial noisy."""
_FORECAST_SHARE = 0.4
"""Of the time budget: a forecast that would take more is left out."""
_MIN_CONFIRMATION = 8
"""Prompts that a confirmation is not cut below: fewer give no useful interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to stop searching."""

    n_trials: int
    time_budget_s: float | None = None
    """Of the search's own work: pauses and turns of the chat do not count."""
    n_trial_prompts: int = 8
    """Prompts per trial; the confirmation uses all that there is time for."""
    n_confirmations: int = 1
    """How often the confirmation measures each prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What tuning found."""

    trials: tuple[TrialRecord, ...]
    best: TrialRecord | None
    pairs: tuple[Pair, ...]
    """The confirmation; empty if it did not take place."""
    speedup: Speedup | None
    verdict: Verdict
    lossless: LosslessCheck | None
    """Of the confirmation; None with temperature, or if it did not take place."""
    interrupted: bool
    error: SpectuiError | None
    """What ended the search early, besides an interrupt."""
    forecasts: tuple[Forecast, ...] = ()
    """What was replayed, best first; empty if nothing was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Anchor:
    tokens_per_s: float
    n_interruptions: int
    """Of the engine, before it was measured: it is stale as soon as there are more."""


class Search:
    """Runs a study on the engine. Use it once."""

    def __init__(
        self,
        engine: Engine,
        study: TuningStudy,
        *,
        workload: Workload,
        measurer: Measurer,
        candidates: Sequence[Candidate],
        limits: Limits,
        on_event: Callable[[TuneEvent], None],
        forecaster: Forecaster | None = None,
        loaded: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            engine: has loaded the target.
            study: keeps the trials.
            workload: what each trial decodes.
            measurer: decodes it.
            candidates: drafts that the study's arms name.
            limits: when to stop.
            on_event: told what happens, on the caller's thread.
            forecaster: says which settings are worth a trial; None for the sampler alone.
            loaded: the candidate that the engine has loaded already.
            clock: seconds; what the engine gave to others meanwhile is taken off.
        """
        self._engine = engine
        self._workload = workload
        self._measurer = measurer
        self._study = study
        self._candidates = {candidate.name: candidate for candidate in candidates}
        self._limits = limits
        self._on_event = on_event
        self._forecaster = forecaster
        self._forecasts: tuple[Forecast, ...] = ()
        self._records = {record.number: record for record in study.records()}
        """Kept here too: a storage that fails must not take the result with it."""
        self._loaded = loaded
        self._clock = clock
        self._anchor: _Anchor | None = None
        self._began_s = self._now_s()
        self._trial_s: list[float] = []

    def run(self, *, min_gain: float) -> TuneResult:
        """Search and confirm. An interrupt ends it early with what was measured."""
        interrupted, failure, lossless = False, None, None
        pairs: list[Pair] = []
        if self._records:
            self._on_event(StudyResumed(records=tuple(self._records.values())))
        try:
            self._search()
            self._confirm(pairs)
            if pairs and self._workload.sampling.temp <= 0:
                lossless = check_lossless(self._engine, pairs)
        except (KeyboardInterrupt, CancelledError):
            interrupted = True
        except SpectuiError as error:
            # Reported with what was measured, then raised by the caller.
            failure = error
        records = tuple(self._records[number] for number in sorted(self._records))
        measured = measurements(pairs)
        speedup = paired_speedup(measured) if measured else None
        best = best_trial(records)
        return TuneResult(
            trials=records,
            best=best,
            pairs=tuple(pairs),
            speedup=speedup,
            verdict=judge(
                speedup,
                min_gain=min_gain,
                what=best.arm.label if best else "",
                failure=_why_nothing(records, interrupted=interrupted),
            ),
            lossless=lossless,
            interrupted=interrupted,
            error=failure,
            forecasts=self._forecasts,
        )

    def _search(self) -> None:
        self._measurer.warm_up(None)
        self._forecast()
        while self._n_tried() < self._limits.n_trials and self._has_time():
            began_s = self._now_s()
            self._run_trial(self._study.ask())
            self._trial_s.append(self._now_s() - began_s)

    def _now_s(self) -> float:
        """Clock of this search's own work: it stands still while others have the engine."""
        return self._clock() - self._engine.waited_s

    def _forecast(self) -> None:
        """Record once, replay everything, and put what looks best before the sampler's choices."""
        forecaster, budget = self._forecaster, self._limits.time_budget_s
        if forecaster is None or self._records:
            # What an earlier run found promising is tried already, or still waits in the study.
            return
        if budget is not None:
            expected_s = forecaster.seconds(self._measurer.anchor())
            if expected_s > _FORECAST_SHARE * budget:
                return
        self._on_event(TraceProgress(step=None))
        self._forecasts, self._loaded = forecaster.run(
            lambda step: self._on_event(TraceProgress(step=step)), self._loaded
        )
        self._study.enqueue(promising(self._forecasts))
        self._on_event(ForecastMade(forecasts=self._forecasts))

    def _n_tried(self) -> int:
        """Trials that were measured or cannot be, earlier sessions' included."""
        states = (TrialState.COMPLETE, TrialState.FAIL)
        return sum(record.state in states for record in self._records.values())

    def _run_trial(self, proposal: Proposal) -> None:
        self._on_event(TrialStarted(number=proposal.number, arm=proposal.arm))
        try:
            self._load(proposal.arm)
            record = self._measure(proposal)
        except (CancelledError, KeyboardInterrupt):
            self._records[proposal.number] = self._study.interrupt(proposal)
            raise KeyboardInterrupt from None
        except SpectuiError as error:
            record = self._records[proposal.number] = self._study.fail(proposal, str(error))
            if _is_defect(error):
                raise
        else:
            self._records[proposal.number] = record
            self._study.finish(record)
        self._on_event(TrialFinished(record=record))

    def _measure(self, proposal: Proposal) -> TrialRecord:
        items = self._workload.items[: self._limits.n_trial_prompts]
        self._measurer.warm_up(proposal.arm.speculation)
        for _attempt in range(2):
            before = self._last_anchor()
            scores = tuple(score(item, self._decode(item, proposal.arm)) for item in items)
            after = self._measure_anchor()
            noisy = drift((before, after)) > MAX_DRIFT
            if not noisy:
                break
        return TrialRecord(
            number=proposal.number,
            state=TrialState.COMPLETE,
            arm=proposal.arm,
            prompts=scores,
            anchor_tokens_per_s=(before + after) / 2,
            noisy=noisy,
        )

    def _last_anchor(self) -> float:
        """Tokens/s of the last anchor, or of a new one if something has come between."""
        anchor = self._anchor
        if anchor is None or anchor.n_interruptions != self._engine.n_interruptions:
            return self._measure_anchor()
        return anchor.tokens_per_s

    def _measure_anchor(self) -> float:
        n_interruptions = self._engine.n_interruptions
        tokens_per_s = self._measurer.anchor()
        self._anchor = _Anchor(tokens_per_s=tokens_per_s, n_interruptions=n_interruptions)
        return tokens_per_s

    def _decode(self, item: WorkItem, arm: Arm) -> GenerationResult:
        result = self._measurer.decode(item, arm.speculation)
        self._on_event(
            PromptMeasured(prompt_id=item.id, result=result, seconds_left=self.seconds_left())
        )
        return result

    def _load(self, arm: Arm) -> None:
        """One draft at a time: several at once may not fit, and would not run at once."""
        if arm.draft is None or arm.draft == self._loaded:
            return
        self._loaded = None
        self._engine.load_draft(self._candidates[arm.draft].options)
        self._loaded = arm.draft

    def _confirm(self, pairs: list[Pair]) -> None:
        best = best_trial(tuple(self._records.values()))
        if best is None or best.arm.speculation is None:
            return
        self._load(best.arm)
        items = self._confirmation_items()
        self._on_event(ConfirmationStarted(arm=best.arm, n_prompts=len(items)))
        self._measurer.warm_up(best.arm.speculation)
        repeats = self._limits.n_confirmations
        for pair in self._measurer.pairs(items, best.arm.speculation, repeats):
            pairs.append(pair)
            self._on_event(
                PromptMeasured(
                    prompt_id=pair.item.id,
                    result=pair.speculative,
                    seconds_left=self._pair_s() * (len(items) * repeats - len(pairs)),
                )
            )

    def _confirmation_items(self) -> tuple[WorkItem, ...]:
        """All prompts, or as many as the time budget leaves room for."""
        items = self._workload.items
        if self._limits.time_budget_s is None:
            return items
        left = self._limits.time_budget_s - self._spent_s()
        n = max(_MIN_CONFIRMATION, int(left / self._pair_s())) if self._pair_s() else len(items)
        return items[:n]

    def _has_time(self) -> bool:
        """Whether one more trial leaves time to confirm the best."""
        budget = self._limits.time_budget_s
        if budget is None or not self._trial_s:
            return True
        confirmation = self._pair_s() * _MIN_CONFIRMATION
        return self._spent_s() + max(self._trial_s) + confirmation < budget

    def _spent_s(self) -> float:
        return self._now_s() - self._began_s

    def _pair_s(self) -> float:
        """Seconds that one prompt of the confirmation will take, from the trials so far."""
        records = tuple(self._records.values())
        per_prompt = {
            record.arm: sum(p.decode_s for p in record.prompts) / len(record.prompts)
            for record in records
            if record.prompts
        }
        best = best_trial(records)
        winner = per_prompt.get(best.arm, 0.0) if best else 0.0
        return per_prompt.get(OFF, 0.0) + winner

    def seconds_left(self) -> float | None:
        """Estimate until the end, confirmation included. None before the first trial."""
        if not self._trial_s:
            return None
        n_left = max(0, self._limits.n_trials - self._n_tried())
        mean = sum(self._trial_s) / len(self._trial_s)
        left = n_left * mean + self._pair_s() * len(self._workload.items)
        if self._limits.time_budget_s is None:
            return left
        return max(0.0, min(left, self._limits.time_budget_s - self._spent_s()))


def _is_defect(error: SpectuiError) -> bool:
    """Whether the error is a bug: the engine attaches a traceback to those."""
    return bool(getattr(error, "__notes__", None))


def _why_nothing(records: Sequence[TrialRecord], *, interrupted: bool) -> str:
    """Why there is no confirmation, from what was tried."""
    if interrupted:
        return "it was interrupted before the best setting was confirmed"
    speculative = [record for record in records if record.arm != OFF]
    if not speculative:
        return "only the target alone was tried; allow more --trials or more time"
    errors = [record.error for record in speculative if record.error]
    if errors:
        return errors[-1]
    return "the model ended every answer at once; use other prompts or --ignore-eos"
