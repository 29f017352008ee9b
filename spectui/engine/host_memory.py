"""RAM that this process can still be given, within the limits of its cgroups.

The kernel drops what lies in the page cache before it refuses memory, mapped weights included, so
that cache counts as free here: in the machine's ``MemAvailable``, and as the reclaimable part of a
cgroup's ``memory.current``. Each level of the tree has a limit of its own, ``memory.max``, and the
tightest one counts.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from spectui.cores import cgroups

_CACHE = ("inactive_file", "active_file", "slab_reclaimable")
"""Entries of ``memory.stat`` that the kernel takes back where memory is short."""


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
