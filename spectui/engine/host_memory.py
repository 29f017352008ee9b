"""RAM and swap that this process can still be given, within the limits of its cgroups.

The kernel drops what lies in the page cache before it refuses memory, mapped weights included, so
that cache counts as free here: in the machine's ``MemAvailable``, and as the reclaimable part of a
cgroup's ``memory.current``. A cgroup of version 2 has two limits: above ``memory.high`` its
processes are held back and their pages reclaimed, above ``memory.max`` one is killed. Those of
version 1 have the second alone. Each level of the tree has its own, and the tightest one counts.
"""

import re
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from spectui.cores import cgroups

_IPC_LOCK = 14
"""Linux's right to lock more than the limit."""
_NONE_V1 = 1 << 62
"""Limits of version 1 from which on there is none: the kernel writes its largest page count."""
_CACHE = {
    1: ("total_inactive_file", "total_active_file"),
    2: ("inactive_file", "active_file", "slab_reclaimable"),
}
"""Entries of ``memory.stat`` that the kernel takes back where memory is short, by version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """RAM that is free, and what there is beyond."""

    free_bytes: int
    """RAM that is given at full speed, page cache included."""
    slow_bytes: int = 0
    """Bytes beyond that are given, too, but slowly: swap, and RAM above ``memory.high``."""
    limit: str | None = None
    """The cgroup's file whose limit leaves the least; None where the machine does."""


def host_memory(root: Path = Path("/")) -> HostMemory:
    """Read what is free now, on the machine and in every cgroup of this process.

    Args:
        root: folder of ``proc`` and of the mounts of cgroups.
    """
    machine = psutil.virtual_memory().available + _zfs_bytes(root)
    free, most, limit = machine, machine, None
    swap = psutil.swap_memory().free
    for folder, version in cgroups(root, "memory"):
        high, hard, own_swap = _left(folder, version)
        swap = swap if own_swap is None else min(swap, own_swap)
        most = most if hard is None else min(most, hard)
        for name, left in ((_HARD[version], hard), ("memory.high", high)):
            if left is not None and left < free:
                free, limit = left, str(folder / name)
    return HostMemory(free_bytes=free, slow_bytes=most - free + swap, limit=limit)


def can_lock(n_bytes: int, root: Path = Path("/")) -> bool:
    """Whether this process may lock so many bytes in RAM.

    Args:
        n_bytes: all that is locked.
        root: folder of ``proc``.
    """
    limit, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if limit == resource.RLIM_INFINITY or limit >= n_bytes:
        return True
    with suppress(OSError):
        status = (root / "proc/self/status").read_text()
        rights = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return rights is not None and bool(int(rights[1], 16) >> _IPC_LOCK & 1)
    return False


def _zfs_bytes(root: Path) -> int:
    """Bytes that ZFS gives back of its cache, which ``MemAvailable`` takes for used."""
    stat = _entries(root / "proc/spl/kstat/zfs/arcstats")
    return max(0, stat.get("size", 0) - stat.get("c_min", 0))


_HARD = {1: "memory.limit_in_bytes", 2: "memory.max"}


def _left(folder: Path, version: int) -> tuple[int | None, int | None, int | None]:
    """Bytes left below the soft and the hard limit and of swap; None where there is no limit."""
    if version == 1:
        high, hard = None, _number(folder / _HARD[1])
        used, swap = _number(folder / "memory.usage_in_bytes"), _swap_left_v1(folder)
    else:
        high, hard = _number(folder / "memory.high"), _number(folder / _HARD[2])
        used, most = _number(folder / "memory.current"), _number(folder / "memory.swap.max")
        swapped = _number(folder / "memory.swap.current") or 0
        swap = None if most is None else max(0, most - swapped)
    if used is None:
        return None, None, swap
    stat = _entries(folder / "memory.stat")
    kept = max(0, used - sum(stat.get(name, 0) for name in _CACHE[version]))
    high, hard = (None if one is None else max(0, one - kept) for one in (high, hard))
    return high, hard, swap


def _swap_left_v1(folder: Path) -> int | None:
    """Bytes of swap left to a cgroup of version 1, which limits RAM and swap together."""
    names = ("memsw.limit", "limit", "memsw.usage", "usage")
    numbers = [_number(folder / f"memory.{name}_in_bytes") for name in names]
    known = [one for one in numbers if one is not None]
    if len(known) < len(names):
        return None
    both, ram, both_used, ram_used = known
    return max(0, both - ram - (both_used - ram_used))


def _number(path: Path) -> int | None:
    """The number in a file; None for ``max``, and where there is none."""
    with suppress(OSError, ValueError):
        number = int(path.read_text())
        return number if number < _NONE_V1 else None
    return None


def _entries(path: Path) -> Mapping[str, int]:
    """Names and numbers of a file, the last word of each line."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in path.read_text().splitlines():
            words = line.split()
            if words and words[-1].isdecimal():
                found[words[0]] = int(words[-1])
    return found
