"""Results of a sweep per cell: sums, speedups, and which cells are best. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from spectui.documents import Json, or_reason
from spectui.measure.arm import OFF
from spectui.measure.lossless import LosslessCheck, lossless_document
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.measure.speedup import PairedMeasurement, Speedup
from spectui.measure.statistics import paired_speedup
from spectui.monitor.disturbance import DisturbanceSummary, joined
from spectui.speculative.counters import Counters
from spectui.sweep.cells import Cell, varying, with_values
from spectui.sweep.record import NO_ROUNDS, Decoded, PromptRun, VisitRecord, VisitState

_ENOUGH = 0.98
"""Share of the best speedup beyond which a longer draft is not worth it."""
_FEWEST_LENGTHS = 3
_NOTHING = "nothing was decoded"
_UNMEASURED = "nothing was measured"
UNWATCHED = "the machine was not watched"


class Against(StrEnum):
    """Result of comparing a cell with the target alone, by its interval."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_TOLD_APART = "not told apart"
    NOISE = "noise"
    """Faster than the accepted tokens can explain."""
    UNKNOWN = "no interval"


def against_off(speedup: Speedup | None) -> Against:
    """Classify a speedup by its interval."""
    if speedup is not None and speedup.is_noise:
        return Against.NOISE
    if speedup is None or speedup.low is None or speedup.high is None:
        return Against.UNKNOWN
    if speedup.low > 1:
        return Against.FASTER
    return Against.SLOWER if speedup.high < 1 else Against.NOT_TOLD_APART


