"""Plans what a model would take of memory, by llama.cpp itself, without reading a weight.

As llama.cpp's ``common/fit.cpp`` does it: models are opened with ``no_alloc``, contexts are made on
them, and both say what they would allocate. A recurrent state is allocated all the same.

``python -m spectui.llama.plan FD [HOST:PORT]...`` is the process in which that is done, with the
devices of RPC servers. It answers the questions that come over a connection, one after the other.
What llama.cpp makes of a broken header, an abort, all memory, or no end, happens there and not in
the program that asks.
"""

import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import psutil

from spectui.children import parent_channel
from spectui.closing import Closing
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError
from spectui.llama.architectures import check_generates
from spectui.llama.breakdown import Share, compute_bytes, memory_breakdown
from spectui.llama.buffers import HOST, Buffer, BufferKind, DeviceMemory
from spectui.llama.context import Context
from spectui.llama.devices import gpu_memories, has_gpu, use_rpc
from spectui.llama.fit import fit
from spectui.llama.library import binding_version
from spectui.llama.model import Model, check_pair
from spectui.llama.mtp import mtp_context
from spectui.llama.native import backends, known_library, known_version
from spectui.llama.pair import DraftContext, TargetContext
from spectui.llama.planned import (
    Answer,
    Backend,
    BackendRequest,
    FitRequest,
    Fitting,
    ModelPlan,
    Plan,
    PlanRequest,
    Question,
    Reading,
    Refused,
)
from spectui.models.facts import check_is_model, check_is_target, check_mtp
from spectui.models.gguf import FileIdentity, read_gguf
from spectui.models.header import GgufFile
from spectui.models.pairs import incompatibility
from spectui.models.weights import WeightTraffic, mtp_traffic, weight_traffic
from spectui.options.setup import ModelOptions
from spectui.speculative.models import unserved

_SEVERAL = 2
_MAPPED = "CPU_Mapped"
"""llama.cpp's name of the buffer of weights that are a part of the page cache."""


