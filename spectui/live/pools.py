"""The memories of the machine, and who holds what in them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spectui.engine.events import Role
from spectui.live.plan import Use, fill, mapped, planned
from spectui.llama.buffers import ModelMemory
from spectui.monitor.readings import GpuReading, HostReading

_NEAR_FULL = 0.92
"""Of a memory: what is left is about what a longer context or another program takes."""
_FULL = 0.985
"""Of VRAM: drivers keep a last part for themselves, and from here on spill or fail."""


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
