"""The documents of ``sweep``.

``spectui.sweep/1`` has, beside what every document starts with, ``name``, ``grid``, ``backend``,
``target``, ``drafts``, the number of prompts, ``interrupted``, ``n_cells_left``, ``left_out`` (what
of the grid cannot be, a sentence each), ``notes`` (what of the command of ``--from`` is not
measured), and ``cells``: for each its ``name``, ``config``, ``state``, sums, ``speedup`` with its
interval, what that says ``against_off``, and ``runs``, a row per prompt and repeat. ``size_bytes``
of a model is that of its tensors, as wherever something is measured, and ``file_bytes`` that of its
files, by which a sweep is found again.
``best_per_drafter`` and ``best_per_category`` name cells by their index.
``flattening`` holds speedup by ``draft_max``, and from where on longer drafts add less than 2 %.

``spectui.sweep-plan/1`` (``--dry-run``) and ``spectui.sweep-grids/1`` (``--list``) say what would
run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spectui import __version__
from spectui.cli.documents.base import Json, or_reason
from spectui.cli.documents.common import NOTHING_DRAFTED, arm_document, header, speedup_of
from spectui.cli.documents.served import UNREAD
from spectui.measure.lossless import UNTOLD
from spectui.sweep.axes import Axes
from spectui.sweep.cells import Cell, Place, Task
from spectui.sweep.flattening import Flattening, flattenings
from spectui.sweep.grid_file import Grid
from spectui.sweep.record import PromptRun, VisitRecord, VisitState
from spectui.sweep.summary import (
    CategoryBest,
    CellSummary,
    Totals,
    against_off,
    best_per_category,
    best_per_drafter,
)

if TYPE_CHECKING:
    from spectui.cli.sweep_report import Plan, SweepResult

_NOTHING = "nothing was decoded"
_NO_ROUNDS = "no round was run, or the server does not tell"


def sweep_document(result: "SweepResult", *, interrupted: bool) -> Json:
    """``spectui.sweep/1``."""
    records: dict[Cell, list[VisitRecord]] = {}
    for record in result.records:
        records.setdefault(record.visit.cell, []).append(record)
    places = {one.cell: index for index, one in enumerate(result.summaries)}
    return {
        **header("sweep", result.machine),
        "name": result.name,
        "grid": {"name": result.grid.name or None, "source": result.grid.source or None},
        **result.backend,
        "target": _model(result.spec["target"], result.weights_bytes[None]),
        "drafts": {
            name: _model(spec, result.weights_bytes[name])
            for name, spec in result.spec["drafts"].items()
        },
        "n_prompts": result.n_prompts,
        "interrupted": interrupted,
        "n_cells_left": result.n_left,
        "left_out": list(result.left_out),
        "notes": list(result.notes),
        "cells": [_cell(one, records[one.cell]) for one in result.summaries],
        "best_per_drafter": [
            {"drafter": drafter, "cell": places[one.cell], "name": one.named.name}
            for drafter, one in best_per_drafter(result.summaries).items()
        ],
        "best_per_category": [
            {"cell": places[one.summary.cell], **_category(one)}
            for one in best_per_category(result.summaries)
        ],
        "flattening": [_flattening(one) for one in flattenings(result.summaries)],
    }


def _model(spec: Json, weights_bytes: int | None) -> Json:
    """A model of the sweep, which knows it by its files' size."""
    others = {key: value for key, value in spec.items() if key not in {"file", "size_bytes"}}
    return {
        "file": spec["file"],
        **or_reason("size_bytes", weights_bytes, UNREAD),
        "file_bytes": spec["size_bytes"],
        **others,
    }


def _cell(one: CellSummary, records: Sequence[VisitRecord]) -> Json:
    return {
        "name": one.named.name,
        "config": _config(one.cell),
        "state": "complete" if one.is_measured else "failed",
        "error": one.error,
        "n_repeats": one.n_repeats,
        "n_noisy": one.n_noisy,
        **_totals(one.totals),
        **_speedup(one),
        "against_off": str(against_off(one.speedup)),
        **_lossless(one),
        "runs": [
            _run(run, record)
            for record in records
            if record.state is VisitState.COMPLETE
            for run in record.runs
        ],
    }


def _config(cell: Cell) -> Json:
    return {
        "drafter": cell.arm.drafter,
        **arm_document(cell.arm),
        **_around(cell.place, cell.task),
        "rerun": cell.rerun,
    }


