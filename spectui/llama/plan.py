"""Plans what a model would take of memory, by llama.cpp itself, without reading a weight.

As llama.cpp's ``common/fit.cpp`` does it: models are opened with ``no_alloc``, contexts are made on
them, and both say what they would allocate. A recurrent state is allocated all the same.

``python -m spectui.llama.plan FD [HOST:PORT]...`` is the process in which that is done, with the
devices of RPC servers. It answers the questions that come over a connection, one after the other.
A broken header may make llama.cpp abort, take all memory or never end: that hits this process, and
not the program that asks.
"""

import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import psutil

from spectui.children import parent_channel
from spectui.closing import Closing
from spectui.errors import SpectuiError
from spectui.llama.architectures import check_generates
from spectui.llama.breakdown import Share, compute_bytes, memory_breakdown
from spectui.llama.buffers import HOST, Buffer, BufferKind, DeviceMemory, bytes_by_memory
from spectui.llama.context import Context
from spectui.llama.devices import gpu_memories, has_gpu, use_rpc
from spectui.llama.fit import fit
from spectui.llama.library import binding_version
from spectui.llama.model import Model, check_pair
from spectui.llama.mtp import mtp_context
from spectui.llama.native import backends, known_library
from spectui.llama.pair import DraftContext, TargetContext
from spectui.llama.planned import (
    Answer,
    Backend,
    BackendRequest,
    FitRequest,
    Fitted,
    ModelPlan,
    Plan,
    PlanRequest,
    Question,
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
_Key = tuple[FileIdentity, ModelOptions, bool]
"""File and placement of a header, and whether with MTP layers."""


class PlanMaker(Closing):
    """Makes plans one after the other. The last headers stay open for the next plan."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._opened: dict[_Role, tuple[_Key, Model]] = {}
        self._gpus: tuple[DeviceMemory, ...] | None = None
        """As they were reported last: the plans of one search split a draft's layers alike."""

    def backend(self) -> Backend:
        """Report what llama.cpp is, and what it sees now."""
        self._gpus = gpu_memories()
        return Backend(
            llama_cpp_python=binding_version(),
            backends=backends(),
            gpus=self._gpus,
            library=known_library(),
        )

    def plan(self, request: PlanRequest) -> Plan:
        """Plan a target, and what drafts for it.

        Raises:
            BadInputError: a file is no model that generates, or cannot draft for the target.
            DoesNotFitError: not even what a plan allocates could be had.
            UsageError: an option that cannot be.
        """
        target = self._open("target", request.target, check_is_target, load_mtp=request.mtp)
        target.check_overrides()
        gguf = read_gguf(request.target.path)
        if request.mtp and request.draft is None:
            check_mtp(request.target.path, gguf, gguf)
        with TargetContext(
            target,
            request.context,
            max_draft=request.max_draft,
            n_snapshots=request.max_draft if request.mtp else 0,
            n_slots=request.n_slots,
        ) as context:
            planned = _planned(context, _traffic(target))
            if request.mtp or request.draft is None:
                draft_plan = _mtp_plan(context, gguf, request) if request.mtp else None
                return Plan(target=planned, draft=draft_plan, incompatibility=None)
        options, devices = request.draft, request.draft.devices
        if not devices.split:
            split = split_beside(planned, gpu_memories() if self._gpus is None else self._gpus)
            options = replace(options, devices=replace(devices, split=split))
        draft = self._open("draft", options, check_is_model)
        # The target's vocabulary bounds the draft's tokens, not its memory.
        vocabulary = target.vocabulary
        with DraftContext(
            draft, request.context, target_vocabulary=vocabulary, n_slots=request.n_slots
        ) as drafting:
            draft_plan = _planned(drafting, _traffic(draft))
            reason = incompatibility(vocabulary.outline, draft.vocabulary.outline)
        return Plan(
            target=planned,
            draft=draft_plan,
            incompatibility=reason or unserved(planned.rollback, draft_plan.rollback),
        )

    def fit(self, request: PlanRequest) -> Fitted:
        """Choose where a target lies, as ``--fit`` does; errors as those of ``plan``."""
        target = self._open("target", request.target, check_is_target, load_mtp=request.mtp)
        if request.draft is None:
            return fit(request, target, None)
        if not request.mtp:
            return fit(request, target, self._open("draft", request.draft, check_is_model))
        path = request.draft.path
        check_mtp(path, read_gguf(path), read_gguf(request.target.path))
        with Model(request.draft, no_alloc=True, load_mtp=True) as layers:
            return fit(request, target, layers)

    def close(self) -> None:
        """Close the headers."""
        while self._opened:
            _role, (_wanted, model) = self._opened.popitem()
            model.close()

    def _open(
        self,
        role: _Role,
        options: ModelOptions,
        check: Callable[[Path, GgufFile], None],
        *,
        load_mtp: bool = False,
    ) -> Model:
        path = options.path
        gguf = read_gguf(path)
        wanted = FileIdentity.of(path), options, load_mtp
        opened = self._opened.get(role)
        if opened is not None and opened[0] == wanted:
            return opened[1]
        if opened is not None:
            self._opened.pop(role)[1].close()
        check(path, gguf)
        check_generates(path, gguf)
        model = Model(options, no_alloc=True, load_mtp=load_mtp)
        self._opened[role] = wanted, model
        return model


def _traffic(model: Model) -> WeightTraffic:
    return weight_traffic(read_gguf(model.options.path), model.options, gpu_devices=has_gpu())


def _mtp_plan(target: TargetContext, gguf: GgufFile, request: PlanRequest) -> ModelPlan:
    """Plan MTP layers: those of the target, whose header is ``gguf``, or of a file beside it.

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
    or where a GPU does not report its memory.
    """
    if len(gpus) < _SEVERAL:
        return ()
    taken = bytes_by_memory(target.buffers)
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
    # With load mode auto, a device that cannot map files decides; any other mode is final.
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


def main() -> None:
    """Answer requests until the connection closes."""
    with parent_channel(get_args(Question)) as channel, suppress(EOFError):
        question: Question = channel.receive()
        # Drivers start before memory is bounded: what they take is no header's fault.
        gpu_memories()
        _bound_memory()
        with PlanMaker() as maker:
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


def _bound_memory() -> None:
    """Bound what this process takes by what is free.

    A broken header may ask for more, and so may a recurrent state, which is allocated even for a
    plan, and which is then reported as too large.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = psutil.Process().memory_info().data + psutil.virtual_memory().available
    bound = min(limit for limit in (bound, soft, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))


if __name__ == "__main__":
    main()
