"""The numbers of a sweep as CSV. Pure."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO

from spectui.sweep.cells import Cell, NamedCell, coordinates
from spectui.sweep.record import PromptRun, VisitRecord, VisitState
from spectui.sweep.summary import CellSummary, against_off

_Row = Mapping[str, object]


def results_csv(cells: Sequence[NamedCell], records: Iterable[VisitRecord]) -> str:
    """A row per cell, prompt and repeat, and one for each repeat that failed."""
    names = {one.cell: one.name for one in cells}
    rows = [
        {"cell": names[record.visit.cell], **_place(record.visit.cell), **row}
        for record in records
        if record.visit.cell in names
        for row in _runs(record)
    ]
    return _written(rows)


def _place(cell: Cell) -> _Row:
    """Coordinates of the cell; threads are None if there are as many as cores."""
    return {**coordinates(cell), "threads": cell.place.threads or None}


def _runs(record: VisitRecord) -> list[_Row]:
    shared = {"repeat": record.visit.repeat + 1, "state": str(record.state)}
    if record.state is not VisitState.COMPLETE:
        return [{**shared, "error": record.error}]
    return [{**shared, "noisy": record.noisy, **_run(run)} for run in record.runs]


def _run(run: PromptRun) -> _Row:
    measured = run.measurement is not None
    return {
        "prompt": run.prompt_id,
        "category": run.category,
        "n_prompt_tokens": run.n_prompt_tokens,
        "off_n_tokens": run.off.n_tokens,
        "off_decode_s": run.off.decode_s,
        "off_tokens_per_s": run.off.tokens_per_s,
        "on_n_tokens": run.on.n_tokens,
        "on_decode_s": run.on.decode_s,
        "on_tokens_per_s": run.on.tokens_per_s,
        "speedup": (run.on.tokens_per_s or 0) / (run.off.tokens_per_s or 1) if measured else None,
        "n_drafted": run.on.n_drafted,
        "n_accepted": run.on.n_accepted,
        "n_rounds": run.on.n_rounds,
        "same_output": run.on.output_sha256 == run.off.output_sha256,
    }


def summary_csv(summaries: Sequence[CellSummary]) -> str:
    """A row per cell."""
    return _written([_summary(one) for one in summaries])


def _summary(one: CellSummary) -> _Row:
    found, speedup = one.totals, one.speedup
    return {
        "cell": one.named.name,
        **_place(one.cell),
        "n_repeats": one.n_repeats,
        "n_prompts": None if speedup is None else speedup.n_prompts,
        "off_tokens_per_s": found.off_tokens_per_s,
        "on_tokens_per_s": found.on_tokens_per_s,
        "speedup": None if speedup is None else speedup.estimate,
        "speedup_low": None if speedup is None else speedup.low,
        "speedup_high": None if speedup is None else speedup.high,
        "against_off": str(against_off(speedup)),
        "n_drafted": found.n_drafted,
        "n_accepted": found.n_accepted,
        "n_rounds": found.n_rounds,
        "acceptance_rate": found.acceptance_rate,
        "mean_accepted_length": found.mean_accepted_length,
        "n_noisy": one.n_noisy,
        "error": one.error,
    }


def _written(rows: Sequence[_Row]) -> str:
    page = StringIO()
    # Cells of several drafters have axes that others lack: those stay empty.
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(page, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return page.getvalue()
