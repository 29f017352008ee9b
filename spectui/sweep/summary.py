"""Results of a sweep per cell: sums, speedups, and which cells are best. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from spectui.documents import Json, or_reason
from spectui.measure.lossless import LosslessCheck, lossless_document
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.measure.promise import Totals, totals
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
    """All measurements of one cell. Counts are exact."""

    cell: Cell
    records: tuple[VisitRecord, ...]
    """Finished visits, by repeat."""

    @property
    def name(self) -> str:
        """Drafter and setting."""
        return self.cell.arm.label

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
        """Speedup over the target alone, prompt by prompt; None if nothing was measured."""
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
    def is_noise(self) -> bool:
        """Whether the speedup exceeds what the accepted tokens can give."""
        return self.speedup is not None and self.speedup.is_noise

    @property
    def streams_tokens_per_s(self) -> tuple[float, float] | None:
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

    def document(self) -> Json:
        """Sums, speedup and runs of the cell in documents."""
        sums, rounds = self.totals, self.rounds
        return {
            "name": self.name,
            "config": self.cell.document(),
            "state": "complete" if self.runs else "failed",
            "error": self.error,
            "n_repeats": len(self.complete),
            **self._disturbance_document(),
            **or_reason("off_tokens_per_s", sums.baseline_tokens_per_s, _NOTHING),
            **or_reason("on_tokens_per_s", sums.tokens_per_s, _NOTHING),
            **self._streams_document(),
            "n_tokens": sums.speculative_tokens,
            "n_drafted": sums.n_drafted,
            "n_accepted": sums.n_accepted,
            **or_reason("n_rounds", rounds.known_rounds, NO_ROUNDS),
            **or_reason("acceptance_rate", sums.acceptance_rate, NOTHING_DRAFTED),
            **or_reason("mean_accepted_length", rounds.mean_accepted_length, NO_ROUNDS),
            **self._speedup_document(),
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

    def _streams_document(self) -> Json:
        if self.cell.place.n_slots == 1:
            return {}
        off, on = self.streams_tokens_per_s or (None, None)
        return {
            **or_reason("off_all_tokens_per_s", off, _NOTHING),
            **or_reason("on_all_tokens_per_s", on, _NOTHING),
        }

    def _speedup_document(self) -> Json:
        """The speedup in documents, or why there is none."""
        if self.speedup is not None:
            return self.speedup.document()
        reason = self.error or _NOTHING
        return or_reason("speedup", None, reason) | or_reason("speedup_ci95", None, reason)


def disturbance_of(summaries: Iterable[CellSummary]) -> DisturbanceSummary | None:
    """Load of the rest of the machine meanwhile; None where no cell was watched."""
    return joined([one.disturbance for one in summaries if one.disturbance is not None])


def summarise(cells: Iterable[Cell], records: Iterable[VisitRecord]) -> tuple[CellSummary, ...]:
    """Summarise every one of ``cells`` that has a record, in their order.

    Args:
        cells: of the grid.
        records: of these and of others, in any order.
    """
    by_cell: dict[Cell, list[VisitRecord]] = {}
    for record in sorted(records, key=lambda record: record.visit.repeat):
        by_cell.setdefault(record.visit.cell, []).append(record)
    return tuple(
        CellSummary(cell=cell, records=tuple(by_cell[cell])) for cell in cells if cell in by_cell
    )


def ranked(summaries: Iterable[CellSummary]) -> list[tuple[CellSummary, Speedup]]:
    """Measured cells with their speedups, the fastest first; noise ranks last."""
    measured = (
        (not one.is_noise, one.speedup.capped.estimate, one, one.speedup)
        for one in summaries
        if one.speedup is not None
    )
    found = sorted(measured, key=itemgetter(0, 1), reverse=True)
    return [(one, speedup) for *_keys, one, speedup in found]


def full_names(summaries: Iterable[CellSummary]) -> Callable[[CellSummary], str]:
    """Function that names a cell unambiguously outside of the table of all cells."""
    columns = varying(one.cell for one in summaries)

    def name_of(one: CellSummary) -> str:
        values = ", ".join(f"{heading} {column(one.cell)}" for heading, column in columns.items())
        return f"{one.name} [{values}]" if values else one.name

    return name_of


def fastest(summaries: Sequence[CellSummary]) -> CellSummary | None:
    """The fastest cell that is no noise; None where there is none."""
    first = next(iter(ranked(summaries)), None)
    return None if first is None or first[0].is_noise else first[0]