@dataclass(frozen=True, kw_only=True)
class CellSummary:
    """All measurements of one cell, or those on one category of prompts. Counts are exact."""

    cell: Cell
    name: str
    """Name of the cell in the grid."""
    records: tuple[VisitRecord, ...]
    """Its visits that have ended, by repeat."""

    @cached_property
    def complete(self) -> tuple[VisitRecord, ...]:
        """The repeats that were measured."""
        return tuple(one for one in self.records if one.state is VisitState.COMPLETE)

    @cached_property
    def runs(self) -> tuple[PromptRun, ...]:
        """Runs of all complete repeats."""
        return tuple(run for record in self.complete for run in record.runs)

    @cached_property
    def speedup(self) -> Speedup | None:
        """Speedup over the target alone, prompt by prompt; None if nothing was decoded."""
        found = [run.measurement for run in self.runs]
        measured: list[PairedMeasurement] = [one for one in found if one is not None]
        return paired_speedup(measured) if measured else None

    @property
    def n_repeats(self) -> int:
        """Number of complete repeats."""
        return len(self.complete)

    @property
    def n_noisy(self) -> int:
        """Number of repeats whose anchors disagree."""
        return sum(record.noisy for record in self.complete)

    @cached_property
    def disturbance(self) -> DisturbanceSummary | None:
        """What else the machine did meanwhile; None where it was not watched."""
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
        return self.speedup is not None

    @property
    def is_idle(self) -> bool:
        """Whether only n-gram drafters were asked and proposed nothing, which costs nothing.

        The speedup is noise then.
        """
        speculation = self.cell.speculation
        if speculation is None or speculation.model is not None:
            return False
        return self.is_measured and not self.counters.n_drafted

    @property
    def is_noise(self) -> bool:
        """Whether the speedup exceeds what the accepted tokens can give."""
        return self.speedup is not None and self.speedup.is_noise

    @property
    def off_tokens_per_s(self) -> float | None:
        """Throughput of the target alone; None if nothing was decoded."""
        return _throughput([run.off for run in self.runs])

    @property
    def on_tokens_per_s(self) -> float | None:
        """Throughput with speculation; None if nothing was decoded."""
        return _throughput([run.on for run in self.runs])

    @property
    def all_tokens_per_s(self) -> tuple[float | None, float | None]:
        """Tokens/s of all streams without and with speculation; None for a single stream.

        Evaluation of prompts included.
        """
        n_slots = self.cell.place.n_slots
        off, on = [run.off for run in self.runs], [run.on for run in self.runs]
        return together(n_slots, off), together(n_slots, on)

    @cached_property
    def counters(self) -> Counters:
        """Counts with speculation."""
        return sum((run.on.counters for run in self.runs), Counters())

    @cached_property
    def by_category(self) -> "dict[str, CellSummary]":
        """The same on the prompts of each category."""
        return {
            category: replace(self, records=tuple(_within(one, category) for one in self.complete))
            for category in dict.fromkeys(run.category for run in self.runs)
        }

    def document(self) -> Json:
        """Sums, speedup and runs of the cell in documents."""
        counters = self.counters
        return {
            "name": self.name,
            "config": self.cell.document(),
            "state": "complete" if self.is_measured else "failed",
            "error": self.error,
            "n_repeats": self.n_repeats,
            "n_noisy": self.n_noisy,
            **self._disturbance_document(),
            **or_reason("off_tokens_per_s", self.off_tokens_per_s, _NOTHING),
            **or_reason("on_tokens_per_s", self.on_tokens_per_s, _NOTHING),
            **self._together_document(),
            "n_tokens": sum(run.on.n_tokens for run in self.runs),
            "n_drafted": counters.n_drafted,
            "n_accepted": counters.n_accepted,
            **or_reason("n_rounds", counters.known_rounds, NO_ROUNDS),
            **or_reason("acceptance_rate", counters.acceptance_rate, NOTHING_DRAFTED),
            **or_reason("mean_accepted_length", counters.mean_accepted_length, NO_ROUNDS),
            **self._speedup_document(),
            "against_off": str(against_off(self.speedup)),
            **self._lossless_document(),
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
        off, on = self.all_tokens_per_s
        return {
            **or_reason("off_all_tokens_per_s", off, _NOTHING),
            **or_reason("on_all_tokens_per_s", on, _NOTHING),
        }

    def _speedup_document(self) -> Json:
        if self.speedup is not None:
            return self.speedup.document()
        reason = self.error or _NOTHING
        return {
            **or_reason("speedup", None, reason),
            **or_reason("speedup_ci95", None, reason),
        }

    def _lossless_document(self) -> Json:
        found = None if self.check is None else self.check.divergence
        if found is None:
            return lossless_document(self.check)
        return {
            **lossless_document(self.check),
            "divergence": {
                "prompt": found.prompt_id,
                "position": found.position,
                "margin": found.margin,
                "noise": found.noise,
            },
        }

    def best_document(self, category: str) -> Json:
        """The best cell of a category in documents."""
        return {
            "category": category,
            "name": self.name,
            **self._speedup_document(),
            **or_reason("acceptance_rate", self.counters.acceptance_rate, NOTHING_DRAFTED),
        }


def _within(record: VisitRecord, category: str) -> VisitRecord:
    return replace(record, runs=tuple(run for run in record.runs if run.category == category))


def _throughput(runs: Sequence[Decoded]) -> float | None:
    seconds = sum(run.decode_s for run in runs)
    return sum(run.n_tokens for run in runs) / seconds if seconds else None


def together(n_slots: int, runs: Sequence[Decoded]) -> float | None:
    """Tokens/s of as many streams as there are slots; None where they were decoded alone."""
    # The first token of each comes with its prompt.
    found = [(run.n_tokens + 1, run.request_s) for run in runs if run.request_s is not None]
    seconds = sum(took_s for _n, took_s in found)
    return n_slots * sum(n for n, _took_s in found) / seconds if seconds else None


def disturbance_of(summaries: Iterable[CellSummary]) -> DisturbanceSummary | None:
    """What else the machine did while the cells were measured; None where it was not watched."""
    return joined([one.disturbance for one in summaries if one.disturbance is not None])


def turned(summaries: Iterable[CellSummary]) -> Iterator[tuple[CellSummary, CellSummary]]:
    """Settings that are faster than off with one number of slots, and slower with another."""
    faster, slower = dict[Cell, CellSummary](), dict[Cell, CellSummary]()
    kinds = {Against.FASTER: faster, Against.SLOWER: slower}
    for one in summaries:
        found = kinds.get(against_off(one.speedup))
        if found is not None and not one.is_idle and not one.cell.arm.is_off:
            place = replace(one.cell.place, n_slots=1)
            found.setdefault(replace(one.cell, place=place), one)
    for cell, one in faster.items():
        if cell in slower:
            yield one, slower[cell]


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
    measured = (one for one in summaries if one.is_measured and not one.is_idle)
    speculating = [one for one in measured if not one.cell.arm.is_off]
    return sorted(speculating, key=lambda one: (not one.is_noise, _estimate(one)), reverse=True)


def _estimate(summary: CellSummary) -> float:
    return 0.0 if summary.speedup is None else summary.speedup.estimate


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
    for summary in ranked(summaries):
        for category, one in summary.by_category.items():
            if one.is_idle or one.is_noise or not one.is_measured:
                continue
            if category not in found or _estimate(one) > _estimate(found[category]):
                found[category] = one
    return dict(sorted(found.items()))


def full_names(summaries: Iterable[CellSummary]) -> Callable[[CellSummary], str]:
    """Function that names a cell unambiguously outside of the table of all cells."""
    columns = varying(one.cell for one in summaries)
    return lambda one: with_values(one.name, one.cell, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flattening:
    """Point where speedup by ``draft_max`` flattens, for one drafter on one category."""

    drafter: str
    around: Cell
    """The target alone in the same place, for the same task."""
    category: str | None
    """The category; None for all prompts."""
    by_length: Mapping[int, float]
    """Speedup by ``draft_max``."""

    @property
    def best(self) -> int:
        """The fastest ``draft_max``."""
        return max(self.by_length, key=self.by_length.__getitem__)

    @property
    def flattens_at(self) -> int:
        """The shortest ``draft_max`` with 98 % of the best one's speedup."""
        enough = _ENOUGH * self.by_length[self.best]
        return min(length for length, speedup in self.by_length.items() if speedup >= enough)

    def document(self) -> Json:
        """The speedups by length in documents."""
        return {
            "drafter": self.drafter,
            **self.around.surroundings(),
            "category": self.category,
            "speedup_by_draft_max": {str(length): y for length, y in self.by_length.items()},
            "best": self.best,
            "flattens_at": self.flattens_at,
        }


def flattenings(summaries: Sequence[CellSummary]) -> tuple[Flattening, ...]:
    """Flattenings per drafter, place and task with at least three measured draft lengths.

    Over all prompts and by category. Where several cells have the same length, the fastest counts.
    """
    found: dict[tuple[str, Cell, str | None], dict[int, float]] = {}
    for summary in ranked(summaries):
        cell, speculation = summary.cell, summary.cell.speculation
        if speculation is None or speculation.model is None:
            continue
        around, longest = replace(cell, arm=OFF, rerun=0), speculation.model.draft_max
        for category, one in (None, summary), *summary.by_category.items():
            if one.is_measured and not one.is_noise:
                lengths = found.setdefault((cell.arm.drafter, around, category), {})
                lengths[longest] = max(lengths.get(longest, 0.0), _estimate(one))
    return tuple(
        Flattening(
            drafter=drafter,
            around=around,
            category=category,
            by_length=dict(sorted(lengths.items())),
        )
        for (drafter, around, category), lengths in found.items()
        if len(lengths) >= _FEWEST_LENGTHS
    )
