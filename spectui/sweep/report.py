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
from spectui.page import Page, Paragraph, Part, Table, Words
from spectui.sweep.cells import Visit, VisitRecord, VisitState
from spectui.sweep.summary import CellSummary, summarise
from spectui.sweep.sweep import Sweep
from spectui.sweep.tables import cells_table, markdown, remarks, speedups_svg, summary_csv

_PICTURE = "speedups.svg"
_MARK = ".spectui-sweep"
"""File that marks a folder of ``--out``, which holds what sweep may write over."""
_LEAST_NAME = 12
"""Minimum width in cells of a column of names, in a table as wide as the page."""


def plan_text(sweep: Sweep) -> str:
    """Text on the amount of measuring, and its estimated time."""
    n_visits, n_left, left_s = len(sweep.visits), len(sweep.pending), sweep.left_s()
    times = f", {sweep.setup.repeats} times each" if sweep.setup.repeats > 1 else ""
    left = f"; {n_left} of {n_visits} measurements are left" if n_left < n_visits else ""
    time = "its duration is known once one cell was measured"
    if left_s is not None:
        time = f"about {duration_text(left_s)}"
    return f"sweep {sweep.name}: {_size(sweep, len(sweep.cells))}{times}{left}; {time}"


def _size(sweep: Sweep, n_cells: int) -> str:
    return f"{counted(n_cells, 'cell')} on {counted(len(sweep.setup.prompts), 'prompt')}"


def begun_line(visit: Visit, sweep: Sweep) -> str:
    """A line for a cell that begins."""
    left_s, n_visits = sweep.left_s(), len(sweep.visits)
    left = "" if left_s is None else f", about {duration_text(left_s)} left"
    number = n_visits - len(sweep.pending) + 1
    return f"cell {number} of {n_visits}{left}: {visit.cell.arm.label}"


def ended_line(record: VisitRecord) -> str:
    """A line for a cell that has ended."""
    if record.state is VisitState.FAILED:
        return f"  failed: {first_clause(record.error or '')}"
    (one,) = summarise([record.visit.cell], [record])
    gain = None if one.speedup is None else one.speedup.estimate
    return (
        f"  {rate_text(one.totals.tokens_per_s)} tokens/s, {times_text(gain)}, acceptance "
        f"{percent_text(one.totals.acceptance_rate)}"
    )


def first_clause(error: str) -> str:
    """The first clause of an error, without the server's last words and the remedy."""
    return error.partition("; ")[0]


def summary_page(sweep: Sweep, summaries: Sequence[CellSummary]) -> Page:
    """The table and the remarks, for a terminal."""
    page: list[Part] = [Paragraph(f"sweep {sweep.name}: {_state_text(sweep, summaries)}")]
    table = cells_table(summaries)
    if not any(row[-1] for row in table.rows):
        table = table.without("note")
    page += ["", _narrowing(table)]
    for remark in _all_remarks(sweep, summaries):
        page += ["", Paragraph(remark)]
    return page


def _narrowing(table: Table) -> Table:
    """The table, whose numbers must not take all the room of a narrow page."""
    columns = [
        replace(one, width=_LEAST_NAME) if isinstance(one, Words) and not one.is_whole else one
        for one in table.columns
    ]
    return replace(table, narrow=replace(table, columns=columns, is_close=True))


def _all_remarks(sweep: Sweep, summaries: Sequence[CellSummary]) -> Iterator[str]:
    """All remarks on the table and on the backend."""
    yield from remarks(summaries)
    if sweep.left_out:
        yield f"Left out: {'; '.join(sweep.left_out)}."
    is_served = sweep.setup.binary is not None
    if is_served and any(remembers(one.cell.speculation) for one in summaries):
        yield f"note: {REMEMBERS}."


def _state_text(sweep: Sweep, summaries: Sequence[CellSummary]) -> str:
    """Progress of the sweep as text."""
    n_left = len(sweep.cells) - len(summaries)
    left = f", {n_left} not measured yet" if n_left else ""
    return f"{_size(sweep, len(summaries))}{left}"


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
) -> str:
    """Write ``--out``, the most useful first.

    Returns:
        A line on what was written.

    Raises:
        BadInputError: a file cannot be written.
    """
    picture = speedups_svg(summaries)
    contents = {
        "summary.csv": summary_csv(summaries).encode(),
        "report.md": _markdown(sweep, summaries, None if picture is None else _PICTURE).encode(),
        "results.json": f"{json.dumps(document, indent=2, allow_nan=False)}\n".encode(),
        **({} if picture is None else {_PICTURE: picture}),
    }
    for name, content in contents.items():
        try:
            write_own_file(folder / name, content)
        except OSError as error:
            raise BadInputError(
                f"{name} of --out {folder} cannot be written ({error.strerror}); the sweep "
                f"{sweep.name} keeps all that was measured: run the command again with another "
                "--out"
            ) from error
    return f"written to {folder}: {', '.join(contents)}"


def _markdown(sweep: Sweep, summaries: Sequence[CellSummary], picture: str | None) -> str:
    machine = sweep.setup.machine
    facts = [
        f"Target: {sweep.spec['target']['file']}",
        *(f"Draft {name}: {draft['file']}" for name, draft in sweep.spec["drafts"].items()),
        f"Machine: {machine.cpu}, {counted(machine.n_cores, 'core')}"
        + "".join(f", {gpu}" for gpu in machine.gpus),
        _state_text(sweep, summaries),
    ]
    notes = _all_remarks(sweep, summaries)
    return markdown(f"Sweep {sweep.name}", facts, cells_table(summaries), notes, picture)
