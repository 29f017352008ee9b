"""Runs a grid, cell by cell, and stores every result as it comes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from spectui.documents import Json, or_reason
from spectui.errors import (
    CancelledError,
    HopelessError,
    ServerError,
    SpectuiError,
    UsageError,
)
from spectui.measure.comparable import found_again
from spectui.measure.measurer import NOTHING_DRAFTED
from spectui.measure.served_models import UNREAD, look_at
from spectui.measure.workload import left_out_note
from spectui.models.gguf import weights_bytes
from spectui.options.drafters import MODEL_KIND, MTP_KIND
from spectui.options.setup import ModelOptions
from spectui.sweep.cells import VisitRecord, VisitState
from spectui.sweep.expand import expand, ordered
from spectui.sweep.measuring import CellMeasurer
from spectui.sweep.setup import SweepSetup, backend_identity, sweep_name, sweep_spec
from spectui.sweep.store import SweepStore, sweep_folder
from spectui.sweep.summary import (
    UNWATCHED,
    CellSummary,
    best_per_category,
    best_per_drafter,
    disturbance_of,
    summarise,
)

_RUNS_PER_PROMPT = 2
"""Runs without and with speculation."""


class Sweep:
    """The cells of a grid, in the order of measuring; ``records`` has the results."""

    def __init__(self, setup: SweepSetup, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Find the cells; nothing is loaded or opened.

        Raises:
            UsageError: nothing would draft.
        """
        kinds = {name: look_at(one).reader or MODEL_KIND for name, one in setup.drafts.items()}
        if setup.binary is None:
            # The engine refuses the others when it loads them, with the reason.
            kinds = {name: kind if kind == MTP_KIND else MODEL_KIND for name, kind in kinds.items()}
        self.setup = setup
        self.cells, left_out = expand(setup.grid.cells, kinds, setup.default)
        """Names of the cells, in the grid's order."""
        if all(cell.arm.is_off for cell in self.cells):
            why = f" ({'; '.join(left_out)})" if left_out else ""
            raise UsageError(f"nobody would draft in any cell{why}; give other axes")
        self.left_out = left_out
        """Sentences on parts of the grid that cannot run here."""
        self.spec = sweep_spec(setup, backend_identity(setup))
        if setup.name is None:
            named = partial(sweep_name, setup.base.target.path)
            self.spec, self.name = found_again(self.spec, named, _is_stored)
        else:
            self.name = setup.name
        self.visits = ordered(self.cells, setup.repeats, setup.sampling.seed)
        self.pending = self.visits
        """Visits that are left to be measured, in their order."""
        self._clock = clock
        self._store: SweepStore | None = None

    @property
    def is_stored(self) -> bool:
        """Whether a sweep is stored under its name."""
        return _is_stored(self.name)

    @property
    def longest(self) -> int:
        """Longest draft of all cells."""
        speculations = [cell.speculation for cell in self.cells]
        return max((one.longest for one in speculations if one is not None), default=1)

    @property
    def records(self) -> tuple[VisitRecord, ...]:
        """The last record of every visit that has ended, of other grids as well."""
        return () if self._store is None else self._store.records

    def summaries(self) -> tuple[CellSummary, ...]:
        """Results of the cells that have any, in their order."""
        return summarise(self.cells, self.records)

    @property
    def prompts_note(self) -> str | None:
        """Prompts that no cell was measured on, the same text as others; None without any."""
        measured = {one for record in self.records for one in record.ended_at_once}
        measured |= {run.measurement.prompt_id for one in self.records for run in one.runs}
        repeated = [one.id for one in self.setup.prompts if one.id not in measured]
        return left_out_note(repeated) if measured else None

    @property
    def n_decodes(self) -> int:
        """Number of decodes that are left."""
        return len(self.pending) * len(self.setup.prompts) * _RUNS_PER_PROMPT

    @contextmanager
    def open(
        self, *, restart: bool = False, say: Callable[[str], None] = lambda _text: None
    ) -> Iterator[None]:
        """Open the stored sweep, or create it; ``pending`` is what that leaves.

        Args:
            restart: begin anew; what there is stays under another name.
            say: told of what was passed over.

        Raises:
            BadInputError: it cannot be stored, or does not compare with what is stored.
        """
        with SweepStore(self.name, self.spec, restart=restart, say=say) as store:
            self._store = store
            again = VisitState.FAILED if self.setup.retry_failed else None
            done = {one.visit for one in store.records if one.state is not again}
            self.pending = tuple(visit for visit in self.visits if visit not in done)
            yield

    def left_s(self) -> float | None:
        """Estimated seconds for what is pending; None before the first measurement."""
        if not self.pending:
            return 0.0
        measured = [one for one in self.records if one.state is VisitState.COMPLETE]
        if not measured:
            return None
        n_tokens = sum(one.visit.cell.task.n_predict for one in measured)
        token_s = sum(one.wall_s for one in measured) / n_tokens
        return token_s * sum(visit.cell.task.n_predict for visit in self.pending)

    def plan_document(self) -> Json:
        """``spectui.sweep-plan/1`` but for its header."""
        return {
            "name": self.name,
            "grid": self.setup.grid.brief,
            "n_cells": len(self.cells),
            "left_out": list(self.left_out),
            "n_prompts": len(self.setup.prompts),
            "n_measurements": len(self.visits),
            "n_measurements_left": len(self.pending),
            "n_decodes_left": self.n_decodes,
            **or_reason("left_s", self.left_s(), "nothing was measured yet"),
            "order": [
                {
                    "name": self.cells[visit.cell],
                    "repeat": visit.repeat + 1,
                    "config": visit.cell.document(),
                }
                for visit in self.pending
            ],
        }

    def document(
        self, summaries: Sequence[CellSummary], notes: Sequence[str], *, interrupted: bool
    ) -> Json:
        """``spectui.sweep/1`` but for its header.

        Args:
            summaries: ``summaries()``. ``cells`` has for each its ``name``, ``config``, ``state``,
                sums, ``speedup`` with its interval, and ``runs``, a row per prompt and
                repeat. ``best_per_drafter`` and ``best_per_category`` name cells by their index.
            notes: what of the command of ``--from`` is not measured.
            interrupted: whether it was stopped.
        """
        setup = self.setup
        seen = disturbance_of(summaries)
        return {
            "name": self.name,
            "grid": self.setup.grid.brief,
            **setup.backend_document(),
            "target": _model(self.spec["target"], setup.base.target),
            "drafts": {
                name: _model(self.spec["drafts"][name], options)
                for name, options in setup.drafts.items()
            },
            "n_prompts": len(setup.prompts),
            "interrupted": interrupted,
            "n_cells_left": len(self.cells) - len(summaries),
            "left_out": list(self.left_out),
            "notes": [*notes, *filter(None, [self.prompts_note])],
            **or_reason("disturbance", seen and seen.document(), UNWATCHED),
            "cells": [one.document() for one in summaries],
            **_best_document(summaries),
        }

    def run(self, measurer: CellMeasurer, on_event: Callable[[VisitRecord], None]) -> None:
        """Measure all that is pending; the sweep is open.

        Args:
            measurer: decodes.
            on_event: told that a visit has started, and how it has ended.

        Raises:
            HopelessError: nothing can be measured.
            KeyboardInterrupt: it was stopped, and so with ``CancelledError``.
            SpectuiError: a bug, or a store that cannot be written; what was measured is kept.
        """
        if (store := self._store) is None:
            raise RuntimeError("the sweep is not open")
        while self.pending:
            started = VisitRecord(visit=self.pending[0], state=VisitState.STARTED)
            try:
                on_event(started)
                store.append(started)
                began_s = self._clock()
                record = replace(_ended(started, measurer), wall_s=self._clock() - began_s)
                store.append(record)
                self.pending = self.pending[1:]
                on_event(record)
            except (KeyboardInterrupt, CancelledError, HopelessError):
                # Wherever it was stopped, also as its beginning was written down: it is tried
                # again.
                store.append(replace(started, state=VisitState.INTERRUPTED))
                raise


