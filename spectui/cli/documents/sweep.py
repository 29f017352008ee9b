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

from spectui import __version__
from spectui.cli.documents.base import Json, or_reason
from spectui.cli.documents.common import NOTHING_DRAFTED, arm_document, header, speedup_of
from spectui.cli.documents.served import ENGINE, UNREAD, version_fields
from spectui.measure.lossless import UNTOLD
from spectui.models.gguf import weights_bytes
from spectui.options.setup import ModelOptions
from spectui.sweep.axes import Axes
from spectui.sweep.cells import Cell
from spectui.sweep.grid import Grid
from spectui.sweep.record import PromptRun
from spectui.sweep.setup import SweepSetup
from spectui.sweep.summary import (
    CellSummary,
    Flattening,
    against_off,
    best_per_category,
    best_per_drafter,
    flattenings,
)
from spectui.sweep.sweep import Sweep

_NOTHING = "nothing was decoded"
_NO_ROUNDS = "no round was run, or the server does not tell"


def sweep_document(
    sweep: Sweep, summaries: Sequence[CellSummary], notes: Sequence[str], *, interrupted: bool
) -> Json:
    """``spectui.sweep/1``."""
    setup, spec = sweep.setup, sweep.spec
    places = {one.cell: index for index, one in enumerate(summaries)}
    return {
        **header("sweep", setup.machine),
        "name": sweep.name,
        "grid": _named(setup.grid),
        **_backend(setup),
        "target": _model(spec["target"], setup.base.target),
        "drafts": {
            name: _model(spec["drafts"][name], options) for name, options in setup.drafts.items()
        },
        "n_prompts": len(setup.prompts),
        "interrupted": interrupted,
        "n_cells_left": len(sweep.cells) - len(summaries),
        "left_out": list(sweep.left_out),
        "notes": list(notes),
        "cells": [_cell(one) for one in summaries],
        "best_per_drafter": [
            {"drafter": drafter, "cell": places[one.cell], "name": one.name}
            for drafter, one in best_per_drafter(summaries).items()
        ],
        "best_per_category": [
            {"cell": places[one.cell], **_category(category, one)}
            for category, one in best_per_category(summaries).items()
        ],
        "flattening": [_flattening(one) for one in flattenings(summaries)],
    }


def _named(grid: Grid) -> Json:
    return {"name": grid.name or None, "source": grid.source or None}


def _backend(setup: SweepSetup) -> Json:
    if setup.binary is None:
        return ENGINE
    return {
        "backend": "server",
        "server": {
            "path": setup.binary.path,
            **version_fields(setup.binary.version),
            "dialect": str(setup.binary.dialect),
        },
    }


def _model(spec: Json, options: ModelOptions) -> Json:
    """A model of the sweep, which knows it by its files' size."""
    others = {key: value for key, value in spec.items() if key not in {"file", "size_bytes"}}
    return {
        "file": spec["file"],
        **or_reason("size_bytes", weights_bytes(options.path), UNREAD),
        "file_bytes": spec["size_bytes"],
        **others,
    }


def _cell(one: CellSummary) -> Json:
    return {
        "name": one.name,
        "config": _config(one.cell),
        "state": "complete" if one.is_measured else "failed",
        "error": one.error,
        "n_repeats": one.n_repeats,
        "n_noisy": one.n_noisy,
        **_totals(one),
        **_speedup(one),
        "against_off": str(against_off(one.speedup)),
        **_lossless(one),
        "runs": [_run(run, record.visit.repeat) for record in one.complete for run in record.runs],
    }


def _config(cell: Cell) -> Json:
    return {
        "drafter": cell.arm.drafter,
        **arm_document(cell.arm),
        **_around(cell),
        "rerun": cell.rerun,
    }


def _around(cell: Cell) -> Json:
    place, task = cell.place, cell.task
    return {
        **or_reason("threads", place.threads or None, "one per physical core"),
        "cache_type_k": place.cache_type_k,
        "cache_type_v": place.cache_type_v,
        **or_reason("prompt_length", task.prompt_length, "every prompt has its own"),
        "temp": task.temp,
        "n_predict": task.n_predict,
    }


def _totals(found: CellSummary) -> Json:
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


def _run(run: PromptRun, repeat: int) -> Json:
    return {
        "repeat": repeat + 1,
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


def _category(category: str, best: CellSummary) -> Json:
    return {
        "category": category,
        "name": best.name,
        **_speedup(best),
        **or_reason("acceptance_rate", best.acceptance_rate, NOTHING_DRAFTED),
    }


def _flattening(one: Flattening) -> Json:
    return {
        "drafter": one.drafter,
        **_around(one.around),
        "category": one.category,
        "speedup_by_draft_max": {str(length): value for length, value in one.by_length.items()},
        "best": one.best,
        "flattens_at": one.flattens_at,
    }


def plan_document(sweep: Sweep) -> Json:
    """``spectui.sweep-plan/1``."""
    return {
        **header("sweep-plan", sweep.setup.machine),
        "name": sweep.name,
        "grid": _named(sweep.setup.grid),
        "n_cells": len(sweep.cells),
        "left_out": list(sweep.left_out),
        "n_prompts": len(sweep.setup.prompts),
        "n_measurements": len(sweep.visits),
        "n_measurements_left": len(sweep.pending),
        "n_decodes_left": sweep.n_decodes,
        **or_reason("left_s", sweep.left_s(), "nothing was measured yet"),
        "order": [
            {
                "name": sweep.cells[visit.cell],
                "repeat": visit.repeat + 1,
                "config": _config(visit.cell),
            }
            for visit in sweep.pending
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
