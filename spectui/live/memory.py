"""VRAM and RAM: planned use, users, free memory, and whether it suffices."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from spectui.engine.events import Role
from spectui.llama.buffers import Buffer, BufferKind, ModelMemory
from spectui.monitor.readings import GpuReading, HostReading, Snapshot

_NEAR_FULL = 0.92
"""Share of a memory: the rest is about as large as a longer context or another program needs."""
_FULL = 0.985
"""Share of VRAM: drivers keep a last part for themselves, and from here on spill or fail."""
_DISK_BYTES_PER_S = 1e6
"""Reads that are no longer a log being written or a module being imported."""
_SWAP_GROWTH_BYTES = 32e6


class Use(StrEnum):
    """Purpose of a part of a memory."""

    TARGET = "target"
    """The target's weights."""
    DRAFT = "draft"
    """The draft's weights."""
    KV = "KV"
    """Caches of both models, recurrent state included."""
    COMPUTE = "compute"
    """Scratch and logits of both."""
    OTHER = "other"
    """Other programs, and what the driver and this process take besides."""


def planned(models: Mapping[Role, ModelMemory], belongs: Callable[[Buffer], bool]) -> Counter[Use]:
    """Return bytes by use, of the buffers that belong to a memory."""
    sizes: Counter[Use] = Counter()
    for role, model in models.items():
        for buffer in model.buffers:
            if belongs(buffer):
                sizes[_use(role, buffer.kind)] += buffer.size_bytes
    return sizes


def mapped(models: Mapping[Role, ModelMemory]) -> Counter[Use]:
    """Return weights that must stay in the page cache for decoding to be fast.

    A mapping spans the file from its first to its last tensor in RAM; what lies between and went to
    a GPU is not needed again.
    """
    sizes: Counter[Use] = Counter()
    for role, model in models.items():
        size_bytes = sum(buffer.size_bytes for buffer in model.buffers if buffer.is_mapped)
        if model.traffic is not None:
            size_bytes = min(size_bytes, model.traffic.cpu_bytes)
        sizes[_use(role, BufferKind.WEIGHTS)] += size_bytes
    return sizes


def _use(role: Role, kind: BufferKind) -> Use:
    if kind is BufferKind.WEIGHTS:
        return Use.TARGET if role is Role.TARGET else Use.DRAFT
    if kind in {BufferKind.KV, BufferKind.RECURRENT}:
        return Use.KV
    return Use.COMPUTE


def fill(plan: Mapping[Use, float], used_bytes: float) -> tuple[tuple[Use, float], ...]:
    """Return parts that add up to ``used_bytes``: what nobody planned is another's."""
    left_bytes = used_bytes
    parts: list[tuple[Use, float]] = []
    for use in Use:
        wanted_bytes = left_bytes if use is Use.OTHER else plan.get(use, 0)
        size_bytes = min(wanted_bytes, left_bytes)
        left_bytes -= size_bytes
        parts.append((use, size_bytes))
    return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPool:
    """One memory: a GPU's or the host's."""

    name: str
    total_bytes: float | None
    parts: tuple[tuple[Use, float], ...]
    """Bytes by use, in the order of ``Use``; together at most ``total_bytes``."""
    free_bytes: float | None
    warning: str | None = None
    reason: str | None = None
    """Why total or free are missing; None if they are not."""

    @property
    def used_bytes(self) -> float | None:
        """All that is not free."""
        if self.total_bytes is None or self.free_bytes is None:
            return None
        return self.total_bytes - self.free_bytes


def gpu_pool(gpu: GpuReading, models: Mapping[Role, ModelMemory], *, alone: bool) -> MemoryPool:
    """Return the memory of one GPU; ``alone`` says that it is the only one."""
    plan = planned(models, lambda buffer: buffer.gpu == gpu.index)
    name = "VRAM" if alone else f"VRAM {gpu.index}"
    total_bytes, used_bytes = gpu.memory_total_bytes.value, gpu.memory_used_bytes.value
    if total_bytes is None or used_bytes is None:
        return MemoryPool(
            name=name,
            total_bytes=total_bytes,
            parts=fill(plan, min(plan.total(), total_bytes or plan.total())),
            free_bytes=None,
            reason=gpu.memory_used_bytes.reason or gpu.memory_total_bytes.reason,
        )
    used_bytes = min(used_bytes, total_bytes)
    pool = MemoryPool(
        name=name,
        total_bytes=total_bytes,
        parts=fill(plan, used_bytes),
        free_bytes=total_bytes - used_bytes,
    )
    if used_bytes > _FULL * total_bytes:
        return with_warning(pool, f"{name} is full: the driver may spill into RAM")
    return with_warning(pool, _near_full(pool))


