"""Text output of ``spectui sweep``."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from spectui.cli.bench_run import REMEMBERS
from spectui.cli.drawing import drawn, fits, page_width, wrapped
from spectui.cli.sweep_request import plain_defaults
from spectui.format import counted, duration_text, percent_text, rate_text, times_text
from spectui.measure.server_backend import remembers
from spectui.monitor.machine import Machine
from spectui.sweep.cells import Cell, NamedCell
from spectui.sweep.expand import expand
from spectui.sweep.grid_file import Grid
from spectui.sweep.order import Visit, n_loads
from spectui.sweep.pace import RUNS_PER_PROMPT
from spectui.sweep.record import VisitRecord, VisitState
from spectui.sweep.runner import SweepEvent, VisitStarted
from spectui.sweep.summary import CellSummary, speedup_of, totals
from spectui.sweep.tables import Sheet, remarks, sheets


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Measurements that a sweep will make."""

    grid: Grid
    name: str
    machine: Machine
    cells: tuple[NamedCell, ...]
    visits: tuple[Visit, ...]
    left: tuple[Visit, ...]
    """Visits that are left to be measured, in their order."""
    n_prompts: int
    left_s: float | None
    """Estimated seconds for these."""
    left_out: tuple[str, ...]
    """A sentence for every impossible combination."""

    @property
    def n_decodes(self) -> int:
        """Number of decodes that are left."""
        return len(self.left) * self.n_prompts * RUNS_PER_PROMPT


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """A sweep, as far as it was measured."""

    name: str
    grid: Grid
    machine: Machine
    backend: Mapping[str, Any]
    """The backend that decoded, as in documents."""
    spec: Mapping[str, Any]
    weights_bytes: Mapping[str | None, int | None]
    """Size of the tensors of each draft by name, of the target under None; None if unknown."""
    notes: tuple[str, ...]
    """Parts of the ``--from`` command that are not measured."""
    cells: tuple[NamedCell, ...]
    summaries: tuple[CellSummary, ...]
    records: tuple[VisitRecord, ...]
    n_prompts: int
    left_out: tuple[str, ...]
    """A sentence for every impossible combination."""

    @property
    def n_left(self) -> int:
        """Cells that have no record."""
        return len(self.cells) - len(self.summaries)


_INDENT = "  "
_TWO_DRAFTS = ("first", "second")
_LEAST_NAME = 12
"""Minimum width in cells of a column of names, in a table as wide as the page."""


