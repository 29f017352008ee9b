"""Measures cells with spectui's own engine, or with the user's llama-servers."""

from abc import ABC, abstractmethod
from dataclasses import replace

from spectui.engine.commands import LoadTarget
from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import BadInputError, HopelessError, ServerError, UsageError
from spectui.measure.backend import Backend
from spectui.measure.comparison import nothing_decoded
from spectui.measure.lossless import check_lossless
from spectui.measure.measurer import Measurer, steady
from spectui.measure.server_backend import ServerBackend, measurer_of
from spectui.measure.servers import Fleet, look_at
from spectui.measure.workload import Workload, lengthened, tokenize
from spectui.monitor.watch import MachineWatch
from spectui.options.drafters import MTP_KIND
from spectui.options.setup import Setup
from spectui.server.client import LlamaClient
from spectui.speculative.models import unserved
from spectui.sweep.cells import Cell, Place, Task, Visit, VisitRecord, VisitState, runs_of
from spectui.sweep.grid import SweepSetup


class CellMeasurer(ABC):
    """Measures cells, one after the other; subclasses load the models."""

    def __init__(self, setup: SweepSetup) -> None:
        """Load nothing yet."""
        self._setup = setup
        self._workloads: dict[Task, Workload] = {}

    @abstractmethod
    def load(self, cell: Cell, off: Setup) -> tuple[Backend, int]:
        """Load what ``cell`` needs; ``off`` is the target alone in its place.

        Returns:
            What decodes, and the size of the context.

        Raises:
            SpectuiError: the cell cannot run.
        """

    @abstractmethod
    def tokenizer(self, off: Setup) -> Engine | LlamaClient:
        """Tokenizer of the prompts; ``off`` as in ``load``.

        Raises:
            SpectuiError: the target alone cannot run.
        """

    def measure(self, visit: Visit) -> VisitRecord:
        """Decode every prompt without speculation and with the cell's setting, under a watch.

        Both sides follow one another prompt by prompt, unless that loads models, in the order of
        ``Measurer.pairs``, which continues from repeat to repeat.

        Raises:
            CancelledError: it was stopped.
            HopelessError: no other cell can run either.
            SpectuiError: this cell cannot run.
        """
        cell = visit.cell
        measurer = self._ready(cell)
        with MachineWatch(rpc=self._setup.base.target.devices.rpc) as watch:
            watch.start()
            items = measurer.workload.items
            pairs = steady(list(measurer.pairs(items, cell.speculation, turn=visit.repeat)))
            disturbance = watch.summary()
        runs = runs_of(pairs)
        if not runs:
            raise nothing_decoded()
        return VisitRecord(
            visit=visit,
            state=VisitState.COMPLETE,
            runs=runs,
            disturbance=disturbance,
            lossless=None if cell.task.temp > 0 else check_lossless(measurer.engine, pairs),
        )

    def _ready(self, cell: Cell) -> Measurer:
        """Load what ``cell`` needs, and warm up."""
        place, base = cell.place, self._setup.base
        _check_room(base, cell)
        target = replace(
            base.target, cache_type_k=place.cache_type_k, cache_type_v=place.cache_type_v
        )
        context = replace(base.context, threads=place.threads)
        off = replace(base, target=target, context=context, n_slots=place.n_slots)
        backend, n_ctx = self.load(cell, off)
        measurer = measurer_of(backend, self._workload(cell.task, n_ctx, off))
        if measurer.n_beside_off != 0:
            measurer.warm_up(None)
            measurer.warm_up(cell.speculation)
        return measurer

    def _workload(self, task: Task, n_ctx: int, off: Setup) -> Workload:
        if task not in self._workloads:
            own = tokenize(
                self.tokenizer(off),
                self._setup.prompts,
                n_predict=task.n_predict,
                sampling=replace(self._setup.sampling, temp=task.temp),
                n_ctx=n_ctx,
                say=self._setup.say,
            )
            self._workloads[task] = lengthened(own, task.prompt_length, n_ctx=n_ctx)
        return self._workloads[task]


