"""Demand of a plan on every memory, compared with the memory that is free."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from spectui.format import bytes_text
from spectui.llama.buffers import HOST
from spectui.llama.planned import DeviceMemory, Plan

MARGIN_BYTES = 1 << 30
"""Bytes that a search leaves free on every GPU, as llama-server's ``--fit-target`` does by default:
pools of the driver and the desktop grow after the models are loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeMemory:
    """Free memory by name."""

    by_memory: Mapping[str, int] = field(default_factory=dict)
    """Free bytes by ``Buffer.memory``; a missing memory is unknown: nothing is too large then."""
    in_ram: frozenset[str] = frozenset()
    """GPUs whose memory is the host's, however much of it they may take."""

    @property
    def total_bytes(self) -> int:
        """Free bytes in all memories together."""
        own = (n for name, n in self.by_memory.items() if name not in self.in_ram)
        return sum(own)


def free_memory(gpus: tuple[DeviceMemory, ...]) -> FreeMemory:
    """Free memory of every one of ``gpus`` that reports it, and of the host.

    The host's contains the page cache, in which mapped weights live.
    """
    told = {gpu.name: gpu.free_bytes for gpu in gpus if gpu.free_bytes is not None}
    return FreeMemory(
        by_memory={**told, HOST: psutil.virtual_memory().available},
        in_ram=frozenset(gpu.name for gpu in gpus if gpu.in_ram),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Demand of a plan on one memory."""

    memory: str
    """Name of the memory, as in ``Buffer.memory``."""
    allocated_bytes: int
    mapped_bytes: int
    """Weights that mmap leaves in the page cache: without room for them they are read from disk
    again and again."""
    free_bytes: int | None
    """None where nobody knows."""
    includes: tuple[str, ...] = ()
    """GPUs that compute in this memory: what they take is counted here, too."""

    @property
    def where(self) -> str:
        """Name of the memory for display, and the GPUs that share it."""
        if self.includes:
            return f"RAM (with {', '.join(self.includes)})"
        return "RAM" if self.memory == HOST else self.memory

    @property
    def left_bytes(self) -> int | None:
        """Bytes that remain free; negative if it does not fit."""
        if self.free_bytes is None:
            return None
        return self.free_bytes - self.allocated_bytes - self.mapped_bytes

    @property
    def fits(self) -> bool:
        """Whether there is room for all of it, as far as is known."""
        return self.left_bytes is None or self.left_bytes >= 0

    @property
    def can_load(self) -> bool:
        """Whether there is room for all but what is mapped: it would work, from disk."""
        return self.left_bytes is None or self.left_bytes + self.mapped_bytes >= 0

    @property
    def is_tight(self) -> bool:
        """Whether it fits on a GPU, and leaves less than the margin there."""
        is_used = self.memory != HOST and self.allocated_bytes > 0
        return is_used and self.left_bytes is not None and 0 <= self.left_bytes < MARGIN_BYTES

    @property
    def shortage(self) -> str | None:
        """Sentence about the missing memory; None where it can be loaded."""
        if self.can_load:
            return None
        needed, free = bytes_text(self.allocated_bytes), bytes_text(self.free_bytes or 0)
        mapped = f" (beside {bytes_text(self.mapped_bytes)} of mapped weights)"
        return (
            f"{self.where} has no room: {needed} are needed{mapped if self.mapped_bytes else ''}, "
            f"{free} are free"
        )


def demands(plan: Plan, free: FreeMemory) -> tuple[Demand, ...]:
    """Add up a plan by memory: every one that it uses or that is known, the host's last."""
    allocated: Counter[str] = Counter()
    mapped: Counter[str] = Counter()
    for buffer in plan.buffers:
        sizes = mapped if buffer.is_mapped else allocated
        sizes[buffer.memory] += buffer.size_bytes
    memories = {*allocated, *mapped, *free.by_memory}
    # Bytes of a GPU that has no memory of its own are the host's, and bound by either.
    allocated[HOST] += sum(allocated[gpu] for gpu in free.in_ram)
    if free.in_ram:
        memories.add(HOST)
    return tuple(
        Demand(
            memory=memory,
            allocated_bytes=allocated[memory],
            mapped_bytes=mapped[memory],
            free_bytes=free.by_memory.get(memory),
            includes=tuple(sorted(free.in_ram)) if memory == HOST else (),
        )
        for memory in sorted(memories, key=lambda memory: (memory == HOST, memory))
    )


def can_load(plan: Plan, free: FreeMemory) -> bool:
    """Tell whether every memory has room for what a plan allocates there."""
    return all(demand.can_load for demand in demands(plan, free))


def reads_from_disk(plan: Plan, free: FreeMemory) -> bool:
    """Tell whether a plan can be loaded, and RAM does not hold all of its mapped weights."""
    found = demands(plan, free)
    return all(one.can_load for one in found) and not all(one.fits for one in found)


def least_left(found: Sequence[Demand], *, from_disk: bool = False) -> int:
    """Bytes beyond the margin that remain where that is least; negative if it does not fit.

    Args:
        found: memories that nothing is wanted of do not count.
        from_disk: whether mapped weights need no room.
    """
    left = [
        demand.left_bytes
        + (demand.mapped_bytes if from_disk else 0)
        - (0 if demand.memory == HOST else MARGIN_BYTES)
        for demand in found
        if demand.left_bytes is not None and demand.allocated_bytes + demand.mapped_bytes
    ]
    return min(left, default=0)
