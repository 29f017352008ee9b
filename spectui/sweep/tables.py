"""The tables of a sweep as cells of text, for the terminal and for Markdown alike. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spectui.format import factor, percent_text
from spectui.measure.arm import OFF
from spectui.measure.statistics import Speedup
from spectui.sweep.cells import Cell
from spectui.sweep.flattening import flattenings
from spectui.sweep.naming import telling, varying, with_values
from spectui.sweep.summary import (
    Against,
    CellSummary,
    against_off,
    best_per_category,
    best_per_drafter,
    ranked,
)

_NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One table."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_names: int = 1
    """Columns at the left that hold names; the others hold numbers."""
    n_words: int = 0
    """Columns at the right that hold words."""

    def is_text(self, column: int) -> bool:
        """Whether a column, by its index, holds no numbers."""
        return column < self.n_names or column >= len(self.headings) - self.n_words


def sheets(summaries: Sequence[CellSummary]) -> tuple[Sheet, ...]:
    """All tables that there is data for."""
    found = (
        _cells(summaries),
        _drafters(summaries),
        _categories(summaries),
        _lengths(summaries),
    )
    return tuple(sheet for sheet in found if sheet.rows)


def _cells(summaries: Sequence[CellSummary]) -> Sheet:
    columns = varying([one.cell for one in summaries])
    headings = ("cell", *columns, "off", "on", "speedup", "interval", "rate", "length", "note")
    rows = (
        (one.named.name, *(column(one.cell) for column in columns.values()), *_numbers(one))
        for one in summaries
    )
    return Sheet(title="Cells", headings=headings, rows=tuple(rows), n_words=1)


def _numbers(one: CellSummary) -> tuple[str, ...]:
    found = one.totals
    return (
        _rate(found.off_tokens_per_s),
        _rate(found.on_tokens_per_s),
        *_speedup(one.speedup),
        _share(found.acceptance_rate),
        _decimal(found.mean_accepted_length if found.n_drafted else None),
        ", ".join(_notes(one)),
    )


def _notes(one: CellSummary) -> Iterable[str]:
    if one.error is not None:
        yield "failed"
    if one.n_noisy:
        yield "noisy"
    if one.is_noise and not one.is_idle and not one.cell.arm.is_off:
        yield "noise"
    if one.divergence is not None and one.divergence.explained is not True:
        yield "LOSSY" if one.divergence.explained is False else "differs"


def _drafters(summaries: Sequence[CellSummary]) -> Sheet:
    best, told = best_per_drafter(summaries), telling(summaries)
    rows = (
        (drafter, told(one), *_speedup(one.speedup), _share(one.totals.acceptance_rate))
        for drafter, one in best.items()
    )
    return Sheet(
        title="Best of each drafter",
        headings=("drafter", "cell", "speedup", "interval", "rate"),
        rows=tuple(rows),
        n_names=2,
    )


def _categories(summaries: Sequence[CellSummary]) -> Sheet:
    told = telling(summaries)
    rows = (
        (
            best.category,
            told(best.summary),
            *_speedup(best.speedup),
            _share(best.totals.acceptance_rate),
        )
        for best in best_per_category(summaries)
    )
    return Sheet(
        title="Best of each category of prompts",
        headings=("category", "cell", "speedup", "interval", "rate"),
        rows=tuple(rows),
        n_names=2,
    )


def _lengths(summaries: Sequence[CellSummary]) -> Sheet:
    found = flattenings(summaries)
    # They stand in the order of speed, which tears apart what belongs together.
    found = tuple(sorted(found, key=lambda one: (one.drafter, repr((one.place, one.task)))))
    around = [Cell(arm=OFF, place=one.place, task=one.task) for one in found]
    columns = varying(around)
    lengths = sorted({length for one in found for length in one.by_length})
    rows = (
        (
            with_values(one.drafter, cell, columns),
            one.category or "all",
            *(_decimal(one.by_length.get(length)) for length in lengths),
            str(one.best),
            str(one.flattens_at),
        )
        for one, cell in zip(found, around, strict=True)
    )
    return Sheet(
        title="Speedup by draft_max, and from where on it flattens",
        headings=("drafter", "category", *map(str, lengths), "best", "flat at"),
        rows=tuple(rows),
        n_names=2,
    )


def remarks(summaries: Sequence[CellSummary]) -> tuple[str, ...]:
    """Remarks on the tables, a sentence each."""
    return tuple(_remarks(summaries))


def _remarks(summaries: Sequence[CellSummary]) -> Iterable[str]:
    yield (
        "off, on: tokens/s, off decoded right beside each prompt of the cell. speedup: on over "
        "off, with its 95 % interval over prompts. rate: accepted of drafted tokens. length: mean "
        "accepted length, 1 + accepted / rounds. Counts are exact. The rows of off compare it with "
        "itself: what noise alone does."
    )
    measured, name_of = ranked(summaries), telling(summaries)
    for against, told in _TOLD.items():
        names = [name_of(one) for one in measured if against_off(one.speedup) is against]
        if names:
            yield f"{told}: {'; '.join(names)}."
    idle = [one.named.name for one in summaries if one.is_idle]
    if idle:
        yield (
            f"Nothing was drafted by {', '.join(dict.fromkeys(idle))}: every round was the "
            "target's own, and the speedup is the machine's noise."
        )
    noisy = [one.named.name for one in summaries if one.n_noisy]
    if noisy:
        yield (
            "noisy: the machine's own speed moved by more than 15 % within the cell; run nothing "
            "else beside it."
        )
    yield from _differing(summaries)
    reasons = {one.speedup.interval_reason for one in measured if one.speedup is not None}
    for reason in sorted(filter(None, reasons)):
        yield f"Where no interval stands: {reason}."
    n_decided = len(measured)
    if n_decided > 1:
        yield (
            f"The best of {n_decided} cells flatters itself: measure it again with spectui bench, "
            "or let spectui tune confirm one."
        )
    for one in summaries:
        if one.error is not None:
            yield f"Failed: {name_of(one)}: {one.error}"


def _differing(summaries: Sequence[CellSummary]) -> Iterable[str]:
    explained = {one.divergence.explained for one in summaries if one.divergence is not None}
    if False in explained:
        yield (
            "LOSSY: speculation changed the output, and rounding does not explain it; please "
            "report that."
        )
    if None in explained:
        yield (
            "differs: the output is another one than that of the target alone; llama-server does "
            "not tell whether rounding explains it."
        )


_TOLD = {
    Against.FASTER: "Faster than off",
    Against.NOT_TOLD_APART: "Not told apart from off (the interval holds 1)",
    Against.SLOWER: "Slower than off",
    Against.NOISE: "Faster than the accepted tokens can make it, which is the machine's noise",
}


def _speedup(speedup: Speedup | None) -> tuple[str, str]:
    if speedup is None:
        return _NONE, _NONE
    if speedup.low is None or speedup.high is None:
        return factor(speedup.estimate), _NONE
    return factor(speedup.estimate), f"{factor(speedup.low)}–{factor(speedup.high)}"


def _rate(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f}"


def _decimal(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return percent_text(value, 1)
