"""Decodes cells with the engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from spectui.engine.driver import Engine
from spectui.engine.events import ModelLoaded
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError, UsageError
from spectui.measure.measurer import Pair
from spectui.measure.workload import Workload, tokenize, with_length
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Schedule
from spectui.prompts import Prompt
from spectui.speculative.mtp import effective_schedule
from spectui.speculative.rollback import unserved
from spectui.sweep.cells import Cell, Place, Task
from spectui.sweep.measuring import Measuring, Prepared


class InProcess(Measuring):
    """Holds the models of the last cell, and loads only those that differ in the next one."""

    def __init__(
        self,
        engine: Engine,
        *,
        target: ModelOptions,
        drafts: Mapping[str, ModelOptions],
        context: ContextOptions,
        sampling: SamplingConfig,
        schedule: Schedule,
        prompts: Sequence[Prompt],
        longest: int,
        on_pair: Callable[[Pair], None] = lambda _pair: None,
    ) -> None:
        """Load nothing yet.

        Args:
            engine: nothing is loaded.
            target: its file and placement; cells say the types of its cache.
            drafts: drafts by their names in cells.
            context: cells say the threads.
            sampling: cells say the temperature.
            schedule: work per round.
            prompts: prompts of every cell.
            longest: draft of all cells.
            on_pair: told of every prompt.
        """
        super().__init__(on_pair)
        self._engine = engine
        self._target = target
        self._drafts = drafts
        self._context = context
        self._sampling = sampling
        self._schedule = schedule
        self._prompts = prompts
        self._longest = longest
        self._loaded: ModelLoaded | None = None
        self._place: tuple[Place, bool] | None = None
        self._draft: str | None = None
        self._refused: dict[str, SpectuiError] = {}
        self._unloadable: dict[tuple[Place, bool], SpectuiError] = {}
        self._workloads: dict[Task, Workload] = {}

    def prepare(self, cell: Cell) -> Prepared:
        """Load target and draft if other ones are loaded."""
        check_room(self._context, cell)
        target = self._load_target(cell)
        self._load_draft(cell, target)
        return Prepared(
            cell=cell,
            decoding=self._engine,
            workload=self._workload(cell.task, target),
            schedule=effective_schedule(self._schedule, target.mtp_layers if cell.mtp else 0),
        )

    def _load_target(self, cell: Cell) -> ModelLoaded:
        # What has MTP layers loaded beside it runs all other cells as well.
        mtp = cell.mtp or (self._place == (cell.place, True))
        if self._loaded is not None and self._place == (cell.place, mtp):
            return self._loaded
        place = cell.place
        if (place, mtp) in self._unloadable:
            raise self._unloadable[place, mtp]
        # A load begins by freeing both models, whatever comes of it.
        self._loaded = self._place = self._draft = None
        options = replace(
            self._target, cache_type_k=place.cache_type_k, cache_type_v=place.cache_type_v
        )
        context = replace(self._context, threads=place.threads)
        longest = min(self._longest, context.ctx_size - 1, context.batch_size - 1)
        try:
            loaded = self._engine.load_target(options, context, max_draft=longest, mtp=mtp)
        except (BadInputError, DoesNotFitError, UsageError) as error:
            # It will be no other for the next cell.
            self._unloadable[place, mtp] = error
            raise
        self._loaded, self._place = loaded, (place, mtp)
        return loaded

    def _load_draft(self, cell: Cell, target: ModelLoaded) -> None:
        name = cell.arm.draft
        if name is None or cell.mtp or name == self._draft:
            return
        if name in self._refused:
            raise self._refused[name]
        self._draft = None
        try:
            loaded = self._engine.load_draft(self._drafts[name])
            _check_served(name, target, loaded)
        except BadInputError as error:
            # It is the file's fault, and so that of all cells that it drafts in.
            self._refused[name] = error
            self._engine.unload_draft()
            raise
        self._draft = name

    def _workload(self, task: Task, target: ModelLoaded) -> Workload:
        if task not in self._workloads:
            self._workloads[task] = self._tokenized(task, target)
        return self._workloads[task]

    def _tokenized(self, task: Task, target: ModelLoaded) -> Workload:
        check_length(task, target.n_ctx)
        length = task.prompt_length
        workload = tokenize(
            self._engine,
            self._prompts,
            n_predict=task.n_predict,
            sampling=replace(self._sampling, temp=task.temp),
            n_ctx=target.n_ctx,
        )
        return workload if length is None else with_length(workload, length)


def check_room(context: ContextOptions, cell: Cell) -> None:
    """Refuse drafts that are too long to be verified.

    Raises:
        UsageError: a decode cannot hold them.
    """
    longest = 0 if cell.speculation is None else cell.speculation.longest
    sizes = {"-c": context.ctx_size, "-b": context.batch_size}
    for flag, size in sizes.items():
        if longest >= size:
            raise UsageError(
                f"drafts of {longest} are verified in decodes of {longest + 1} tokens, which "
                f"{flag} {size} does not hold; raise it"
            )


def check_length(task: Task, n_ctx: int) -> None:
    """Refuse prompts that are longer than the context.

    Raises:
        UsageError: they are, with what is generated after them.
    """
    length, n_predict = task.prompt_length, task.n_predict
    if length is not None and length + n_predict + 1 > n_ctx:
        raise UsageError(
            f"prompts of {length} and {n_predict} tokens to predict do not fit in a context of "
            f"{n_ctx}; raise -c"
        )


def _check_served(name: str, target: ModelLoaded, draft: ModelLoaded) -> None:
    reason = unserved(target.rollback, draft.rollback)
    if reason is not None:
        raise BadInputError(f"{name} cannot draft here: {reason}; choose another draft")