def host_pool(host: HostReading, models: Mapping[Role, ModelMemory]) -> MemoryPool:
    """RAM. What is mapped counts as used, although the kernel calls the page cache available."""
    held = planned(models, lambda buffer: buffer.gpu is None and not buffer.is_mapped)
    kept = mapped(models)
    unavailable_bytes = max(host.memory_total_bytes - host.memory_available_bytes, 0)
    other_bytes = max(unavailable_bytes - held.total(), 0)
    plan = held + kept
    wanted_bytes = plan.total() + other_bytes
    missing_bytes = wanted_bytes - host.memory_total_bytes
    used_bytes = min(wanted_bytes, host.memory_total_bytes)
    pool = MemoryPool(
        name="RAM",
        total_bytes=host.memory_total_bytes,
        parts=fill(plan, used_bytes),
        free_bytes=host.memory_total_bytes - used_bytes,
    )
    if missing_bytes > 0 and kept.total():
        return with_warning(
            pool, f"{missing_bytes / 1e9:.1f} GB more is wanted than there is: weights stay on disk"
        )
    return with_warning(pool, _near_full(pool))


def _near_full(pool: MemoryPool) -> str | None:
    if pool.total_bytes and pool.used_bytes is not None:
        share = pool.used_bytes / pool.total_bytes
        if share > _NEAR_FULL:
            return f"{pool.name} is {share:.0%} full"
    return None


def with_warning(pool: MemoryPool, warning: str | None) -> MemoryPool:
    """Return ``pool`` with a warning, if there is one."""
    return pool if warning is None else replace(pool, warning=warning)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """All memories, the GPUs' first."""

    pools: tuple[MemoryPool, ...] = ()
    gpu_reason: str | None = None
    """Why there is no GPU among them."""
    reason: str | None = "the machine has not been read yet"


def memory_state(
    snapshot: Snapshot | None,
    models: Mapping[Role, ModelMemory],
    *,
    is_decoding: bool,
    swap_before_bytes: float | None,
) -> MemoryState:
    """Put plan and readings together.

    Args:
        snapshot: the machine now.
        models: plans of the loaded models.
        is_decoding: whether weights are being used, so that disk reads are a bad sign.
        swap_before_bytes: swap in use when the models were loaded.
    """
    if snapshot is None:
        return MemoryState()
    host = host_pool(snapshot.host, models)
    spill = _spill(snapshot.host, swap_before_bytes, is_decoding=is_decoding)
    pools = (
        *(gpu_pool(gpu, models, alone=len(snapshot.gpus) == 1) for gpu in snapshot.gpus),
        with_warning(host, spill),
    )
    return MemoryState(pools=pools, gpu_reason=snapshot.gpu_reason, reason=None)


def _spill(host: HostReading, swap_before_bytes: float | None, *, is_decoding: bool) -> str | None:
    """Say if memory does not suffice for what is being decoded."""
    disk = host.disk_read_bytes_per_s.value
    if is_decoding and disk is not None and disk > _DISK_BYTES_PER_S:
        return f"weights are read from disk, {disk / 1e6:.0f} MB/s"
    faults = host.major_faults_per_s.value
    if is_decoding and disk is None and faults:
        return f"weights are read from disk, {faults:.0f} page faults/s"
    if swap_before_bytes is not None:
        grown_bytes = host.swap_used_bytes - swap_before_bytes
        if grown_bytes > _SWAP_GROWTH_BYTES:
            return f"RAM spills into swap, {grown_bytes / 1e9:.1f} GB"
    return None
