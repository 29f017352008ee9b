"""Texts of ``spectui sweep``, and the files of its ``--out`` folder."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.errors import BadInputError
from spectui.files import write_own_file
from spectui.format import counted, duration_text, percent_text, rate_text, times_text
from spectui.measure.server_backend import REMEMBERS, remembers
from spectui.options.drafters import MODEL_KIND
from spectui.page import Page, Paragraph, Part, Table, Words, heads
from spectui.sweep.cells import COLUMNS, Cell, VisitRecord, VisitState
from spectui.sweep.drawing import draw
from spectui.sweep.expand import expand, n_loads
from spectui.sweep.grid import Grid
from spectui.sweep.summary import CellSummary, summarise
from spectui.sweep.sweep import Sweep
from spectui.sweep.tables import markdown, remarks, sheets, summary_csv

_INDENT = "  "
_PICTURE = "speedups.svg"
_MARK = ".spectui-sweep"
"""File that marks a folder of ``--out``, which holds what sweep may write over."""
_TWO_DRAFTS = {"first": MODEL_KIND, "second": MODEL_KIND}
_LEAST_NAME = 12
"""Minimum width in cells of a column of names, in a table as wide as the page."""


def grids_page(grids: Sequence[Grid]) -> Page:
    """The named grids, with what they run and where they come from."""
    page: list[Part] = []
    for grid in grids:
        n_cells = len(expand(grid.cells, _TWO_DRAFTS, Cell())[0])
        page += [f"{grid.name} ({n_cells} cells with two drafts)", _indented(grid.description)]
        page += [*([_indented(f"From {grid.source}")] if grid.source else []), ""]
    page.append(
        Paragraph(
            "Run one with spectui sweep --grid NAME and your models, or --demo; --dry-run shows "
            "its cells. Options beside it replace its axes. Your own lie in grids/ of the "
            "configuration folder, or are given as a path."
        )
    )
    return page


def _indented(text: str) -> Paragraph:
    return Paragraph(text, indent=_INDENT, first=_INDENT)


def plan_text(sweep: Sweep) -> str:
    """Text on the amount of measuring, and its estimated time."""
    n_visits, n_left, left_s = len(sweep.visits), len(sweep.pending), sweep.left_s()
    times = sweep.setup.repeats
    done = f"; {n_visits - n_left} of {n_visits} measurements are there already"
    time = "how long it takes is told once one cell was measured"
    if left_s is not None:
        time = f"about {duration_text(left_s)}"
    return (
        f"sweep {sweep.name}: {counted(len(sweep.cells), 'cell')}{_of_grid(sweep)}"
        f"{f', {times} times each' if times > 1 else ''}"
        f"{done if n_left < n_visits else ''}; {counted(sweep.n_decodes, 'decode')} and "
        f"{counted(n_loads(sweep.pending), 'load')} of the target are left, {time}"
    )


def _of_grid(sweep: Sweep) -> str:
    grid, prompts = sweep.setup.grid, counted(len(sweep.setup.prompts), "prompt")
    return f" of the grid {grid.name} on {prompts}" if grid.name else f" on {prompts}"


def plan_page(sweep: Sweep) -> Page:
    """The plan with every cell, in the order of measuring."""
    page: list[Part] = [Paragraph(plan_text(sweep))]
    for texts in (
        [f"note: {note}" for note in sweep.setup.grid.notes],
        [f"Left out: {one}" for one in sweep.left_out],
    ):
        page += ["", *map(_indented, texts)] if texts else []
    if not sweep.pending:
        return page
    columns: list[str | Words] = ["#", Words("cell"), Words("draft"), *COLUMNS]
    rows = [
        (
            str(n),
            sweep.cells[visit.cell],
            visit.cell.arm.draft or "–",
            *(column(visit.cell) for column in COLUMNS.values()),
        )
        for n, visit in enumerate(sweep.pending, start=1)
    ]
    return [*page, "", Table(columns, rows)]


def progress_line(record: VisitRecord, sweep: Sweep) -> str:
    """A line for a cell that begins or has ended."""
    if record.state is VisitState.STARTED:
        left_s, n_visits = sweep.left_s(), len(sweep.visits)
        left = "" if left_s is None else f", about {duration_text(left_s)} left"
        number, name = n_visits - len(sweep.pending) + 1, sweep.cells[record.visit.cell]
        return f"cell {number} of {n_visits}{left}: {name}"
    if record.state is VisitState.FAILED:
        return f"  failed: {first_clause(record.error or '')}"
    (one,) = summarise({record.visit.cell: ""}, [record])
    gain = None if one.speedup is None else one.speedup.estimate
    noisy = ", noisy" if record.noisy else ""
    return (
        f"  {rate_text(one.totals.tokens_per_s)} tokens/s, {times_text(gain)}, acceptance "
        f"{percent_text(one.totals.acceptance_rate)}{noisy}"
    )


def first_clause(error: str) -> str:
    """The first clause of an error, without the server's last words and the remedy."""
    return error.partition("; ")[0]


