"""VRAM and RAM: who holds it, what is left, and whether it suffices."""

from collections.abc import Mapping
from dataclasses import dataclass

from spectui.engine.events import Role
from spectui.live.pools import MemoryPool, gpu_pool, host_pool, with_warning
from spectui.llama.buffers import ModelMemory
from spectui.monitor.readings import HostReading, Snapshot

_DISK_BYTES_PER_S = 1e6
"""Reads that are no longer a log being written or a module being imported."""
_SWAP_GROWTH_BYTES = 32e6


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
        models: what the loaded models planned.
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