_Role = Literal["target", "draft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A header that stays open."""

    file: FileIdentity
    wanted: tuple[ModelOptions, bool]
    """Placement, and whether with MTP layers."""
    gguf: GgufFile
    model: Model


class PlanMaker(Closing):
    """Makes plans one after the other. The last headers stay open for the next plan."""

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
        self._opened: dict[_Role, _Opened] = {}
        self._gpus: tuple[DeviceMemory, ...] | None = None
        """As they were reported last: the plans of one search split a draft's layers alike."""

    def backend(self) -> Backend:
        """Report what llama.cpp is, and what it sees now."""
        self._gpus = gpu_memories()
        return Backend(
            llama_cpp_python=binding_version(),
            llama_cpp=known_version(),
            backends=backends(),
            gpus=self._gpus,
            library=known_library().value,
        )

    def plan(self, request: PlanRequest) -> Plan:
        """Plan a target, and what drafts for it.

        Raises:
            BadInputError: a file is no model that generates, or cannot draft for the target.
            DoesNotFitError: not even what a plan allocates could be had.
            UsageError: an option that cannot be.
        """
        target = self._open("target", request.target, check_is_target, load_mtp=request.mtp)
        target.model.check_overrides()
        if request.mtp and request.draft is None:
            check_mtp(request.target.path, target.gguf, target.gguf)
        with TargetContext(
            target.model,
            request.context,
            max_draft=request.max_draft,
            n_snapshots=request.max_draft if request.mtp else 0,
            n_slots=request.n_slots,
        ) as context:
            ours = _planned(context, _traffic(target))
            if request.mtp or request.draft is None:
                theirs = _mtp_plan(context, target.gguf, request) if request.mtp else None
                return Plan(target=ours, draft=theirs, incompatibility=None)
        options, devices = request.draft, request.draft.devices
        if not devices.split:
            split = split_beside(ours, gpu_memories() if self._gpus is None else self._gpus)
            options = replace(options, devices=replace(devices, split=split))
        draft = self._open("draft", options, check_is_model)
        # The target's tokens bound what a draft says, not what it takes.
        vocabulary = target.model.vocabulary
        with DraftContext(
            draft.model, request.context, target_vocabulary=vocabulary, n_slots=request.n_slots
        ) as drafting:
            theirs = _planned(drafting, _traffic(draft))
            reason = incompatibility(vocabulary.outline, draft.model.vocabulary.outline)
        return Plan(
            target=ours,
            draft=theirs,
            incompatibility=reason or unserved(ours.rollback, theirs.rollback),
        )

    def fit(self, request: PlanRequest) -> Fitting:
        """Choose where a target lies, as ``--fit`` does; errors as those of ``plan``."""
        target = self._open("target", request.target, check_is_target, load_mtp=request.mtp)
        if request.draft is None:
            return fit(request, target.model, None)
        if not request.mtp:
            draft = self._open("draft", request.draft, check_is_model)
            return fit(request, target.model, draft.model)
        check_mtp(request.draft.path, read_gguf(request.draft.path), target.gguf)
        with Model(request.draft, no_alloc=True, load_mtp=True) as layers:
            return fit(request, target.model, layers)

    def close(self) -> None:
        """Close the headers."""
        while self._opened:
            self._opened.popitem()[1].model.close()

    def _open(
        self,
        role: _Role,
        options: ModelOptions,
        check: Callable[[Path, GgufFile], None],
        *,
        load_mtp: bool = False,
    ) -> _Opened:
        self._reading(options.path)
        file, wanted = _identity(options.path), (options, load_mtp)
        opened = self._opened.get(role)
        if opened is None or (opened.file, opened.wanted) != (file, wanted):
            if opened is not None:
                self._opened.pop(role).model.close()
            gguf, model = self._read(options, check, load_mtp=load_mtp)
            opened = _Opened(file=file, wanted=wanted, gguf=gguf, model=model)
            self._opened[role] = opened
        return opened

    def _read(
        self,
        options: ModelOptions,
        check: Callable[[Path, GgufFile], None],
        *,
        load_mtp: bool,
    ) -> tuple[GgufFile, Model]:
        path = options.path
        try:
            with self._bounded():
                gguf = read_gguf(path)
                check(path, gguf)
                check_generates(path, gguf)
                return gguf, Model(options, no_alloc=True, load_mtp=load_mtp)
        except (DoesNotFitError, MemoryError) as error:
            if _is_short():
                raise DoesNotFitError(
                    f"memory ended while the header of {path} was read; close other programs"
                ) from error
            raise BadInputError(
                f"{path} has a header that takes more memory than any model's; "
                "check that the download is complete"
            ) from error


def _identity(path: Path) -> FileIdentity:
    try:
        return FileIdentity.of(path)
    except OSError:
        read_gguf(path)
        raise


def _traffic(opened: _Opened) -> WeightTraffic:
    return weight_traffic(opened.gguf, opened.model.options, gpu_devices=has_gpu())


def _mtp_plan(target: TargetContext, gguf: GgufFile, request: PlanRequest) -> ModelPlan:
    """Plan the MTP layers of a target, or of a file beside it, as whose header ``gguf`` is.

    Raises:
        BadInputError: the file has none that can draft for the target.
    """
    options = request.draft
    if options is None:
        traffic = mtp_traffic(gguf, request.target, gpu_devices=has_gpu())
        with mtp_context(target, request.context) as own:
            return _without_weights(_planned(own, traffic))
    header = read_gguf(options.path)
    check_mtp(options.path, header, gguf)
    with Model(options, no_alloc=True, load_mtp=True) as model:
        check_pair(target.model, model)
        with mtp_context(target, request.context, model) as drafting:
            return _planned(drafting, mtp_traffic(header, options, gpu_devices=has_gpu()))


def split_beside(target: ModelPlan, gpus: tuple[DeviceMemory, ...]) -> tuple[float, ...]:
    """Return the percentages of a draft's layers by GPU, once the target is loaded.

    Llama.cpp splits layers by what is free at that moment. Empty where there is nothing to split,
    or where a GPU does not tell.
    """
    if len(gpus) < _SEVERAL:
        return ()
    taken = Counter[str]()
    for buffer in target.buffers:
        taken[buffer.memory] += buffer.size_bytes
    left = [max(0, gpu.free_bytes - taken[gpu.name]) for gpu in gpus if gpu.free_bytes is not None]
    if len(left) < len(gpus) or not any(left):
        return ()
    return tuple(float(round(100 * one / sum(left))) for one in left)


def _without_weights(plan: ModelPlan) -> ModelPlan:
    """Plan of a further context of a model: llama.cpp counts the model's weights with each."""
    own = (buffer for buffer in plan.buffers if buffer.kind is not BufferKind.WEIGHTS)
    return replace(plan, buffers=tuple(own))


def _planned(context: Context, traffic: WeightTraffic) -> ModelPlan:
    model = context.model
    options = model.options
    # Where it is left open, a device that cannot map decides; llama-server's own word is final.
    is_open = options.load_mode == "auto"
    maps_files = options.mmap and not options.direct_io
    maps_files = maps_files and not (is_open and any(not one.maps_files for one in gpu_memories()))
    shares, compute = memory_breakdown(context.c), compute_bytes(context.c)
    buffers = _buffers(shares, compute, context.buffers, maps_files=maps_files)
    return ModelPlan(
        info=model.info,
        n_ctx=context.n_ctx,
        rollback=context.rollback,
        buffers=tuple(buffer for buffer in buffers if buffer.size_bytes),
        traffic=traffic,
    )


def _buffers(
    shares: Sequence[tuple[str, Share]],
    compute: Mapping[str, int],
    logged: Sequence[Buffer],
    *,
    maps_files: bool,
) -> Iterator[Buffer]:
    """Yield the buffers of one model and its context, as a real load would call them."""
    for device, share in shares:
        # What mmap maps would else lie in the host's own memory, pinned for a GPU or not.
        is_mapped = maps_files and (device == HOST or device.endswith("_Host"))
        # Recurrent states and a cache of experts are among the caches.
        for kind, name, size_bytes in (
            (BufferKind.WEIGHTS, _MAPPED if is_mapped else device, share.weights_bytes),
            (BufferKind.KV, device, share.cache_bytes),
            (BufferKind.COMPUTE, device, compute.get(device, 0)),
        ):
            yield Buffer(device=name, kind=kind, size_bytes=size_bytes)
    # Allocated even for a plan, and no part of the breakdown.
    yield from (buffer for buffer in logged if buffer.kind is BufferKind.OUTPUT)


HEADER_BYTES = 400 << 20
"""Limit for reading one header: several times the need of the largest vocabulary."""


def main() -> None:
    """Answer requests until the connection closes."""
    with parent_channel(get_args(Question)) as channel, suppress(EOFError):
        question: Question = channel.receive()
        # Drivers start before memory is bounded: what they take is no header's fault.
        gpu_memories()

        def reading(path: Path) -> None:
            channel.send(Reading(path=path))

        # A recurrent state is allocated even for a plan. One that does not fit is said so.
        at_most = psutil.virtual_memory().available
        with _bounded(at_most), PlanMaker(reading=reading, bounded=_header) as maker:
            while True:
                channel.send(_answer(maker, question, sys.argv[2:]))
                question = channel.receive()


def _answer(maker: PlanMaker, question: Question, servers: Sequence[str]) -> Answer:
    try:
        use_rpc(servers)
        match question:
            case BackendRequest():
                return maker.backend()
            case FitRequest(request=request):
                return maker.fit(request)
            case _:
                return maker.plan(question)
    except SpectuiError as error:
        return Refused(error=error)


def _header() -> AbstractContextManager[None]:
    return _bounded(HEADER_BYTES)


def _is_short() -> bool:
    """Whether this process may take less than what reads any model's header."""
    limit, _hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = psutil.Process().memory_info().data
    return limit != resource.RLIM_INFINITY and limit - used < HEADER_BYTES


@contextmanager
def _bounded(n_bytes: int) -> Iterator[None]:
    """Bound what this process takes on top of what it has."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = psutil.Process().memory_info().data + n_bytes
    bound = min(limit for limit in (bound, before, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


if __name__ == "__main__":
    main()
