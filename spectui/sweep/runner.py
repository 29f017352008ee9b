"""Runs the visits of a sweep one after the other, and stores their results."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spectui.errors import (
    BadInputError,
    CancelledError,
    DoesNotFitError,
    HopelessError,
    ServerError,
    SpectuiError,
    UsageError,
)
from spectui.measure.arm import OFF
from spectui.measure.statistics import MAX_DRIFT, drift
from spectui.sweep.backend import Backend
from spectui.sweep.order import Visit
from spectui.sweep.pace import Pace
from spectui.sweep.record import VisitRecord, VisitState
from spectui.sweep.store import SweepStore


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitStarted:
    """A cell is about to be measured."""

    number: int
    """Number of the visit, from 1, including those of earlier runs."""
    n_visits: int
    visit: Visit
    left_s: float | None
    """Estimated seconds for all that is left; None before the first measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitEnded:
    """A cell was measured, or failed."""

    number: int
    n_visits: int
    record: VisitRecord
    left_s: float | None


SweepEvent = VisitStarted | VisitEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEnd:
    """The way a run ended."""

    interrupted: bool = False
    error: SpectuiError | None = None
    """A bug, or a store that cannot be written; the measurements are kept in either case."""


class Runner:
    """Measures the visits that are left."""

    def __init__(
        self,
        backend: Backend,
        store: SweepStore,
        visits: Sequence[Visit],
        *,
        pace: Pace,
        on_event: Callable[[SweepEvent], None],
        retry_failed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is measured yet.

        Args:
            backend: decodes.
            store: has what earlier runs measured, and takes what this one does.
            visits: visits in the order of measuring.
            pace: knows how long things take.
            on_event: told of every visit.
            retry_failed: whether what has failed before is tried again.
            clock: seconds.
        """
        self._backend = backend
        self._store = store
        self._visits = visits
        self._pace = pace
        self._on_event = on_event
        self._clock = clock
        self.pending = pending(store, visits, retry_failed=retry_failed)

    def estimate_s(self) -> float | None:
        """Estimated seconds for the sweep; without measurements, from the target's speed alone.

        Raises:
            HopelessError: nothing can be measured.
            KeyboardInterrupt: it was stopped.
        """
        left_s = self._pace.left_s(self.pending)
        if left_s is not None:
            return left_s
        first = self.pending[0].cell
        try:
            self._backend.take(replace(first, arm=OFF, rerun=0))
            anchor = self._backend.anchor()
        except HopelessError:
            raise
        except (BadInputError, DoesNotFitError, ServerError, UsageError):
            # What cannot run is told of the cell.
            return None
        if anchor is not None:
            self._pace.assume(anchor)
        return self._pace.left_s(self.pending)

    def run(self) -> SweepEnd:
        """Measure all that is pending."""
        left = list(self.pending)
        try:
            while left:
                self._visit(left.pop(0), left)
        except (KeyboardInterrupt, CancelledError):
            return SweepEnd(interrupted=True)
        except SpectuiError as error:
            return SweepEnd(error=error)
        return SweepEnd()

    def _visit(self, visit: Visit, left: Sequence[Visit]) -> None:
        try:
            self._attempt(visit, left)
        except (KeyboardInterrupt, CancelledError, HopelessError):
            # Wherever it was stopped, also as its beginning was written down: it is tried again.
            self._store.append(VisitRecord(visit=visit, state=VisitState.INTERRUPTED))
            raise

    def _attempt(self, visit: Visit, left: Sequence[Visit]) -> None:
        number, n_visits = len(self._visits) - len(left), len(self._visits)
        left_s = self._pace.left_s((visit, *left))
        self._on_event(VisitStarted(number=number, n_visits=n_visits, visit=visit, left_s=left_s))
        self._store.append(VisitRecord(visit=visit, state=VisitState.STARTED))
        began_s = self._clock()
        try:
            record = self._measure(visit, began_s)
        except CancelledError:
            raise
        except SpectuiError as error:
            if _is_defect(error) or isinstance(error, HopelessError):
                raise
            record = VisitRecord(
                visit=visit,
                state=VisitState.FAILED,
                error=str(error),
                of_server=isinstance(error, ServerError),
                wall_s=self._clock() - began_s,
            )
        self._store.append(record)
        self._pace.learn(record)
        self._on_event(
            VisitEnded(
                number=number, n_visits=n_visits, record=record, left_s=self._pace.left_s(left)
            )
        )

    def _measure(self, visit: Visit, began_s: float) -> VisitRecord:
        self._backend.take(visit.cell)
        before = self._backend.anchor()
        runs = tuple(self._backend.runs(visit.repeat))
        after = self._backend.anchor()
        if not any(run.measurement for run in runs):
            raise BadInputError(
                "the model ended every answer at once, so there is no decoding to measure; use "
                "other prompts or --ignore-eos"
            )
        anchors = None if before is None or after is None else (before, after)
        return VisitRecord(
            visit=visit,
            state=VisitState.COMPLETE,
            runs=runs,
            anchors_tokens_per_s=anchors,
            noisy=anchors is not None and drift(anchors) > MAX_DRIFT,
            lossless=self._backend.check_lossless(),
            wall_s=self._clock() - began_s,
        )


def pending(store: SweepStore, visits: Sequence[Visit], *, retry_failed: bool) -> tuple[Visit, ...]:
    """Return the visits that are left to be measured, in their order."""
    wanted = []
    for visit in visits:
        record = store.record_of(visit)
        is_failed = record is not None and record.state is VisitState.FAILED
        if record is None or (retry_failed and is_failed):
            wanted.append(visit)
    return tuple(wanted)


def _is_defect(error: SpectuiError) -> bool:
    """Whether the error is a bug: the engine attaches a traceback to those."""
    return bool(getattr(error, "__notes__", None))
