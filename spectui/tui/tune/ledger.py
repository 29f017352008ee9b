"""The settings of a study, the best one, and the actions that are possible now."""

from collections.abc import Iterator
from dataclasses import dataclass

from spectui.measure.arm import OFF, Arm
from spectui.tune.forecast import Forecast, promising
from spectui.tune.progress import Phase, TuningState
from spectui.tune.race import finalist
from spectui.tune.trials import TrialRecord, TrialState

_STARTING = frozenset({"begin", "start", "source"})
_FOUND = frozenset({"apply", "export"})
_SORTING = frozenset({"sort"})
ACTIONS = _STARTING | _FOUND | _SORTING | {"pause", "resume", "stop", "apply_selected"}
"""Actions that are not always there."""
DONE, OLD, FORECAST = "done", "old way", "forecast"
_N_FORECASTS = 12
"""Forecasts in the table, the best of as many drafters and lengths; the map has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting."""

    arm: Arm
    record: TrialRecord | None
    """The trial; None where the setting was forecast or raced alone."""
    state: str
    """Where its numbers are from, or why there are none."""
    speedup: float | None
    """Over off, without interval: by the trial, raced, or forecast."""
    tokens_per_s: float | None
    acceptance_rate: float | None

    @property
    def number(self) -> int | None:
        """Number of its trial; None for a setting that no trial has timed."""
        return None if self.record is None else self.record.number

    @property
    def key(self) -> int | Arm:
        """The same in every state of the search."""
        return self.arm if self.record is None else self.record.number

    @property
    def is_known(self) -> bool:
        """Whether it works here, as far as anything says."""
        return self.record is None or self.record.state is TrialState.COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All trials by number, and behind them what was raced or forecast without one."""

    rows: tuple[Row, ...] = ()
    forecasts: tuple[Forecast, ...] = ()
    """All of them, best first."""
    best: Row | None = None
    """The setting that was confirmed; else the one that would be raced now."""
    n_tried: int = 0
    """Trials that were measured or cannot be."""

    @property
    def leader(self) -> Row | None:
        """``best``, unless off is faster."""
        speedup = None if self.best is None else self.best.speedup
        return None if speedup is not None and speedup <= 1 else self.best


def digest(state: TuningState) -> Ledger:
    """Return the ledger of a state."""
    rows = (*_trials(state), *_without_trial(state))
    best = state.confirmed or finalist(state.records, state.forecasts)
    # Of several trials of a setting the last one.
    known = {row.arm: row for row in rows if row.is_known}
    return Ledger(
        rows=rows,
        forecasts=state.forecasts,
        best=None if best is None else known.get(best),
        n_tried=sum(record.state.is_tried for record in state.records),
    )


def _trials(state: TuningState) -> Iterator[Row]:
    for record in state.records:
        yield Row(
            arm=record.arm,
            record=record,
            state=_state(record),
            speedup=record.speedup,
            tokens_per_s=record.tokens_per_s,
            acceptance_rate=record.acceptance_rate,
        )


def _state(record: TrialRecord) -> str:
    if record.state is TrialState.COMPLETE:
        return OLD if record.is_old else DONE
    return "failed" if record.state is TrialState.FAIL else record.state.value


def _without_trial(state: TuningState) -> Iterator[Row]:
    """Settings that were raced, and those with the best forecasts."""
    timed = {record.arm for record in state.records if record.state.is_tried}
    known = {one.arm: one for one in state.forecasts if one.arm not in timed}
    raced = {arm: speedup for arm, speedup in state.raced.items() if arm not in timed}
    best = promising(tuple(known.values()), _N_FORECASTS)
    counted = {arm: speedup for arm, speedup in state.counted.items() if arm not in timed}
    forecast = {**{arm: known[arm].speedup for arm in best}, **counted}
    for arm in dict.fromkeys((*raced, *counted, *best)):
        yield Row(
            arm=arm,
            record=None,
            state="raced" if arm in raced else FORECAST,
            speedup=raced[arm] if arm in raced else forecast[arm],
            tokens_per_s=None,
            acceptance_rate=known[arm].acceptance_rate if arm in known else None,
        )


Choice = tuple[Arm, str]
"""A setting for the live session, and a sentence for the user: what is applied, and why."""


def best_choice(state: TuningState, ledger: Ledger) -> Choice | None:
    """Return the choice of a confirmed verdict, else the best so far; None if there is neither.

    Off is an arm like the others: it is the choice when the verdict is against speculation, and
    as long as no setting is faster than it.
    """
    if state.result is not None and state.result.speedup is not None:
        verdict, best = state.result.verdict, state.result.best
        if verdict.use_speculation and best is not None:
            return best, f"Applied the confirmed best: {best.label}."
        return OFF, f"Speculation is turned off. {verdict.reason}"
    if ledger.best is None or ledger.best.speedup is None:
        return None
    arm, speedup = ledger.best.arm, ledger.best.speedup
    if speedup <= 1:
        return OFF, "Speculation is turned off: no setting is faster than the target alone so far."
    return arm, f"Applied the best so far, not confirmed yet: {arm.label}."


def selected_choice(row: Row | None) -> Choice | None:
    """Return the choice of a row's setting; None if it is not known to work."""
    if row is None or not row.is_known:
        return None
    what = "Speculation is turned off" if row.arm.is_off else f"Applied {row.arm.label}"
    origin = f"as {row.state}" if row.record is None else f"as in trial {row.number}"
    return row.arm, f"{what}, {origin}."


def available(state: TuningState, ledger: Ledger, selected: Row | None) -> frozenset[str]:
    """Return the names of the actions that make sense."""
    found: frozenset[str] = frozenset()
    if not state.is_running:
        found |= _STARTING
    elif state.phase is not Phase.STOPPING:
        found |= {"stop", "resume" if state.paused else "pause"}
    if best_choice(state, ledger) is not None:
        found |= _FOUND
    if len(ledger.rows) > 1:
        found |= _SORTING
    if selected_choice(selected) is not None:
        found |= {"apply_selected"}
    return found
