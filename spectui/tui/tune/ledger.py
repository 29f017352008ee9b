"""The settings of a study, the best one, and the actions that are possible now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.measure.arm import OFF, Arm
from spectui.tune.forecast import Forecast, promising
from spectui.tune.progress import Phase, TuningState
from spectui.tune.trials import TrialRecord, TrialState, off_level

_STARTING = frozenset({"begin", "start", "source"})
_FOUND = frozenset({"apply", "export"})
_SORTING = frozenset({"sort"})
ACTIONS = _STARTING | _FOUND | _SORTING | {"pause", "resume", "stop", "apply_selected"}
"""Actions that are not always there."""
RACED = "raced"
_FORECASTS = 12
"""Forecasts in the table, the best of as many drafters and lengths; the map has all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One setting. Rows are equal only if they are the same: comparing prompts would cost more."""

    arm: Arm
    number: int
    """Number of its trial; below 0 for a setting that no trial has timed."""
    record: TrialRecord | None
    """Its trial; None where it was forecast or raced alone."""
    state: str
    """Where its numbers are from, or why there are none."""
    is_measured: bool
    """Whether its trial completed and has a throughput."""
    tokens_per_s: float | None
    relative: float | None
    """Throughput in units of the machine's own speed at that time."""
    acceptance_rate: float | None
    speedup: float | None = None
    """Over off, where no trial timed it: raced or forecast."""

    @property
    def is_off(self) -> bool:
        """Whether it is the target alone."""
        return self.arm.is_off

    @property
    def is_noisy(self) -> bool:
        """Whether the machine's speed changed during its trial."""
        return self.record is not None and self.record.noisy

    @property
    def is_known(self) -> bool:
        """Whether it works here, as far as anything says."""
        return self.record is None or self.record.state is TrialState.COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All trials by number, and behind them what was raced or forecast without one."""

    rows: tuple[Row, ...] = ()
    off_level: float | None = None
    """Level of off, by ``spectui.tune.trials.off_level``."""
    best: Row | None = None
    """The setting that was confirmed; else ``spectui.tune.trials.best_trial``."""
    n_tried: int = 0
    """Trials that were measured or cannot be."""

    @property
    def leader(self) -> Row | None:
        """``best``, unless off is faster."""
        speedup = None if self.best is None else self.speedup(self.best)
        return None if speedup is not None and speedup <= 1 else self.best

    def speedup(self, row: Row) -> float | None:
        """Speedup over off, without interval: raced, by the trial, or forecast."""
        if row.record is None:
            return row.speedup
        if not (row.relative and self.off_level):
            return None
        return 1.0 if row.is_off and row.is_noisy else row.relative / self.off_level


def digest(state: TuningState, previous: Ledger) -> Ledger:
    """Return the ledger of a state, with the rows of ``previous`` that have not changed."""
    known = {row.number: row for row in previous.rows}
    trials = tuple(_row(record, known.get(record.number)) for record in state.records)
    level = off_level(state.records)
    timed = {row.arm for row in trials}
    others = _without_trial(state.forecasts, state.raced, timed, level or 1.0)
    candidates = [row for row in trials if row.is_measured and not row.is_off]
    winners = [row for row in (*candidates, *others) if row.arm == state.confirmed]
    return Ledger(
        rows=(*trials, *others),
        off_level=level,
        best=max(winners[:1] or candidates, key=lambda row: row.relative or 0.0, default=None),
        n_tried=sum(record.state.is_tried for record in state.records),
    )


def _row(record: TrialRecord, known: Row | None) -> Row:
    if known is not None and known.record is record:
        return known
    is_complete = record.state is TrialState.COMPLETE
    return Row(
        arm=record.arm,
        number=record.number,
        record=record,
        state=_state(record),
        is_measured=is_complete and record.relative is not None,
        tokens_per_s=record.tokens_per_s,
        relative=record.relative,
        acceptance_rate=record.acceptance_rate,
    )


def _state(record: TrialRecord) -> str:
    if record.state is TrialState.COMPLETE:
        return "noisy" if record.noisy else "done"
    return "failed" if record.state is TrialState.FAIL else record.state.value


def _without_trial(
    forecasts: Sequence[Forecast],
    raced: Mapping[Arm, float],
    timed: set[Arm],
    level: float,
) -> tuple[Row, ...]:
    """Settings that were raced, and those with the best forecasts."""
    known = {one.arm: one for one in forecasts}
    chosen = dict.fromkeys((*raced, *promising(forecasts, _FORECASTS)))
    rows = []
    for place, arm in enumerate(arm for arm in chosen if arm not in timed):
        one = known.get(arm)
        speedup = raced.get(arm) or (one.speedup if one else 0.0)
        rows.append(
            Row(
                arm=arm,
                number=-1 - place,
                record=None,
                state=RACED if arm in raced else "forecast",
                is_measured=False,
                tokens_per_s=None,
                relative=speedup * level,
                acceptance_rate=one.n_accepted / one.n_drafted if one and one.n_drafted else None,
                speedup=speedup,
            )
        )
    return tuple(rows)


Choice = tuple[Arm, str]
"""A setting for the live session, and a sentence for the user: what is applied, and why."""


def best_choice(state: TuningState, ledger: Ledger) -> Choice | None:
    """Return the choice of a confirmed verdict, else the fastest trial; None if there is neither.

    Off is an arm like the others: it is the choice when the verdict is against speculation, and
    as long as no setting is faster than it.
    """
    if state.result is not None and state.result.speedup is not None:
        verdict, best = state.result.verdict, state.result.best
        if verdict.use_speculation and best is not None:
            return best, f"Applied the confirmed best: {best.label}."
        return OFF, f"Speculation is turned off. {verdict.reason}"
    if state.result is not None and (earlier := state.result.earlier) is not None:
        if not earlier.verdict.use_speculation:
            return OFF, f"Speculation is turned off. {earlier.verdict.reason}"
        for arm in (row.arm for row in ledger.rows):
            if arm.speculation == earlier.speculation:
                return arm, f"Applied the confirmed best: {arm.label}."
    if ledger.best is None:
        return None
    arm, speedup = ledger.best.arm, ledger.speedup(ledger.best)
    if speedup is None:
        # Nothing to compare it with: off was not measured yet.
        return None
    if speedup <= 1:
        return OFF, "Speculation is turned off: no setting is faster than the target alone so far."
    return arm, f"Applied the best so far, not confirmed yet: {arm.label}."


def selected_choice(row: Row | None) -> Choice | None:
    """Return the choice of a row's setting; None if it is not known to work."""
    if row is None or not row.is_known:
        return None
    what = "Speculation is turned off" if row.is_off else f"Applied {row.arm.label}"
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
