"""Runs a grid, cell by cell, and stores every result as it comes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from spectui.documents import Json, or_reason
from spectui.errors import CancelledError, HopelessError, SpectuiError, UsageError
from spectui.measure.servers import UNREAD, look_at
from spectui.models.gguf import weights_bytes
from spectui.options.drafters import MODEL_KIND, MTP_KIND
from spectui.options.setup import ModelOptions
from spectui.sweep.cells import Visit, VisitRecord, VisitState
from spectui.sweep.grid import SweepSetup, backend_identity, expand, ordered, sweep_name, sweep_spec
from spectui.sweep.measuring import CellMeasurer
from spectui.sweep.store import SweepStore
from spectui.sweep.summary import UNWATCHED, CellSummary, disturbance_of, summarise


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
        self.cells, self.left_out = expand(setup.axes, kinds, setup.place, setup.task)
        """The cells, and sentences on combinations that cannot run here."""
        if not self.cells:
            why = f" ({'; '.join(self.left_out)})" if self.left_out else ""
            raise UsageError(f"no cell has a setting that can draft{why}; give other axes")
        self.spec = sweep_spec(setup, backend_identity(setup))
        self.name = setup.name or sweep_name(setup.base.target.path, self.spec)
        self.visits = ordered(self.cells, setup.repeats, setup.sampling.seed)
        self.pending = self.visits
        """Visits that are left to be measured, in their order."""
        self._clock = clock
        self._store: SweepStore | None = None

    @property
    def longest(self) -> int:
        """Longest draft of all cells."""
        return max(cell.speculation.longest for cell in self.cells)

    @property
    def records(self) -> tuple[VisitRecord, ...]:
        """The last record of every visit that has ended, of other grids as well."""
        return () if self._store is None else self._store.records

    def summaries(self) -> tuple[CellSummary, ...]:
        """Results of the cells that have any, in their order."""
        return summarise(self.cells, self.records)

    @contextmanager
    def open(self, *, restart: bool = False) -> Iterator[None]:
        """Open the stored sweep, or create it; ``pending`` is then what is not measured yet.

        Cells that failed before are measured again.

        Args:
            restart: begin anew; what there is stays under another name.

        Raises:
            BadInputError: it cannot be stored, or does not compare with what is stored.
        """
        with SweepStore(self.name, self.spec, restart=restart, say=self.setup.say) as store:
            self._store = store
            done = {one.visit for one in store.records if one.state is VisitState.COMPLETE}
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

    def document(
        self, summaries: Sequence[CellSummary], notes: Sequence[str], *, interrupted: bool
    ) -> Json:
        """``spectui.sweep/1`` but for its header.

        Args:
            summaries: ``summaries()``. ``cells`` has for each its ``name``, ``config``, ``state``,
                sums, ``speedup`` with its interval, and ``runs``, a row per prompt and
                repeat.
            notes: on parts of the command of ``--from`` that are not measured.
            interrupted: whether it was stopped.
        """
        setup = self.setup
        seen = disturbance_of(summaries)
        return {
            "name": self.name,
            **setup.backend_document(),
            "target": _model_document(self.spec["target"], setup.base.target),
            "drafts": {
                name: _model_document(self.spec["drafts"][name], options)
                for name, options in setup.drafts.items()
            },
            "n_prompts": len(setup.prompts),
            "interrupted": interrupted,
            "n_cells_left": len(self.cells) - len(summaries),
            "left_out": list(self.left_out),
            "notes": list(notes),
            **or_reason("disturbance", seen and seen.document(), UNWATCHED),
            "cells": [one.document() for one in summaries],
        }

    def run(
        self,
        measurer: CellMeasurer,
        *,
        on_begun: Callable[[Visit], None],
        on_ended: Callable[[VisitRecord], None],
    ) -> None:
        """Measure all that is pending; the sweep is open.

        Args:
            measurer: decodes.
            on_begun: called with a visit before it begins.
            on_ended: called with its record.

        Raises:
            HopelessError: nothing can be measured.
            KeyboardInterrupt: it was stopped, and so with ``CancelledError``.
            SpectuiError: a bug, or a store that cannot be written; what was measured is kept.
        """
        if (store := self._store) is None:
            raise RuntimeError("the sweep is not open")
        while self.pending:
            visit = self.pending[0]
            on_begun(visit)
            began_s = self._clock()
            record = replace(_ended(visit, measurer), wall_s=self._clock() - began_s)
            store.append(record)
            self.pending = self.pending[1:]
            on_ended(record)


def _ended(visit: Visit, measurer: CellMeasurer) -> VisitRecord:
    """The visit measured, or failed for a reason of its cell's own."""
    try:
        return measurer.measure(visit)
    except (CancelledError, HopelessError):
        raise
    except SpectuiError as error:
        if getattr(error, "__notes__", None):
            # A bug: the engine attaches a traceback to those.
            raise
        return VisitRecord(visit=visit, state=VisitState.FAILED, error=str(error))


def _model_document(spec: Json, options: ModelOptions) -> Json:
    """A model in documents: its files' size, by which a sweep is found again, and its tensors'."""
    others = {key: value for key, value in spec.items() if key not in {"file", "size_bytes"}}
    return {
        "file": spec["file"],
        **or_reason("size_bytes", weights_bytes(options.path), UNREAD),
        "file_bytes": spec["size_bytes"],
        **others,
    }
