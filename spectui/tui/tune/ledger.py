"""The trials of a study with what follows from them worked out once, not on every repaint."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.tune.trials import Arm, TrialRecord, TrialState


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
    """As ``spectui.tune.trials.off_level``."""
    best: Row | None = None
    """The last trial of the setting that was confirmed; else ``spectui.tune.trials.best_trial``."""
    n_tried: int = 0
    """Trials that were measured or cannot be."""

    def speedup(self, row: Row) -> float | None:
        """As ``spectui.tune.trials.speedup_estimate``: for ranking, without interval."""
        return row.relative / self.off_level if row.relative and self.off_level else None


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
    off = [row.relative for row in rows if row.is_off and row.relative is not None]
    candidates = [row for row in rows if row.is_measured and not row.is_off]
    winners = [row for row in candidates if row.record.arm == confirmed]
    return Ledger(
        rows=rows,
        off_level=sum(off) / len(off) if off else None,
        best=max(winners[-1:] or candidates, key=lambda row: row.relative or 0.0, default=None),
        n_tried=sum(row.record.state in {TrialState.COMPLETE, TrialState.FAIL} for row in rows),
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
