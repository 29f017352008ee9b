"""Results of a sweep per cell: sums, speedups, and which cells are best. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from spectui.documents import Json, or_reason
from spectui.measure.lossless import LosslessCheck, lossless_document
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.measure.observed import Totals, totals
from spectui.measure.speedup import Speedup
from spectui.measure.statistics import paired_speedup
from spectui.monitor.disturbance import DisturbanceSummary, joined
from spectui.speculative.counters import Detail, Tally
from spectui.sweep.cells import NO_ROUNDS, Cell, PromptRun, VisitRecord, VisitState, varying

_NOTHING = "nothing was decoded"
_UNMEASURED = "nothing was measured"
UNWATCHED = "the machine was not watched"


@dataclass(frozen=True, kw_only=True)
class CellSummary:
    """All measurements of one cell, or those on one category of prompts. Counts are exact."""

    cell: Cell
    name: str
    """Name of the cell in the grid."""
    records: tuple[VisitRecord, ...]
    """Finished visits, by repeat."""

    @cached_property
    def complete(self) -> tuple[VisitRecord, ...]:
        """The repeats that were measured."""
        return tuple(one for one in self.records if one.state is VisitState.COMPLETE)

    @cached_property
    def runs(self) -> tuple[PromptRun, ...]:
        """Runs of all complete repeats."""
        return tuple(run for record in self.complete for run in record.runs)

    @cached_property
    def totals(self) -> Totals:
        """Sums over all runs."""
        return totals(self.runs)

    @cached_property
    def speedup(self) -> Speedup | None:
        """Speedup over the target alone, prompt by prompt; None if nothing was decoded."""
        return paired_speedup([run.measurement for run in self.runs]) if self.runs else None

    @cached_property
    def rounds(self) -> Tally:
        """Counts with speculation, as far as they are known."""
        counts = [run.n_rounds for run in self.runs]
        return Tally(
            n_rounds=sum(filter(None, counts)),
            n_drafted=self.totals.n_drafted,
            n_accepted=self.totals.n_accepted,
            detail=Detail.TOTALS if None in counts else Detail.N_ROUNDS,
        )

    @property
    def n_noisy(self) -> int:
        """Number of repeats whose anchors disagree."""
        return sum(record.noisy for record in self.complete)

    @cached_property
    def disturbance(self) -> DisturbanceSummary | None:
        """Load of the rest of the machine meanwhile; None where it was not watched."""
        return joined([one.disturbance for one in self.complete if one.disturbance is not None])

    @property
    def check(self) -> LosslessCheck | None:
        """The worst comparison with the output of the target alone, with the tokens of all.

        None without any.
        """
        checks = [record.lossless for record in self.complete if record.lossless is not None]
        unexplained = [check for check in checks if check.lossless is False]
        different = [check for check in checks if check.divergence is not None]
        worst = next(iter(unexplained or different or checks), None)
        counts = [check.n_compared for check in checks]
        n_compared = None if None in counts else sum(filter(None, counts))
        return worst and replace(worst, n_compared=n_compared)

    @property
    def error(self) -> str | None:
        """Reason why nothing was measured."""
        errors = [record.error for record in self.records if record.error is not None]
        return None if self.complete else next(iter(errors), None)

    @property
    def is_measured(self) -> bool:
        """Whether there is a speedup."""
        return bool(self.runs)

    @property
    def is_idle(self) -> bool:
        """Whether only n-gram drafters were asked and proposed nothing, which costs nothing.

        The speedup is noise then.
        """
        speculation = self.cell.speculation
        is_free = speculation is not None and speculation.model is None
        return is_free and self.is_measured and not self.totals.n_drafted

    @property
    def is_noise(self) -> bool:
        """Whether the speedup exceeds what the accepted tokens can give."""
        return self.speedup is not None and self.speedup.is_noise

    @property
    def all_tokens_per_s(self) -> tuple[float, float] | None:
        """Tokens/s of all streams without and with speculation; None where each was alone.

        Evaluation of prompts included; the first token of each comes with its prompt.
        """
        whole_s = [run.whole_s for run in self.runs if run.whole_s is not None]
        if not whole_s:
            return None
        sums, n_runs, n_slots = self.totals, len(self.runs), self.cell.place.n_slots
        off_s, on_s = map(sum, zip(*whole_s, strict=True))
        return (
            n_slots * (sums.baseline_tokens + n_runs) / off_s,
            n_slots * (sums.speculative_tokens + n_runs) / on_s,
        )

    def within(self, category: str) -> "CellSummary":
        """The same on the prompts of one category."""
        records = (
            replace(
                record,
                runs=tuple(one for one in record.runs if one.measurement.category == category),
            )
            for record in self.complete
        )
        return replace(self, records=tuple(records))

    def document(self) -> Json:
        """Sums, speedup and runs of the cell in documents."""
        sums, rounds = self.totals, self.rounds
        return {
            "name": self.name,
            "config": self.cell.document(),
            "state": "complete" if self.is_measured else "failed",
            "error": self.error,
            "n_repeats": len(self.complete),
            "n_noisy": self.n_noisy,
            **self._disturbance_document(),
            **or_reason("off_tokens_per_s", sums.baseline_tokens_per_s, _NOTHING),
            **or_reason("on_tokens_per_s", sums.tokens_per_s, _NOTHING),
            **self._together_document(),
            "n_tokens": sums.speculative_tokens,
            "n_drafted": sums.n_drafted,
            "n_accepted": sums.n_accepted,
            **or_reason("n_rounds", rounds.known_rounds, NO_ROUNDS),
            **or_reason("acceptance_rate", sums.acceptance_rate, NOTHING_DRAFTED),
            **or_reason("mean_accepted_length", rounds.mean_accepted_length, NO_ROUNDS),
            **self.speedup_document(),
            **lossless_document(self.check),
            "runs": [
                run.document(record.visit.repeat + 1)
                for record in self.complete
                for run in record.runs
            ],
        }

    def _disturbance_document(self) -> Json:
        """The seconds and the causes; the readings are those of the whole sweep."""
        seen, brief = self.disturbance, None
        if seen is not None:
            brief = {
                "watched_s": seen.whole.wall_s,
                "disturbed_s": seen.disturbed_s,
                "causes": [one.document() for one in seen.causes],
            }
        return or_reason("disturbance", brief, UNWATCHED if self.complete else _UNMEASURED)

    def _together_document(self) -> Json:
        if self.cell.place.n_slots == 1:
            return {}
        off, on = self.all_tokens_per_s or (None, None)
        return {
            **or_reason("off_all_tokens_per_s", off, _NOTHING),
            **or_reason("on_all_tokens_per_s", on, _NOTHING),
        }

    def speedup_document(self) -> Json:
        """The speedup in documents, or why there is none."""
        if self.speedup is not None:
            return self.speedup.document()
        reason = self.error or _NOTHING
        return or_reason("speedup", None, reason) | or_reason("speedup_ci95", None, reason)


def disturbance_of(summaries: Iterable[CellSummary]) -> DisturbanceSummary | None:
    """Load of the rest of the machine meanwhile; None where no cell was watched."""
    return joined([one.disturbance for one in summaries if one.disturbance is not None])


def summarise(cells: Mapping[Cell, str], records: Iterable[VisitRecord]) -> tuple[CellSummary, ...]:
    """Summarise every one of ``cells`` that has a record, in their order.

    Args:
        cells: names of the cells.
        records: of these and of others, in any order.
    """
    by_cell: dict[Cell, list[VisitRecord]] = {}
    for record in sorted(records, key=lambda record: record.visit.repeat):
        by_cell.setdefault(record.visit.cell, []).append(record)
    return tuple(
        CellSummary(cell=cell, name=name, records=tuple(by_cell[cell]))
        for cell, name in cells.items()
        if cell in by_cell
    )


def ranked(summaries: Iterable[CellSummary]) -> list[CellSummary]:
    """Measured cells that speculate, the fastest first; noise ranks last.

    What drafted nothing at no cost is the target alone.
    """
    measured = (
        (not one.is_noise, one.speedup.estimate, one)
        for one in summaries
        if one.speedup is not None and not one.is_idle and not one.cell.arm.is_off
    )
    return [one for *_keys, one in sorted(measured, key=itemgetter(0, 1), reverse=True)]


def best_per_drafter(summaries: Iterable[CellSummary]) -> dict[str, CellSummary]:
    """The fastest cell of each drafter, the fastest drafter first."""
    found: dict[str, CellSummary] = {}
    for one in ranked(summaries):
        if not one.is_noise:
            found.setdefault(one.cell.arm.drafter, one)
    return found


def best_per_category(summaries: Sequence[CellSummary]) -> dict[str, CellSummary]:
    """The fastest cell on each category's prompts that drafts anything there, by category."""
    found: dict[str, CellSummary] = {}
    for category in sorted({run.measurement.category for one in summaries for run in one.runs}):
        fastest = next(iter(ranked(one.within(category) for one in summaries)), None)
        if fastest is not None and not fastest.is_noise:
            found[category] = fastest
    return found


def full_names(summaries: Iterable[CellSummary]) -> Callable[[CellSummary], str]:
    """Function that names a cell unambiguously outside of the table of all cells."""
    columns = varying(one.cell for one in summaries)

    def name_of(one: CellSummary) -> str:
        values = ", ".join(f"{heading} {column(one.cell)}" for heading, column in columns.items())
        return f"{one.name} [{values}]" if values else one.name

    return name_of
