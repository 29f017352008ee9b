"""What llama.cpp really allocates for a model and its context, to hold plans against."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.llama.breakdown import memory_breakdown
from spectui.llama.buffers import Buffer, BufferKind, parse_buffers
from spectui.llama.context import Context
from spectui.llama.log import native_log
from spectui.llama.model import Model
from spectui.llama.mtp import mtp_context
from spectui.llama.pair import DraftContext, TargetContext
from spectui.llama.planned import PlanRequest
from spectui.speculative.models import Rollback
from tests.support.architectures import write_cohere2, write_lfm2, write_mamba
from tests.support.models import MOE, Tiny, write_tiny

LOG_STEP_BYTES = 0.01 * (1 << 20)
"""The log has hundredths of a MiB."""

KINDS: dict[str, Callable[[Path], None]] = {
    "llama": lambda path: write_tiny(Tiny(), path),
    "moe": lambda path: write_tiny(MOE, path),
    "window": lambda path: write_cohere2(Tiny(), path),
    "mamba": lambda path: write_mamba(Tiny(), path),
    "lfm2": lambda path: write_lfm2(Tiny(), path),
    "lfm2-window": lambda path: write_lfm2(Tiny(), path, window=32),
}
"""Writers of a tiny model of every kind of memory."""

Bytes = Counter[tuple[str, str]]
"""By device and use: ``weights``, ``cache`` (recurrent state included), ``compute``."""

_USES = {
    BufferKind.WEIGHTS: "weights",
    BufferKind.KV: "cache",
    BufferKind.COMPUTE: "compute",
}


@dataclass(frozen=True, kw_only=True)
class Allocated:
    exact: Bytes
    """As ``llama_get_memory_breakdown`` tells them."""
    logged: tuple[Buffer, ...]
    n_ctx: int
    rollback: Rollback


def allocate(request: PlanRequest) -> tuple[Allocated, Allocated | None]:
    """Load a pair and make its contexts, as the engine does; free all of it."""
    with ExitStack() as stack:
        target = stack.enter_context(Model(request.target, load_mtp=request.mtp))
        lines = native_log.tail()
        target_context = stack.enter_context(
            TargetContext(
                target,
                request.context,
                max_draft=request.max_draft,
                n_snapshots=request.max_draft if request.mtp else 0,
            )
        )
        ours = _allocated(target_context, lines)
        if request.draft is None and not request.mtp:
            return ours, None
        if request.draft is None:
            own = mtp_context(target_context, request.context)
            return ours, _without_weights(_allocated(stack.enter_context(own), ()))
        draft = stack.enter_context(Model(request.draft, load_mtp=request.mtp))
        lines = native_log.tail()
        if request.mtp:
            layers = mtp_context(target_context, request.context, draft)
            return ours, _allocated(stack.enter_context(layers), lines)
        context: Context = stack.enter_context(
            DraftContext(draft, request.context, target_vocabulary=target.vocabulary)
        )
        return ours, _allocated(context, lines)


def _allocated(context: Context, loading: Iterable[str]) -> Allocated:
    exact: Bytes = Counter()
    for device, share in memory_breakdown(context.c):
        exact[device, "weights"] += share.weights_bytes
        exact[device, "cache"] += share.cache_bytes
        exact[device, "compute"] += share.compute_bytes
    return Allocated(
        exact=+exact,
        logged=parse_buffers((*loading, *native_log.tail())),
        n_ctx=context.n_ctx,
        rollback=context.rollback,
    )


def _without_weights(found: Allocated) -> Allocated:
    """Of a second context of a model, whose weights the breakdown of each has."""
    exact = {key: n_bytes for key, n_bytes in found.exact.items() if key[1] != "weights"}
    return replace(found, exact=Counter(exact))


def planned_bytes(buffers: Iterable[Buffer]) -> Bytes:
    """Add up a plan as the breakdown of a real context does, which has no outputs."""
    sizes: Bytes = Counter()
    for buffer in buffers:
        if buffer.kind in _USES:
            sizes[buffer.device, _USES[buffer.kind]] += buffer.size_bytes
    return sizes


def log_gaps_bytes(buffers: Iterable[Buffer], logged: Iterable[Buffer]) -> dict[str, int]:
    """Bytes between a plan and the log of a real load, of every buffer that either has."""
    gaps: Counter[str] = Counter()
    for sign, ones in ((1, buffers), (-1, logged)):
        for one in ones:
            gaps[f"{one.device} {one.kind}"] += sign * one.size_bytes
    return dict(gaps)