def _ended(started: VisitRecord, measurer: CellMeasurer) -> VisitRecord:
    """The visit measured, or failed for a reason of its cell's own."""
    try:
        return measurer.measure(started.visit)
    except (CancelledError, HopelessError):
        raise
    except SpectuiError as error:
        if getattr(error, "__notes__", None):
            # A bug: the engine attaches a traceback to those.
            raise
        is_server = isinstance(error, ServerError)
        return replace(started, state=VisitState.FAILED, error=str(error), of_server=is_server)


def _best_document(summaries: Sequence[CellSummary]) -> Json:
    index = {one.cell: number for number, one in enumerate(summaries)}
    return {
        "best_per_drafter": [
            {"drafter": drafter, "cell": index[one.cell], "name": one.name}
            for drafter, one in best_per_drafter(summaries).items()
        ],
        "best_per_category": [
            {
                "cell": index[one.cell],
                "category": category,
                "name": one.name,
                **one.speedup_document(),
                **or_reason("acceptance_rate", one.totals.acceptance_rate, NOTHING_DRAFTED),
            }
            for category, one in best_per_category(summaries).items()
        ],
    }


def _is_stored(name: str) -> bool:
    return (sweep_folder(name) / "cells.jsonl").exists()


def _model(spec: Json, options: ModelOptions) -> Json:
    """A model in documents: its files' size, by which a sweep is found again, and its tensors'."""
    others = {key: value for key, value in spec.items() if key not in {"file", "size_bytes"}}
    return {
        "file": spec["file"],
        **or_reason("size_bytes", weights_bytes(options.path), UNREAD),
        "file_bytes": spec["size_bytes"],
        **others,
    }