def summary_page(sweep: Sweep, summaries: Sequence[CellSummary]) -> Page:
    """All tables, for a terminal."""
    first, *rest = [_table(sheet) for sheet in sheets(summaries)]
    page: list[Part] = [Paragraph(f"sweep {sweep.name}: {_state_text(sweep, summaries)}")]
    parts: list[Part] = [first, *map(Paragraph, _all_remarks(sweep, summaries)), *rest]
    for part in parts:
        page += ["", part]
    return page


def _all_remarks(sweep: Sweep, summaries: Sequence[CellSummary]) -> Iterator[str]:
    """All remarks on the tables and on the backend."""
    yield from remarks(summaries)
    if sweep.left_out:
        yield f"Left out: {'; '.join(sweep.left_out)}."
    if sweep.prompts_note is not None:
        yield f"note: {sweep.prompts_note}."
    is_served = sweep.setup.binary is not None
    if is_served and any(remembers(one.cell.speculation) for one in summaries):
        yield f"note: {REMEMBERS}."


def _state_text(sweep: Sweep, summaries: Sequence[CellSummary]) -> str:
    """Progress of the sweep as text."""
    n_left = len(sweep.cells) - len(summaries)
    left = f", {n_left} not measured yet" if n_left else ""
    return f"{counted(len(summaries), 'cell')}{_of_grid(sweep)}{left}"


def _table(sheet: Table) -> Table:
    """A sheet without empty columns; where it is narrow numbers must not take all the room."""
    for at, head in reversed([*enumerate(heads(sheet))]):
        sheet = sheet if any(row[at] for row in sheet.rows) else sheet.without(head)
    columns = [
        replace(one, width=_LEAST_NAME) if isinstance(one, Words) and not one.is_whole else one
        for one in sheet.columns
    ]
    return replace(sheet, narrow=replace(sheet, columns=columns, is_close=True))


def check_folder(folder: Path | None) -> None:
    """Check that the results can be written, before hours of measuring, and mark the folder.

    Raises:
        BadInputError: there is no such folder, none can be made, it takes no file, or somebody else
            has put files there.
    """
    if folder is None:
        return
    mark = folder / _MARK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not mark.is_file():
            raise BadInputError(
                f"--out {folder} is not empty, and sweep has not written it; give another folder"
            )
        write_own_file(mark, b"")
    except OSError as error:
        raise BadInputError(
            f"--out {folder} cannot be written ({error.strerror}); give another folder"
        ) from error


def write_folder(
    folder: Path, sweep: Sweep, summaries: Sequence[CellSummary], document: Mapping[str, Any]
) -> None:
    """Write ``--out``, the most useful first.

    Raises:
        BadInputError: files cannot be written; all others have been.
    """
    picture = draw(summaries)
    contents = {
        "summary.csv": summary_csv(summaries).encode(),
        "report.md": _markdown(sweep, summaries, None if picture is None else _PICTURE).encode(),
        "results.json": f"{json.dumps(document, indent=2, allow_nan=False)}\n".encode(),
        _PICTURE: picture,
    }
    failed: dict[str, OSError] = {}
    for name, content in contents.items():
        if content is not None:
            try:
                write_own_file(folder / name, content)
            except OSError as error:
                failed[name] = error
    if failed:
        reasons = sorted({str(error.strerror) for error in failed.values()})
        raise BadInputError(
            f"in --out {folder} {', '.join(failed)} cannot be written ({', '.join(reasons)}); the "
            f"sweep {sweep.name} keeps all that was measured: run the command again with another "
            "--out"
        ) from next(iter(failed.values()))


def _markdown(sweep: Sweep, summaries: Sequence[CellSummary], picture: str | None) -> str:
    machine, grid = sweep.setup.machine, sweep.setup.grid
    facts = [
        grid.description,
        *([f"After {grid.source}"] if grid.source else []),
        *(f"note: {note}" for note in grid.notes),
        f"Target: {sweep.spec['target']['file']}",
        *(f"Draft {name}: {draft['file']}" for name, draft in sweep.spec["drafts"].items()),
        f"Machine: {machine.cpu}, {counted(machine.n_cores, 'core')}"
        + "".join(f", {gpu}" for gpu in machine.gpus),
        _state_text(sweep, summaries),
    ]
    notes = _all_remarks(sweep, summaries)
    return markdown(f"Sweep {sweep.name}", facts, sheets(summaries), notes, picture)