class EngineMeasurer(CellMeasurer):
    """Holds the models of the last cell, and loads only those that differ in the next one."""

    def __init__(self, engine: Engine, setup: SweepSetup, *, longest: int) -> None:
        """Load nothing yet; ``longest`` is the longest draft of all cells."""
        super().__init__(setup)
        self._engine = engine
        self._longest = longest
        self._has_mtp_files = any(look_at(one).reader == MTP_KIND for one in setup.drafts.values())
        self._target: ModelLoaded | None = None
        self._place: tuple[Place, bool] | None = None
        """Where the target is loaded, and whether with its MTP layers."""
        self._draft: tuple[str, ModelLoaded] | None = None
        """Name of the draft, and how it was loaded."""

    def load(self, cell: Cell, off: Setup) -> tuple[Backend, int]:
        """Load target and draft if other ones are loaded."""
        target, draft = self._load_target(cell, off), self._draft
        if cell.own_mtp and draft is not None and draft[1].mtp_layers:
            # MTP layers of a file would draft in place of the target's own.
            self._draft = None
            self._engine.unload_draft()
        elif not cell.own_mtp and cell.arm.draft is not None:
            self._load_draft(cell.arm.draft, target, mtp=cell.mtp)
        return self._engine, target.n_ctx

    def tokenizer(self, _off: Setup) -> Engine:
        """The engine, with the loaded target."""
        return self._engine

    def _load_target(self, cell: Cell, off: Setup) -> ModelLoaded:
        # A target that is loaded with its MTP layers runs all other cells as well.
        place = (cell.place, cell.own_mtp or self._place == (cell.place, True))
        if self._target is not None and self._place == place:
            return self._target
        # A load begins by freeing both models, whatever comes of it.
        self._target = self._place = self._draft = None
        context, (_, mtp) = off.context, place
        command = LoadTarget(
            options=off.target,
            context=context,
            max_draft=min(self._longest, context.ctx_size - 1, context.batch_size - 1),
            mtp=mtp,
            mtp_file=self._has_mtp_files,
        )
        self._target = self._engine.load_target(command)
        self._place = place
        return self._target

    def _load_draft(self, name: str, target: ModelLoaded, *, mtp: bool) -> None:
        if self._draft is not None and name == self._draft[0]:
            return
        self._draft = None
        loaded = self._engine.load_draft(self._setup.drafts[name], mtp=mtp)
        reason = unserved(target.rollback, loaded.rollback)
        if reason is not None:
            self._engine.unload_draft()
            raise BadInputError(f"{name} cannot draft here: {reason}; choose another draft")
        self._draft = name, loaded


class ServedMeasurer(CellMeasurer):
    """Starts a server per setting, and ends those that have to make room for it."""

    def __init__(self, servers: Fleet, setup: SweepSetup) -> None:
        """Start nothing yet."""
        super().__init__(setup)
        self._servers = servers
        self._redoes_rounds = look_at(setup.base.target).redoes_rounds
        self._has_served = False

    def load(self, cell: Cell, off: Setup) -> tuple[Backend, int]:
        """Name the draft; servers start on first use."""
        drafts = self._setup.drafts
        backend = ServerBackend(self._servers, off, drafts, redoes_rounds=self._redoes_rounds)
        backend.load(cell.arm.draft)
        return backend, off.context.ctx_size

    def tokenizer(self, off: Setup) -> LlamaClient:
        """The server of the target alone."""
        try:
            server = self._servers.of(off)
        except ServerError as error:
            if self._has_served or isinstance(error, HopelessError):
                raise
            # Without the target alone there is nothing to compare with.
            raise HopelessError(str(error)) from error
        self._has_served = True
        return server


def _check_room(base: Setup, cell: Cell) -> None:
    """Refuse drafts that are too long to be verified."""
    longest = cell.speculation.longest
    sizes = {"-c": base.context.ctx_size, "-b": base.context.batch_size}
    for flag, size in sizes.items():
        if longest >= size:
            raise UsageError(
                f"drafts of {longest} are verified in decodes of {longest + 1} tokens, which "
                f"{flag} {size} does not hold; raise it"
            )
