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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from spectui.children import parent_channel
from spectui.closing import Closing
from spectui.errors import BadInputError, DoesNotFitError, SpectuiError
from spectui.llama.breakdown import Share, compute_bytes, memory_breakdown
from spectui.llama.buffers import HOST, Buffer, BufferKind, parse_buffers
from spectui.llama.context import AbortFlag, Context
from spectui.llama.devices import gpu_memories, has_gpu, use_rpc
from spectui.llama.library import backends, binding_version, known_library, known_version
from spectui.llama.log import native_log
from spectui.llama.model import Model
from spectui.llama.mtp import mtp_context
from spectui.llama.pair import DraftContext, TargetContext
from spectui.llama.planned import (
    Answer,
    Ask,
    Backend,
    ModelPlan,
    ModelRequest,
    Planned,
    Question,
    Reading,
    Refused,
)
from spectui.models.facts import (
    check_is_model,
    check_is_target,
    check_mtp,
    check_mtp_file,
)
from spectui.models.gguf import FileIdentity, check_file, read_gguf
from spectui.models.header import GgufFile
from spectui.models.pairs import Outline, Token, incompatibility, readable
from spectui.models.weights import WeightTraffic, mtp_traffic, weight_traffic
from spectui.options.setup import ModelOptions

_MAPPED = "CPU_Mapped"
"""llama.cpp's name of the buffer of weights that are a part of the page cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A header that stays open."""

    wanted: tuple[FileIdentity, ModelOptions, tuple[int, ...], bool]
    """Which, and how: file, placement, split, with MTP layers or without."""
    gguf: GgufFile
    model: Model
    plans: dict[ModelRequest, ModelPlan] = field(default_factory=dict)
    """Made so far."""

    @property
    def file(self) -> FileIdentity:
        return self.wanted[0]


class PlanMaker(Closing):
    """Makes plans one after the other. The last header stays open for the next plan."""

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
        self._opened: _Opened | None = None
        self._outline: tuple[FileIdentity, Outline] | None = None

    def plan(self, request: ModelRequest) -> tuple[FileIdentity, ModelPlan]:
        """Plan a model, and return the identity of its file with the plan.

        Raises:
            BadInputError: the file is no model that generates.
            DoesNotFitError: not even what a plan allocates could be had.
            UsageError: an option that cannot be.
        """
        opened = self._open(request)
        if request not in opened.plans:
            opened.plans[request] = _model_plan(opened, request)
        return opened.file, opened.plans[request]

    def outline(self) -> Outline:
        """Take down the tokens of the model that was planned last."""
        if self._opened is None:
            raise RuntimeError("no model was planned")
        if self._outline is None or self._outline[0] != self._opened.file:
            self._outline = self._opened.file, outline(self._opened.model)
        return self._outline[1]

    def close(self) -> None:
        """Close the header."""
        if self._opened is not None:
            self._opened.model.close()
            self._opened = None

    def _open(self, request: ModelRequest) -> _Opened:
        options = request.options
        self._reading(options.path)
        file = _identity(options.path)
        opened = self._opened
        wanted = file, options, request.split, _loads_mtp(request)
        if opened is None or opened.wanted != wanted:
            self.close()
            gguf, model = self._read(request)
            try:
                model.check_generates()
            except BaseException:
                model.close()
                raise
            opened = self._opened = _Opened(wanted=wanted, gguf=gguf, model=model)
        if request.max_draft is not None:
            opened.model.check_overrides()
        return opened

    def _read(self, request: ModelRequest) -> tuple[GgufFile, Model]:
        check = check_is_model if request.max_draft is None else check_is_target
        path = request.options.path
        try:
            with self._bounded():
                gguf = read_gguf(path)
                check(path, gguf)
                if request.mtp:
                    check_mtp(path, gguf)
                return gguf, Model(
                    request.options,
                    no_alloc=True,
                    load_mtp=_loads_mtp(request),
                    split=request.split,
                )
        except (DoesNotFitError, MemoryError) as error:
            if _is_short():
                raise DoesNotFitError(
                    f"memory ended while the header of {path} was read; close other programs"
                ) from error
            raise BadInputError(
                f"{path} has a header that takes more memory than any model's; "
                "check that the download is complete"
            ) from error


def _loads_mtp(request: ModelRequest) -> bool:
    """Whether llama.cpp is told to load MTP layers: of a target also where a file's draft."""
    return request.mtp or request.mtp_file is not None


def _identity(path: Path) -> FileIdentity:
    try:
        return FileIdentity.of(path)
    except OSError:
        check_file(path)
        raise


