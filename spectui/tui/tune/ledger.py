"""The trials of a study, the best one, and the actions that are possible now."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.measure.arm import OFF, Arm
from spectui.tune.progress import Phase, TuningState
from spectui.tune.trials import TrialRecord, TrialState, off_level

_STARTING = frozenset({"begin", "start", "source", "trials"})
_FOUND = frozenset({"apply", "export"})
_SORTING = frozenset({"sort"})
ACTIONS = _STARTING | _FOUND | _SORTING | {"pause", "resume", "stop", "apply_selected"}
"""Actions that are not always there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One trial. Rows are equal only if they are the same: comparing prompts would cost more."""

    record: TrialRecord
    number: int
    is_off: bool
    is_measured: bool
    """Whether it completed and has a throughput."""
    tokens_per_s: float | None
    relative: float | None
    """Throughput in units of the machine's own speed at that time."""
    acceptance_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All trials, by number."""

    rows: tuple[Row, ...] = ()
    off_level: float | None = None
    """Level of off, by ``spectui.tune.trials.off_level``."""
    best: Row | None = None
    """The last trial of the setting that was confirmed; else ``spectui.tune.trials.best_trial``."""
    n_tried: int = 0
    """Trials that were measured or cannot be."""

    @property
    def leader(self) -> Row | None:
        """``best``, unless off is faster."""
        speedup = None if self.best is None else self.speedup(self.best)
        return None if speedup is not None and speedup <= 1 else self.best

    def speedup(self, row: Row) -> float | None:
        """The row's ``spectui.tune.trials.speedup_estimate``: for ranking, without interval."""
        if not (row.relative and self.off_level):
            return None
        return 1.0 if row.is_off and row.record.noisy else row.relative / self.off_level


def digest(
    records: Sequence[TrialRecord], previous: Ledger, confirmed: Arm | None = None
) -> Ledger:
    """Return the ledger of ``records``, with the rows of ``previous`` that have not changed.

    Args:
        records: all trials.
        previous: an earlier ledger of the same study.
        confirmed: the setting that the race found best; None before it.
    """
    known = {row.number: row for row in previous.rows}
    rows = tuple(_row(record, known.get(record.number)) for record in records)
    candidates = [row for row in rows if row.is_measured and not row.is_off]
    winners = [row for row in candidates if row.record.arm == confirmed]
    return Ledger(
        rows=rows,
        off_level=off_level(records),
        best=max(winners[-1:] or candidates, key=lambda row: row.relative or 0.0, default=None),
        n_tried=sum(row.record.state.is_tried for row in rows),
    )


def _row(record: TrialRecord, known: Row | None) -> Row:
    if known is not None and known.record is record:
        return known
    return Row(
        record=record,
        number=record.number,
        is_off=record.arm.is_off,
        is_measured=record.state is TrialState.COMPLETE and record.relative is not None,
        tokens_per_s=record.tokens_per_s,
        relative=record.relative,
        acceptance_rate=record.acceptance_rate,
    )


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
        for arm in (row.record.arm for row in ledger.rows):
            if arm.speculation == earlier.speculation:
                return arm, f"Applied the confirmed best: {arm.label}."
    if ledger.best is None:
        return None
    arm, speedup = ledger.best.record.arm, ledger.speedup(ledger.best)
    if speedup is None:
        # Nothing to compare it with: off was not measured yet.
        return None
    if speedup <= 1:
        return OFF, "Speculation is turned off: no setting is faster than the target alone so far."
    return arm, f"Applied the best so far, not confirmed yet: {arm.label}."


def selected_choice(row: Row | None) -> Choice | None:
    """Return the choice of a trial's arm; None if it is not known to work."""
    if row is None or row.record.state is not TrialState.COMPLETE:
        return None
    arm = row.record.arm
    what = "Speculation is turned off" if row.is_off else f"Applied {arm.label}"
    return arm, f"{what}, as in trial {row.number}."


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
