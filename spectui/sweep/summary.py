"""Summaries of a sweep's records per cell. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from spectui.measure.lossless import Divergence
from spectui.measure.statistics import PairedMeasurement, Speedup, paired_speedup
from spectui.sweep.cells import Cell, NamedCell
from spectui.sweep.record import Decoded, PromptRun, VisitRecord, VisitState


class Against(StrEnum):
    """Result of comparing a cell with the target alone, by its interval."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_TOLD_APART = "not told apart"
    NOISE = "noise"
    """Faster than the accepted tokens can explain."""
    UNKNOWN = "no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over runs. Counts are exact."""

    off_tokens_per_s: float | None
    on_tokens_per_s: float | None
    n_tokens: int
    n_drafted: int
    n_accepted: int
    n_rounds: int | None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / drafted, None when nothing was drafted."""
        return self.n_accepted / self.n_drafted if self.n_drafted else None

    @property
    def mean_accepted_length(self) -> float | None:
        """1 + accepted / rounds. None where no rounds are known."""
        return 1 + self.n_accepted / self.n_rounds if self.n_rounds else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """All measurements of one cell."""

    named: NamedCell
    runs: tuple[PromptRun, ...]
    """Runs of all complete repeats."""
    n_repeats: int
    n_noisy: int
    """Number of repeats whose anchors disagree."""
    divergence: Divergence | None
    """The worst difference from the output of the target alone."""
    is_checked: bool
    """Whether outputs were compared."""
    error: str | None
    """Reason why nothing was measured."""

    @property
    def cell(self) -> Cell:
        """The configuration."""
        return self.named.cell

    @property
    def totals(self) -> Totals:
        """Totals over all runs."""
        return totals(self.runs)

    @property
    def speedup(self) -> Speedup | None:
        """Speedup over the target alone; None if nothing was measured."""
        return speedup_of(self.runs)

    @property
    def is_measured(self) -> bool:
        """Whether there is a speedup."""
        return self.speedup is not None

    @property
    def is_idle(self) -> bool:
        """Whether n-gram drafters proposed nothing, so that the speedup is noise."""
        return self.is_measured and is_idle(self.cell, self.runs)

    @property
    def is_noise(self) -> bool:
        """Whether the speedup exceeds what the accepted tokens can give."""
        return self.speedup is not None and self.speedup.is_noise

    @property
    def categories(self) -> dict[str, tuple[PromptRun, ...]]:
        """The runs by category."""
        found: dict[str, list[PromptRun]] = {}
        for run in self.runs:
            found.setdefault(run.category, []).append(run)
        return {category: tuple(runs) for category, runs in found.items()}


def summarise(
    cells: Sequence[NamedCell], records: Iterable[VisitRecord]
) -> tuple[CellSummary, ...]:
    """Return a summary for every one of ``cells`` that has a record, in their order."""
    by_cell: dict[Cell, list[VisitRecord]] = {}
    for record in records:
        by_cell.setdefault(record.visit.cell, []).append(record)
    return tuple(_summary(named, by_cell[named.cell]) for named in cells if named.cell in by_cell)


def _summary(named: NamedCell, records: Sequence[VisitRecord]) -> CellSummary:
    ordered = sorted(records, key=lambda record: record.visit.repeat)
    complete = [record for record in ordered if record.state is VisitState.COMPLETE]
    checks = [record.lossless for record in complete if record.lossless is not None]
    divergences = [check.divergence for check in checks if check.divergence is not None]
    unexplained = [one for one in divergences if one.explained is False]
    errors = [record.error for record in ordered if record.error is not None]
    return CellSummary(
        named=named,
        runs=tuple(run for record in complete for run in record.runs),
        n_repeats=len(complete),
        n_noisy=sum(record.noisy for record in complete),
        divergence=next(iter(unexplained or divergences), None),
        is_checked=bool(checks),
        error=None if complete else next(iter(errors), None),
    )


def is_idle(cell: Cell, runs: Sequence[PromptRun]) -> bool:
    """Whether only n-gram drafters were asked and proposed nothing, which costs nothing."""
    speculation = cell.speculation
    if speculation is None or speculation.model is not None:
        return False
    return not any(run.on.n_drafted for run in runs)


def measurements(runs: Iterable[PromptRun]) -> list[PairedMeasurement]:
    """Return the runs that decoded something."""
    return [found for run in runs if (found := run.measurement) is not None]


def speedup_of(runs: Iterable[PromptRun]) -> Speedup | None:
    """Speedup over the target alone, prompt by prompt; None if nothing was decoded."""
    measured = measurements(runs)
    return paired_speedup(measured) if measured else None


def totals(runs: Sequence[PromptRun]) -> Totals:
    """Sum up the runs."""
    on = [run.on for run in runs]
    rounds = [one.n_rounds for one in on if one.n_rounds is not None]
    return Totals(
        off_tokens_per_s=_throughput([run.off for run in runs]),
        on_tokens_per_s=_throughput(on),
        n_tokens=sum(one.n_tokens for one in on),
        n_drafted=sum(one.n_drafted for one in on),
        n_accepted=sum(one.n_accepted for one in on),
        n_rounds=sum(rounds) if len(rounds) == len(on) else None,
    )


def _throughput(runs: Sequence[Decoded]) -> float | None:
    seconds = sum(run.decode_s for run in runs)
    return sum(run.n_tokens for run in runs) / seconds if seconds else None


def against_off(speedup: Speedup | None) -> Against:
    """Classify a speedup by its interval."""
    if speedup is not None and speedup.is_noise:
        return Against.NOISE
    if speedup is None or speedup.low is None or speedup.high is None:
        return Against.UNKNOWN
    if speedup.low > 1:
        return Against.FASTER
    return Against.SLOWER if speedup.high < 1 else Against.NOT_TOLD_APART


def ranked(summaries: Iterable[CellSummary]) -> list[CellSummary]:
    """Measured cells that speculate, the fastest first; noise ranks last.

    What drafted nothing at no cost is the target alone.
    """
    measured = (one for one in summaries if one.is_measured and not one.is_idle)
    speculating = [one for one in measured if not one.cell.arm.is_off]
    return sorted(speculating, key=lambda one: (not one.is_noise, _estimate(one)), reverse=True)


def best_per_drafter(summaries: Iterable[CellSummary]) -> dict[str, CellSummary]:
    """The fastest cell of each drafter, the fastest drafter first."""
    found: dict[str, CellSummary] = {}
    for one in ranked(summaries):
        if not one.is_noise:
            found.setdefault(one.cell.arm.drafter, one)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryBest:
    """The fastest cell on the prompts of one category."""

    category: str
    summary: CellSummary
    speedup: Speedup
    totals: Totals


def best_per_category(summaries: Sequence[CellSummary]) -> tuple[CategoryBest, ...]:
    """The fastest cell of each category that drafts anything there, by the category's name."""
    found: dict[str, CategoryBest] = {}
    for summary in ranked(summaries):
        for category, runs in summary.categories.items():
            speedup = None if is_idle(summary.cell, runs) else speedup_of(runs)
            best = found.get(category)
            if speedup is None or speedup.is_noise:
                continue
            if best is None or speedup.estimate > best.speedup.estimate:
                found[category] = CategoryBest(
                    category=category, summary=summary, speedup=speedup, totals=totals(runs)
                )
    return tuple(found[category] for category in sorted(found))


def _estimate(summary: CellSummary) -> float:
    speedup = summary.speedup
    return 0.0 if speedup is None else speedup.estimate
