"""Demand on every memory beside what is free there, and what is to stay free.

The kernel drops what lies in the page cache before it refuses memory, mapped weights included, so
that cache counts as free: in the machine's ``MemAvailable``, and as the reclaimable part of a
cgroup's ``memory.current``. Each level of the tree has a limit of its own, ``memory.max``, and the
tightest one counts.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from spectui.cores import cgroups
from spectui.format import bytes_text
from spectui.llama.buffers import HOST, DeviceMemory, bytes_by_memory, devices_of
from spectui.llama.planned import Plan
from spectui.options.setup import Devices, Fit

MARGIN_BYTES = Fit().margin_bytes(0)
"""Bytes that a search leaves free on a GPU of which ``--fit-target`` says nothing: pools of the
driver and the desktop grow after the models are loaded."""
_UNIFIED = "GGML_CUDA_ENABLE_UNIFIED_MEMORY"
_CACHE = ("inactive_file", "active_file", "slab_reclaimable")
"""Entries of ``memory.stat`` that the kernel takes back where memory is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeMemory:
    """Free memory by name."""

    by_memory: Mapping[str, int] = field(default_factory=dict)
    """Free bytes by ``Buffer.memory``; a missing memory is unknown: nothing is too large then."""
    in_ram: frozenset[str] = frozenset()
    """GPUs whose memory is the host's, however much of it they may take."""
    margins: Mapping[str, int] = field(default_factory=dict)
    """Bytes that stay free on GPUs, by name; ``MARGIN_BYTES`` on others."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Names of devices as llama.cpp lists them, where they differ from those of their memories."""

    def with_margins(
        self, options: Fit | None, placed: Devices, gpus: Sequence[DeviceMemory]
    ) -> "FreeMemory":
        """The same with the margins of ``--fit-target``.

        Args:
            options: with the margins; None for the usual ones.
            placed: devices of the target, by whose order margins are given.
            gpus: devices that there are.
        """
        fit = options or Fit()
        used = enumerate(devices_of(placed, gpus))
        return replace(self, margins={gpu.name: fit.margin_bytes(number) for number, gpu in used})


def free_ram(root: Path = Path("/")) -> int:
    """Bytes of RAM that are free now, page cache included, by the machine and by every cgroup.

    Args:
        root: folder of ``proc`` and of the mounts of cgroups.
    """
    folders = (folder for folder, version in cgroups(root) if version > 1)
    left = [left for folder in folders if (left := _left_bytes(folder)) is not None]
    return min([psutil.virtual_memory().available, *left])


def _left_bytes(folder: Path) -> int | None:
    """Bytes below the limit of a cgroup; None where it has none."""
    # Without a limit the file holds a word.
    with suppress(OSError, ValueError):
        limit = int((folder / "memory.max").read_text())
        used = int((folder / "memory.current").read_text())
        stat = _entries(folder / "memory.stat")
        return max(0, limit - max(0, used - sum(stat.get(name, 0) for name in _CACHE)))
    return None


def _entries(path: Path) -> Mapping[str, int]:
    """Names and numbers of a file, a pair in each line."""
    with suppress(OSError):
        pairs = (line.split() for line in path.read_text().splitlines())
        return {name: int(number) for name, number in pairs}
    return {}


def free_memory(gpus: tuple[DeviceMemory, ...]) -> FreeMemory:
    """Free memory of every one of ``gpus`` that reports it, and of the host.

    The host's contains the page cache, in which mapped weights live. CUDA with unified memory goes
    on in RAM where a GPU is full, so that what is free there bounds nothing.
    """
    reported = {
        gpu.name: gpu.free_bytes
        for gpu in gpus
        if gpu.free_bytes is not None and not (_UNIFIED in os.environ and gpu.name[:4] == "CUDA")
    }
    return FreeMemory(
        by_memory={**reported, HOST: free_ram()},
        in_ram=frozenset(gpu.name for gpu in gpus if gpu.in_ram),
        titles={gpu.name: gpu.title for gpu in gpus if gpu.title != gpu.name},
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
    """None where it is unknown."""
    includes: tuple[str, ...] = ()
    """GPUs that compute in this memory: what they take is counted here, too."""
    margin_bytes: int = 0
    """Bytes that are to stay free; of the host none."""
    title: str = ""
    """Name of the device as llama.cpp lists it, such as ``RPC1``; empty where it is ``memory``."""

    @property
    def where(self) -> str:
        """Name of the memory for display, and the GPUs that share it."""
        if self.includes:
            return f"RAM (with {', '.join(self.includes)})"
        return "RAM" if self.memory == HOST else self.title or self.memory

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
        left = self.left_bytes
        return left is None or left + self.mapped_bytes >= 0

    @property
    def shortage(self) -> str | None:
        """Sentence about the missing memory; None where it can be loaded."""
        if self.can_load:
            return None
        needed = bytes_text(self.allocated_bytes)
        mapped = f" (beside {bytes_text(self.mapped_bytes)} of mapped weights)"
        return (
            f"{self.where} has no room: {needed} are needed{mapped if self.mapped_bytes else ''}, "
            f"{bytes_text(self.free_bytes or 0)} are free"
        )

    @property
    def slowness(self) -> str | None:
        """Sentence about what RAM cannot hold though it can be loaded; None for nothing."""
        if self.fits or not self.can_load:
            return None
        missing = bytes_text(-(self.left_bytes or 0))
        return (
            f"{missing} of the weights have no room in {self.where}: they are read from disk again "
            "and again, which decides the speed"
        )


def demands(plan: Plan, free: FreeMemory) -> tuple[Demand, ...]:
    """Add up a plan by memory: every one that it uses or that is known, the host's last."""
    mapped = bytes_by_memory(one for one in plan.buffers if one.is_mapped)
    allocated = bytes_by_memory(one for one in plan.buffers if not one.is_mapped)
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
            margin_bytes=0 if memory == HOST else free.margins.get(memory, MARGIN_BYTES),
            title=free.titles.get(memory, ""),
        )
        for memory in sorted(
            memories, key=lambda memory: (memory == HOST, free.titles.get(memory, memory))
        )
    )


def can_load(plan: Plan, free: FreeMemory) -> bool:
    """Tell whether every memory has room for what a plan allocates there."""
    return all(demand.can_load for demand in demands(plan, free))


def reads_from_disk(plan: Plan, free: FreeMemory) -> bool:
    """Tell whether a plan can be loaded, and RAM does not hold all of its mapped weights."""
    found = demands(plan, free)
    return all(one.can_load for one in found) and not all(one.fits for one in found)


def least_left(found: Sequence[Demand], *, from_disk: bool = False) -> int:
    """Smallest number of bytes left beyond the margin of any memory; negative if one is too small.

    Args:
        found: demands on memories; one that takes nothing of its memory does not count.
        from_disk: whether mapped weights need no room.
    """
    left = [
        demand.left_bytes + (demand.mapped_bytes if from_disk else 0) - demand.margin_bytes
        for demand in found
        if demand.left_bytes is not None and demand.allocated_bytes + demand.mapped_bytes
    ]
    return min(left, default=0)
