"""Decodes cells with the user's own llama-server: one for the target alone, one that speculates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from spectui.errors import BadInputError, HopelessError, ServerError
from spectui.measure.measurer import Pair
from spectui.measure.server_backend import ServerBackend, Servers
from spectui.measure.workload import Workload, as_tokens, distinct, with_length
from spectui.options.setup import ContextOptions, ModelOptions, SamplingConfig, Schedule, Setup
from spectui.prompts import Prompt
from spectui.sweep.cells import Cell, Place, Task
from spectui.sweep.in_process import check_length, check_room
from spectui.sweep.measuring import Measuring, Prepared


class Served(Measuring):
    """Starts a server per setting, and ends those that have to make room for it."""

    def __init__(
        self,
        servers: Servers,
        *,
        target: ModelOptions,
        drafts: Mapping[str, ModelOptions],
        context: ContextOptions,
        sampling: SamplingConfig,
        prompts: Sequence[Prompt],
        keeps_off: bool,
        redoes_rounds: bool,
        extra: tuple[str, ...] = (),
        on_pair: Callable[[Pair], None] = lambda _pair: None,
    ) -> None:
        """Start nothing yet.

        Args:
            servers: decode.
            target: its file and placement; cells say the types of its cache.
            drafts: drafts by their names in cells.
            context: cells say the threads.
            sampling: cells say the temperature.
            prompts: prompts of every cell.
            keeps_off: whether the target alone stays alive beside a server that speculates.
            redoes_rounds: whether the target may redo a round, or that is not known.
            extra: the user's own arguments.
            on_pair: told of every prompt.
        """
        super().__init__(on_pair)
        self._servers = servers
        self._target = target
        self._drafts = drafts
        self._context = context
        self._sampling = sampling
        self._prompts = prompts
        self._keeps_off = keeps_off
        self._redoes_rounds = redoes_rounds
        self._extra = extra
        self._workloads: dict[Task, Workload] = {}
        self._has_served = False

    def prepare(self, cell: Cell) -> Prepared:
        """Tokenize the prompts; servers start on first use."""
        check_room(self._context, cell)
        check_length(cell.task, self._context.ctx_size)
        base = self._base(cell.place)
        decoding = ServerBackend(
            self._servers,
            base,
            self._drafts,
            keeps_off=self._keeps_off,
            redoes_rounds=self._redoes_rounds,
        )
        decoding.load(None if cell.mtp else cell.arm.draft)
        return Prepared(
            cell=cell,
            decoding=decoding,
            workload=self._workload(cell.task, base),
            schedule=Schedule.SERVER,
        )

    def _base(self, place: Place) -> Setup:
        """Setup of the target alone in a place."""
        return Setup(
            target=replace(
                self._target, cache_type_k=place.cache_type_k, cache_type_v=place.cache_type_v
            ),
            draft=None,
            context=replace(self._context, threads=place.threads),
            speculation=None,
            extra=self._extra,
        )

    def _workload(self, task: Task, base: Setup) -> Workload:
        if task not in self._workloads:
            self._workloads[task] = self._tokenized(task, base)
        return self._workloads[task]

    def _tokenized(self, task: Task, base: Setup) -> Workload:
        try:
            server = self._servers.of(base)
        except ServerError as error:
            if self._has_served or isinstance(error, HopelessError):
                raise
            # Without the target alone there is nothing to compare with.
            raise HopelessError(str(error)) from error
        self._has_served = True
        found = as_tokens(
            server, self._prompts, n_predict=task.n_predict, n_ctx=self._context.ctx_size
        )
        items, _repeated = distinct(found)
        if not items:
            raise BadInputError("there are no prompts to measure; give --prompts")
        sampling = replace(self._sampling, temp=task.temp)
        workload = Workload(items=items, n_predict=task.n_predict, sampling=sampling)
        return workload if task.prompt_length is None else with_length(workload, task.prompt_length)
