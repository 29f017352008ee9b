"""Tables of a sweep: as text for the terminal, as Markdown and as CSV. Pure."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from spectui.format import factor, percent_text, printable
from spectui.measure.speedup import Speedup
from spectui.sweep.cells import Cell, coordinates, varying, with_values
from spectui.sweep.record import VisitRecord, VisitState
from spectui.sweep.summary import (
    Against,
    CellSummary,
    against_off,
    best_per_category,
    best_per_drafter,
    disturbance_of,
    flattenings,
    full_names,
    ranked,
    turned,
)

_NONE = "–"
_N_DISTURBED = 3
"""Disturbed cells that a remark names."""
_FORMULAS = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
"""With what spreadsheets begin a formula: the last are wide forms of the first."""


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
        _best("drafter", "Best of each drafter", best_per_drafter(summaries), summaries),
        _best(
            "category",
            "Best of each category of prompts",
            best_per_category(summaries),
            summaries,
        ),
        _lengths(summaries),
    )
    return tuple(sheet for sheet in found if sheet.rows)


def _cells(summaries: Sequence[CellSummary]) -> Sheet:
    columns = varying(one.cell for one in summaries)
    has_streams = any(one.cell.place.n_slots > 1 for one in summaries)
    streams = ("off all", "on all") if has_streams else ()
    headings = (
        *("cell", *columns, "off", "on", *streams),
        *("speedup", "interval", "rate", "length", "note"),
    )
    rows = (
        (
            one.name,
            *(column(one.cell) for column in columns.values()),
            *(_fixed(rate, 1) for rate in (one.off_tokens_per_s, one.on_tokens_per_s)),
            *(_fixed(rate, 1) for rate in (one.all_tokens_per_s if has_streams else ())),
            *_numbers(one),
        )
        for one in summaries
    )
    return Sheet(title="Cells", headings=headings, rows=tuple(rows), n_words=1)


def _numbers(one: CellSummary) -> tuple[str, ...]:
    return (
        *_speedup(one.speedup),
        percent_text(one.counters.acceptance_rate, 1),
        _fixed(one.counters.mean_accepted_length if one.counters.n_drafted else None),
        ", ".join(_notes(one)),
    )


def _notes(one: CellSummary) -> Iterator[str]:
    if one.error is not None:
        yield "failed"
    if one.n_noisy:
        yield "noisy"
    if one.is_noise and not one.is_idle and not one.cell.arm.is_off:
        yield "noise"
    if one.check is not None and not one.check.lossless:
        yield "differs" if one.check.lossless is None else "LOSSY"


def _best(
    kind: str, title: str, best: Mapping[str, CellSummary], all_cells: Sequence[CellSummary]
) -> Sheet:
    name_of = full_names(all_cells)
    rows = (
        (name, name_of(one), *_speedup(one.speedup), percent_text(one.counters.acceptance_rate, 1))
        for name, one in best.items()
    )
    headings = (kind, "cell", "speedup", "interval", "rate")
    return Sheet(title=title, headings=headings, rows=tuple(rows), n_names=2)


def _lengths(summaries: Sequence[CellSummary]) -> Sheet:
    # They stand in the order of speed, which tears apart what belongs together.
    found = sorted(flattenings(summaries), key=lambda one: (one.drafter, repr(one.around)))
    columns = varying(one.around for one in found)
    lengths = sorted({length for one in found for length in one.by_length})
    rows = (
        (
            with_values(one.drafter, one.around, columns),
            one.category or "all",
            *(_fixed(one.by_length.get(length)) for length in lengths),
            str(one.best),
            str(one.flattens_at),
        )
        for one in found
    )
    return Sheet(
        title="Speedup by draft_max, and from where on it flattens",
        headings=("drafter", "category", *map(str, lengths), "best", "flat at"),
        rows=tuple(rows),
        n_names=2,
    )


def _of_slots(summaries: Sequence[CellSummary]) -> Iterator[str]:
    for faster, slower in turned(summaries):
        yield (
            f"With the number of slots the verdict turns: {faster.name} is faster than off with "
            f"{faster.cell.place.n_slots} and slower with {slower.cell.place.n_slots}."
        )
    if any(one.cell.place.n_slots > 1 for one in summaries):
        yield (
            "slots: streams at once; off and on are those of one stream while it answers, off all "
            "and on all those of all streams together, with the evaluation of prompts."
        )


def remarks(summaries: Sequence[CellSummary]) -> Iterator[str]:
    """Remarks on the tables, a sentence each."""
    yield (
        "off, on: tokens/s, off decoded right beside each prompt of the cell. speedup: on over "
        "off, with its 95 % interval over prompts. rate: accepted of drafted tokens. length: mean "
        "accepted length, 1 + accepted / rounds. Counts are exact. The rows of off compare it with "
        "itself: what noise alone does."
    )
    measured, name_of = ranked(summaries), full_names(summaries)
    for against, text in _AGAINST.items():
        names = [name_of(one) for one in measured if against_off(one.speedup) is against]
        if names:
            yield f"{text}: {'; '.join(names)}."
    yield from _of_slots(summaries)
    idle = [one.name for one in summaries if one.is_idle]
    if idle:
        yield (
            f"Nothing was drafted by {', '.join(dict.fromkeys(idle))}: every round was the "
            "target's own, and the speedup is the machine's noise."
        )
    noisy = [one.name for one in summaries if one.n_noisy]
    if noisy:
        yield (
            "noisy: the machine's own speed moved by more than 15 % within the cell; run nothing "
            "else beside it."
        )
    yield from _disturbed(summaries)
    yield from _differing(summaries)
    reasons = {one.speedup.interval_reason for one in measured if one.speedup is not None}
    for reason in sorted(filter(None, reasons)):
        yield f"Where no interval stands: {reason}."
    if len(measured) > 1:
        yield (
            f"The best of {len(measured)} cells flatters itself: measure it again with spectui "
            "bench, or let spectui tune confirm one."
        )
    for one in summaries:
        if one.error is not None:
            yield f"Failed: {name_of(one)}: {one.error}"


def _disturbed(summaries: Sequence[CellSummary]) -> Iterator[str]:
    """What disturbed the machine, and the cells that it disturbed most."""
    whole, name_of = disturbance_of(summaries), full_names(summaries)
    if whole is None or not whole.notes:
        return
    yield from whole.notes
    shares = {
        name_of(one): one.disturbance.share or 0.0
        for one in summaries
        if one.disturbance is not None and one.disturbance.notes
    }
    most = sorted(filter(shares.get, shares), key=lambda name: -shares[name])[:_N_DISTURBED]
    if most:
        told = "; ".join(f"{name} ({percent_text(shares[name])})" for name in most)
        yield f"Disturbed for the largest share of their time: {told}."


def _differing(summaries: Sequence[CellSummary]) -> Iterator[str]:
    lossless = {one.check.lossless for one in summaries if one.check is not None}
    if False in lossless:
        yield (
            "LOSSY: speculation changed the output, and rounding does not explain it; please "
            "report that."
        )
    if None in lossless:
        yield (
            "differs: the output is another one than that of the target alone; llama-server does "
            "not tell whether rounding explains it."
        )


_AGAINST = {
    Against.FASTER: "Faster than off",
    Against.NOT_TOLD_APART: "Not told apart from off (the interval holds 1)",
    Against.SLOWER: "Slower than off",
    Against.NOISE: "Faster than the accepted tokens can make it, which is the machine's noise",
}


def _speedup(speedup: Speedup | None) -> tuple[str, str]:
    if speedup is None:
        return _NONE, _NONE
    speedup = speedup.capped
    if speedup.low is None or speedup.high is None:
        return factor(speedup.estimate), _NONE
    return factor(speedup.estimate), f"{factor(speedup.low)}–{factor(speedup.high)}"


def _fixed(value: float | None, decimals: int = 2) -> str:
    return _NONE if value is None else f"{value:.{decimals}f}"


def markdown(
    title: str,
    facts: Sequence[str],
    found: Sequence[Sheet],
    notes: Iterable[str],
    picture: str | None,
) -> str:
    """Render the report of a sweep.

    Args:
        title: title of the report.
        facts: facts on the measurement, an item each.
        found: the tables.
        notes: remarks on them.
        picture: name of the file with the speedups; None without one.
    """
    parts = [f"# {_plain(title)}", "\n".join(f"- {_plain(fact)}" for fact in facts)]
    first, *rest = [_markdown_table(sheet) for sheet in found] or [""]
    parts += [first, *map(_plain, notes), *rest]
    if picture is not None:
        parts.append(f"## Speedups\n\n![Speedups]({picture})")
    return "\n\n".join(filter(None, parts)) + "\n"


def _markdown_table(sheet: Sheet) -> str:
    marks = ["---" if sheet.is_text(index) else "---:" for index in range(len(sheet.headings))]
    rows = [sheet.headings, marks, *sheet.rows]
    lines = ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in rows]
    return f"## {sheet.title}\n\n" + "\n".join(lines)


def _markdown_cell(text: str) -> str:
    return text if set(text) <= {"-", ":"} else _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text with Markdown's special characters escaped, which names of files may hold."""
    text = printable(text, keep="\n\t")
    for mark in "\\`*_<>[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