def grid_list(grids: Sequence[Grid]) -> str:
    """The named grids, with what they run and where they come from."""
    parts = []
    for grid in grids:
        n_cells = len(expand(grid.cells, _TWO_DRAFTS, plain_defaults()).cells)
        head = f"{grid.name} ({n_cells} cells with two drafts)"
        parts.append(f"{head}\n" + _indented(grid.description))
        if grid.source:
            parts[-1] += "\n" + _indented(f"From {grid.source}")
    parts.append(
        wrapped(
            "Run one with spectui sweep --grid NAME and your models, or --demo; --dry-run shows "
            "its cells. Options beside it replace its axes. Your own lie in grids/ of the "
            "configuration folder, or are given as a path."
        )
    )
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return textwrap.fill(
        text,
        page_width(),
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def plan_text(plan: Plan) -> str:
    """Text on the amount of measuring, and its estimated time."""
    n_visits, n_left = len(plan.visits), len(plan.left)
    times = n_visits // max(1, len(plan.cells))
    done = f"; {n_visits - n_left} of {n_visits} measurements are there already"
    time = "how long it takes is told once one cell was measured"
    if plan.left_s is not None:
        time = f"about {duration_text(plan.left_s)}"
    return (
        f"sweep {plan.name}: {counted(len(plan.cells), 'cell')}{_of_grid(plan.grid)} on "
        f"{counted(plan.n_prompts, 'prompt')}{f', {times} times each' if times > 1 else ''}"
        f"{done if n_left < n_visits else ''}; {counted(plan.n_decodes, 'decode')} and "
        f"{counted(n_loads(plan.left), 'load')} of the target are left, {time}"
    )


def _of_grid(grid: Grid) -> str:
    return f" of the grid {grid.name}" if grid.name else ""


def whole_plan(plan: Plan) -> str:
    """The plan with every cell, in the order of measuring."""
    names = {one.cell: one.name for one in plan.cells}
    notes = "\n".join(_indented(f"Mind: {note}") for note in plan.grid.notes)
    left_out = "\n".join(_indented(f"Left out: {one}") for one in plan.left_out)
    parts = [wrapped(plan_text(plan)), notes, left_out, _order(plan.left, names)]
    return "\n\n".join(filter(None, parts))


def _order(left: Sequence[Visit], names: Mapping[Cell, str]) -> str:
    table = Table(box=None, header_style="bold")
    table.add_column("#", justify="right")
    for heading in ("cell", "draft", "place", "task"):
        table.add_column(heading, overflow="fold")
    for number, visit in enumerate(left, start=1):
        cell = visit.cell
        table.add_row(
            str(number), names[cell], cell.arm.draft or "–", cell.place.text, cell.task.text
        )
    return drawn(table) if left else ""


def progress_line(event: SweepEvent, names: Mapping[Cell, str]) -> str:
    """A line for a cell that begins or has ended."""
    if isinstance(event, VisitStarted):
        left = "" if event.left_s is None else f", about {duration_text(event.left_s)} left"
        name = names.get(event.visit.cell, "")
        return f"cell {event.number} of {event.n_visits}{left}: {name}"
    record = event.record
    if record.state is VisitState.FAILED:
        return f"  failed: {first_clause(record.error or '')}"
    found, speedup = totals(record.runs), speedup_of(record.runs)
    gain = None if speedup is None else speedup.estimate
    noisy = ", noisy" if record.noisy else ""
    return (
        f"  {rate_text(found.on_tokens_per_s)} tokens/s, {times_text(gain)}, acceptance "
        f"{percent_text(found.acceptance_rate)}{noisy}"
    )


def first_clause(error: str) -> str:
    """The first clause of an error, without the server's last words and the remedy."""
    return error.partition("; ")[0]


def summary(result: SweepResult) -> str:
    """All tables, for a terminal."""
    parts = [_drawn(sheet) for sheet in sheets(result.summaries)]
    told = [wrapped(remark) for remark in all_remarks(result)]
    head = f"sweep {result.name}: {state_text(result)}"
    return "\n\n".join([wrapped(head), parts[0], *told, *parts[1:]])


def all_remarks(result: SweepResult) -> tuple[str, ...]:
    """All remarks on the tables and on the backend."""
    left_out = (f"Left out: {'; '.join(result.left_out)}.",) if result.left_out else ()
    told = (*remarks(result.summaries), *left_out)
    speculations = [one.cell.speculation for one in result.summaries]
    if result.backend["backend"] == "server" and any(map(remembers, speculations)):
        return (*told, f"Mind that {REMEMBERS}.")
    return told


def state_text(result: SweepResult) -> str:
    """Progress of the sweep as text."""
    cells = counted(len(result.summaries), "cell")
    left = f", {result.n_left} not measured yet" if result.n_left else ""
    return f"{cells}{_of_grid(result.grid)} on {counted(result.n_prompts, 'prompt')}{left}"


def _drawn(sheet: Sheet) -> str:
    kept = [index for index, _heading in enumerate(sheet.headings) if _is_used(sheet, index)]
    wide = _table(sheet, kept, is_narrow=False)
    return drawn(wide if fits(wide) else _table(sheet, kept, is_narrow=True))


def _table(sheet: Sheet, kept: Sequence[int], *, is_narrow: bool) -> Table:
    table = Table(
        box=None,
        header_style="bold",
        title=sheet.title,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        collapse_padding=is_narrow,
    )
    for index in kept:
        is_name = index < sheet.n_names
        table.add_column(
            sheet.headings[index],
            justify="left" if sheet.is_text(index) else "right",
            no_wrap=not is_name,
            # Numbers must not take all the room.
            min_width=_LEAST_NAME if is_name and is_narrow else None,
            overflow="fold",
        )
    for row in sheet.rows:
        table.add_row(*(row[index] for index in kept))
    return table


def _is_used(sheet: Sheet, index: int) -> bool:
    return any(row[index] for row in sheet.rows)