def _around(place: Place, task: Task) -> Json:
    return {
        **or_reason("threads", place.threads or None, "one per physical core"),
        "cache_type_k": place.cache_type_k,
        "cache_type_v": place.cache_type_v,
        **or_reason("prompt_length", task.prompt_length, "every prompt has its own"),
        "temp": task.temp,
        "n_predict": task.n_predict,
    }


def _totals(found: Totals) -> Json:
    return {
        **or_reason("off_tokens_per_s", found.off_tokens_per_s, _NOTHING),
        **or_reason("on_tokens_per_s", found.on_tokens_per_s, _NOTHING),
        "n_tokens": found.n_tokens,
        "n_drafted": found.n_drafted,
        "n_accepted": found.n_accepted,
        **or_reason("n_rounds", found.n_rounds, _NO_ROUNDS),
        **or_reason("acceptance_rate", found.acceptance_rate, NOTHING_DRAFTED),
        **or_reason("mean_accepted_length", found.mean_accepted_length, _NO_ROUNDS),
    }


def _speedup(one: CellSummary) -> Json:
    if one.speedup is not None:
        return speedup_of(one.speedup)
    reason = one.error or _NOTHING
    return {
        **or_reason("speedup", None, reason),
        **or_reason("speedup_ci95", None, reason),
    }


def _lossless(one: CellSummary) -> Json:
    if not one.is_checked:
        reason = "only complete runs of greedy output are compared"
        return {"lossless": None, "lossless_reason": reason, "divergence": None}
    found = one.divergence
    if found is None:
        return {"lossless": True, "divergence": None}
    return {
        **or_reason("lossless", found.explained, UNTOLD),
        "divergence": {
            "prompt": found.prompt_id,
            "position": found.position,
            "margin": found.margin,
            "noise": found.noise,
        },
    }


def _run(run: PromptRun, record: VisitRecord) -> Json:
    return {
        "repeat": record.visit.repeat + 1,
        "prompt": run.prompt_id,
        "category": run.category,
        "n_prompt_tokens": run.n_prompt_tokens,
        "off_n_tokens": run.off.n_tokens,
        "off_decode_s": run.off.decode_s,
        "on_n_tokens": run.on.n_tokens,
        "on_decode_s": run.on.decode_s,
        "n_drafted": run.on.n_drafted,
        "n_accepted": run.on.n_accepted,
        **or_reason("n_rounds", run.on.n_rounds, _NO_ROUNDS),
        "off_output_sha256": run.off.output_sha256,
        "output_sha256": run.on.output_sha256,
    }


def _category(best: CategoryBest) -> Json:
    return {
        "category": best.category,
        "name": best.summary.named.name,
        **speedup_of(best.speedup),
        **or_reason("acceptance_rate", best.totals.acceptance_rate, NOTHING_DRAFTED),
    }


def _flattening(one: Flattening) -> Json:
    return {
        "drafter": one.drafter,
        **_around(one.place, one.task),
        "category": one.category,
        "speedup_by_draft_max": {str(length): value for length, value in one.by_length.items()},
        "best": one.best,
        "flattens_at": one.flattens_at,
    }


def plan_document(plan: "Plan") -> Json:
    """``spectui.sweep-plan/1``."""
    names = {one.cell: one.name for one in plan.cells}
    return {
        **header("sweep-plan", plan.machine),
        "name": plan.name,
        "grid": {"name": plan.grid.name or None, "source": plan.grid.source or None},
        "n_cells": len(plan.cells),
        "left_out": list(plan.left_out),
        "n_prompts": plan.n_prompts,
        "n_measurements": len(plan.visits),
        "n_measurements_left": len(plan.left),
        "n_decodes_left": plan.n_decodes,
        **or_reason("left_s", plan.left_s, "nothing was measured yet"),
        "order": [
            {
                "name": names[visit.cell],
                "repeat": visit.repeat + 1,
                "config": _config(visit.cell),
            }
            for visit in plan.left
        ],
    }


def grids_document(grids: Sequence[Grid]) -> Json:
    """``spectui.sweep-grids/1``."""
    return {
        "schema": "spectui.sweep-grids/1",
        "spectui": __version__,
        "grids": [
            {
                "name": grid.name,
                "description": grid.description,
                "source": grid.source or None,
                "notes": list(grid.notes),
                "cells": [_axes(axes) for axes in grid.cells],
            }
            for grid in grids
        ],
    }


def _axes(axes: Axes) -> Json:
    values = {name: getattr(axes, name) for name in axes.__struct_fields__}
    return {
        name.replace("_", "-"): list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value not in ((), "")
    }