_Row = Mapping[str, object]
# Columns of the files, but for those that say which cell it is.
_OF_RUNS = (
    "prompt,category,n_prompt_tokens,off_n_tokens,off_decode_s,off_tokens_per_s,on_n_tokens,"
    "on_decode_s,on_tokens_per_s,speedup,n_drafted,n_accepted,n_rounds,same_output"
)
_OF_CELLS = (
    "n_repeats,n_prompts,off_tokens_per_s,on_tokens_per_s,speedup,speedup_low,speedup_high,"
    "against_off,n_drafted,n_accepted,n_rounds,acceptance_rate,mean_accepted_length,n_noisy,error"
)


def results_csv(cells: Mapping[Cell, str], records: Iterable[VisitRecord]) -> str:
    """A row per cell, prompt and repeat, and one for each repeat that failed."""
    rows = [
        {**_named(record.visit.cell, cells[record.visit.cell]), **row}
        for record in records
        if record.visit.cell in cells
        for row in _run_rows(record)
    ]
    return _written(rows)


def _named(cell: Cell, name: str) -> _Row:
    """Name and coordinates of the cell; threads are None if there are as many as cores."""
    return {"cell": name, **coordinates(cell), "threads": cell.place.threads or None}


def _run_rows(record: VisitRecord) -> Iterator[_Row]:
    repeat = record.visit.repeat + 1
    shared = {"repeat": repeat, "state": str(record.state)}
    if record.state is not VisitState.COMPLETE:
        yield {**shared, "error": record.error}
    for run in record.runs:
        off, on = run.off.tokens_per_s, run.on.tokens_per_s
        values = {
            **run.document(repeat),
            "off_tokens_per_s": off,
            "on_tokens_per_s": on,
            "speedup": None if off is None or on is None else on / off,
            "same_output": run.on.output_sha256 == run.off.output_sha256,
        }
        yield {
            **shared,
            "noisy": record.noisy,
            **{name: values[name] for name in _OF_RUNS.split(",")},
        }


def summary_csv(summaries: Sequence[CellSummary]) -> str:
    """A row per cell."""
    return _written([_summary_row(one) for one in summaries])


def _summary_row(one: CellSummary) -> _Row:
    values = one.document()
    values["speedup_low"], values["speedup_high"] = values["speedup_ci95"] or (None, None)
    values["n_prompts"] = None if one.speedup is None else one.speedup.n_prompts
    return {**_named(one.cell, one.name), **{name: values[name] for name in _OF_CELLS.split(",")}}


def _written(rows: Sequence[_Row]) -> str:
    page = StringIO()
    # Cells of several drafters have axes that others lack: those stay empty.
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(page, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return page.getvalue()


def _cell(value: object) -> object:
    """The value of a cell; a text, which may be a file's name, that no spreadsheet computes."""
    if not isinstance(value, str):
        return value
    text = printable(value, keep="\n\t")
    return f"'{text}" if text.lstrip().startswith(_FORMULAS) else text
