"""Plans what a pair would take of memory, by llama.cpp itself, without reading a weight.

As llama.cpp's ``common/fit.cpp`` does it: models are opened with ``no_alloc``, contexts are made on
them, and both say what they would allocate. A recurrent state is allocated all the same. A header
that makes no sense ends the process, so this runs in a child (``plan_child``).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from spectui.closing import Closing
from spectui.config import ModelOptions
from spectui.errors import BadInputError, DoesNotFitError
from spectui.llama.breakdown import Share, memory_breakdown
from spectui.llama.buffers import HOST, Buffer, BufferKind, parse_buffers
from spectui.llama.context import AbortFlag, Context
from spectui.llama.draft_files import check_is_model, check_is_target
from spectui.llama.files import check_file
from spectui.llama.gguf_file import read_gguf
from spectui.llama.library import native_log
from spectui.llama.model import Model
from spectui.llama.pair import DraftContext, TargetContext
from spectui.llama.planned import ModelPlan, Plan, PlanRequest
from spectui.llama.vocabulary import incompatibility

_MAPPED = "CPU_Mapped"
"""What llama.cpp calls the buffer of weights that are a part of the page cache."""


class _Role(StrEnum):
    TARGET = "target"
    DRAFT = "draft"


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What a model was opened from: equal as long as it need not be opened again."""

    options: ModelOptions
    inode: int
    size_bytes: int
    changed_ns: int


def _state(options: ModelOptions) -> _State:
    try:
        status = options.path.stat()
    except OSError:
        check_file(options.path)
        raise
    return _State(
        options=options,
        inode=status.st_ino,
        size_bytes=status.st_size,
        changed_ns=status.st_mtime_ns,
    )


class PlanMaker(Closing):
    """Makes plans one after the other. Headers stay open for the next plan that needs them."""

    def __init__(
        self,
        *,
        reading: Callable[[Path], None] = lambda _path: None,
        bounded: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Open nothing yet.

        Args:
            reading: called with the file of each model before llama.cpp looks at it.
            bounded: what to hold around reading a header, so that a broken one cannot take all
                memory.
        """
        self._reading = reading
        self._bounded = bounded
        self._opened: dict[_Role, tuple[_State, Model]] = {}
        self._compared: tuple[_State, _State, str | None] | None = None

    def plan(self, request: PlanRequest) -> Plan:
        """Plan the target, and the draft if there is one.

        Raises:
            BadInputError: a file is no model that generates.
            DoesNotFitError: not even what a plan allocates could be had.
            UsageError: an option that cannot be.
        """
        abort = AbortFlag()
        target = self._open(_Role.TARGET, request.target)
        target.check_overrides()
        with TargetContext(
            target, request.context, max_draft=request.max_draft, abort=abort
        ) as context:
            target_plan = _planned(context)
        if request.draft is None:
            return Plan(target=target_plan, draft=None, incompatibility=None)
        draft = self._open(_Role.DRAFT, request.draft)
        with DraftContext(
            draft, request.context, target_vocabulary=target.vocabulary, abort=abort
        ) as context:
            draft_plan = _planned(context)
        reason = self._incompatibility()
        return Plan(target=target_plan, draft=draft_plan, incompatibility=reason)

    def close(self) -> None:
        """Close the headers."""
        self._compared = None
        for role in _Role:
            self._close(role)

    def _open(self, role: _Role, options: ModelOptions) -> Model:
        self._reading(options.path)
        state = _state(options)
        opened = self._opened.get(role)
        if opened is not None and opened[0] == state:
            return opened[1]
        self._close(role)
        model = self._read(role, options)
        try:
            model.check_generates()
        except BadInputError:
            model.close()
            raise
        self._opened[role] = state, model
        return model

    def _close(self, role: _Role) -> None:
        if role in self._opened:
            self._opened.pop(role)[1].close()

    def _read(self, role: _Role, options: ModelOptions) -> Model:
        check = check_is_target if role is _Role.TARGET else check_is_model
        try:
            with self._bounded():
                check(options.path, read_gguf(options.path))
                return Model(options, no_alloc=True)
        except (DoesNotFitError, MemoryError) as error:
            raise BadInputError(
                f"{options.path} has a header that takes more memory than any model's; "
                "check that the download is complete"
            ) from error

    def _incompatibility(self) -> str | None:
        (ours, target), (theirs, draft) = (self._opened[role] for role in _Role)
        # A search over contexts asks dozens of times, and vocabularies are long.
        if self._compared is None or self._compared[:2] != (ours, theirs):
            reason = incompatibility(target.vocabulary, draft.vocabulary)
            self._compared = ours, theirs, reason
        return self._compared[2]


def _planned(context: Context) -> ModelPlan:
    model = context.model
    experts = model.metadata(f"{model.info.arch}.expert_count") or "0"
    buffers = _buffers(model.options, memory_breakdown(context.c), parse_buffers(native_log.tail()))
    return ModelPlan(
        info=model.info,
        n_experts=int(experts) if experts.isdecimal() else 0,
        n_ctx=context.n_ctx,
        rollback=context.rollback,
        buffers=tuple(buffer for buffer in buffers if buffer.size_bytes),
    )


def _buffers(
    options: ModelOptions, shares: Sequence[Share], logged: Sequence[Buffer]
) -> Iterator[Buffer]:
    """Yield the buffers of one model and its context, as a real load would call them."""
    for share in shares:
        device = share.buffer_type
        # What mmap maps would else lie in the host's own memory, pinned for a GPU or not.
        is_mapped = options.mmap and (device == HOST or device.endswith("_Host"))
        state_bytes = _state_bytes(share, logged)
        for kind, name, size_bytes in (
            (BufferKind.WEIGHTS, _MAPPED if is_mapped else device, share.weights_bytes),
            (BufferKind.KV, device, share.cache_bytes - state_bytes),
            (BufferKind.RECURRENT, device, state_bytes),
            (BufferKind.COMPUTE, device, share.compute_bytes),
        ):
            yield Buffer(device=name, kind=kind, size_bytes=size_bytes)
    # Allocated even for a plan, and no part of the breakdown.
    yield from (buffer for buffer in logged if buffer.kind is BufferKind.OUTPUT)


def _state_bytes(share: Share, logged: Sequence[Buffer]) -> int:
    """Recurrent state, which the breakdown adds to the KV cache. It is allocated, so it is logged.

    The log has zeros for the KV cache of a plan: all that it tells is that there is one.
    """
    here = [buffer for buffer in logged if buffer.device == share.buffer_type]
    if not any(buffer.kind is BufferKind.RECURRENT for buffer in here):
        return 0
    if not any(buffer.kind is BufferKind.KV for buffer in here):
        return share.cache_bytes
    return sum(buffer.size_bytes for buffer in here if buffer.kind is BufferKind.RECURRENT)