def _model_plan(opened: _Opened, request: ModelRequest) -> ModelPlan:
    model, context, abort = opened.model, request.context, AbortFlag()
    traffic = weight_traffic(opened.gguf, model.options, gpu_devices=has_gpu())
    if request.max_draft is None:
        # The target's tokens bound what a draft says, not what it takes.
        vocabulary = model.vocabulary
        with DraftContext(
            model, context, target_vocabulary=vocabulary, abort=abort, n_slots=request.n_slots
        ) as draft:
            return _planned(draft, traffic)
    n_snapshots = request.max_draft if _loads_mtp(request) else 0
    with TargetContext(
        model,
        context,
        max_draft=request.max_draft,
        abort=abort,
        n_snapshots=n_snapshots,
        n_slots=request.n_slots,
    ) as target:
        plan = _planned(target, traffic)
        if request.mtp_file is not None:
            return replace(plan, mtp=_mtp_file_plan(target, opened.gguf, request.mtp_file, request))
        if not request.mtp:
            return plan
        own_traffic = mtp_traffic(opened.gguf, model.options, gpu_devices=has_gpu())
        with mtp_context(target, context, max_draft=request.max_draft, abort=abort) as own:
            return replace(plan, mtp=_without_weights(_planned(own, own_traffic)))


def _mtp_file_plan(
    target: TargetContext, gguf: GgufFile, options: ModelOptions, request: ModelRequest
) -> ModelPlan:
    """Plan the MTP layers of a file beside the target, as whose header ``gguf`` is.

    Raises:
        BadInputError: it has none that can draft for the target.
    """
    own = read_gguf(options.path)
    check_mtp_file(options.path, own, gguf)
    with Model(options, no_alloc=True, load_mtp=True) as model:
        reason = incompatibility(target.vocabulary.outline, model.vocabulary.outline)
        if reason is not None:
            raise BadInputError(
                f"{options.path} cannot draft for {request.options.path.name}: {reason}; "
                "choose a draft of the same model family"
            )
        with mtp_context(
            target,
            request.context,
            max_draft=request.max_draft or 0,
            abort=AbortFlag(),
            model=model,
        ) as drafting:
            return _planned(drafting, mtp_traffic(own, options, gpu_devices=has_gpu()))


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
    logged = parse_buffers(native_log.tail())
    shares, compute = memory_breakdown(context.c), compute_bytes(context.c)
    buffers = _buffers(shares, compute, logged, maps_files=maps_files)
    misplanned = (
        Buffer(
            device=device,
            kind=BufferKind.COMPUTE,
            size_bytes=share.compute_bytes - compute.get(device, 0),
        )
        for device, share in shares
    )
    return ModelPlan(
        info=model.info,
        n_ctx=context.n_ctx,
        rollback=context.rollback,
        buffers=tuple(buffer for buffer in buffers if buffer.size_bytes),
        misplanned=tuple(one for one in misplanned if one.size_bytes),
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
        state_bytes = _state_bytes(device, share, logged)
        # A cache of experts is among the caches (``llama_context::memory_breakdown``).
        for kind, name, size_bytes in (
            (BufferKind.WEIGHTS, _MAPPED if is_mapped else device, share.weights_bytes),
            (BufferKind.KV, device, share.cache_bytes - state_bytes),
            (BufferKind.RECURRENT, device, state_bytes),
            (BufferKind.COMPUTE, device, compute.get(device, 0)),
        ):
            yield Buffer(device=name, kind=kind, size_bytes=size_bytes)
    # Allocated even for a plan, and no part of the breakdown.
    yield from (buffer for buffer in logged if buffer.kind is BufferKind.OUTPUT)


def _state_bytes(device: str, share: Share, logged: Sequence[Buffer]) -> int:
    """Recurrent state, which the breakdown adds to the KV cache. It is allocated, so it is logged.

    The log has zeros for the KV cache of a plan: all that it tells is that there is one.
    """
    here = [buffer for buffer in logged if buffer.device == device]
    if not any(buffer.kind is BufferKind.RECURRENT for buffer in here):
        return 0
    if not any(buffer.kind is BufferKind.KV for buffer in here):
        return share.cache_bytes
    return sum(buffer.size_bytes for buffer in here if buffer.kind is BufferKind.RECURRENT)


def outline(model: Model) -> Outline:
    """Take down what pairs are judged by. It stays when the model is closed."""
    vocabulary = model.vocabulary
    return replace(
        vocabulary.outline,
        pre=model.metadata("tokenizer.ggml.pre"),
        end_tokens=tuple(
            Token(id=id_, text=readable(vocabulary.text(id_)))
            for id_ in sorted(vocabulary.end_tokens)
        ),
        chat_template=model.chat_template,
    )


HEADER_BYTES = 400 << 20
"""Limit for reading one header: several times the need of the largest vocabulary."""


def main() -> None:
    """Answer requests until the connection closes."""
    with parent_channel((Ask, ModelRequest)) as channel, suppress(EOFError):
        question: Question = channel.receive()
        while question is Ask.ARE_YOU_THERE:
            channel.send(question)
            question = channel.receive()
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
            case Ask.ARE_YOU_THERE:
                return question
            case Ask.BACKEND:
                return _backend()
            case Ask.OUTLINE:
                return maker.outline()
            case _:
                file, plan = maker.plan(question)
                return Planned(file=file, plan=plan)
    except SpectuiError as error:
        return Refused(error=error)


def _backend() -> Backend:
    return Backend(
        llama_cpp_python=binding_version(),
        llama_cpp=known_version(),
        backends=backends(),
        gpus=gpu_memories(),
        library=known_library().value,
    )


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
