"""Computes llama-server's default number of threads, and the processors that a process may use."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

_DEVICES = Path("/sys/devices")
_N_PARTS = 3
"""Parts of a line of ``/proc/self/cgroup``: number, controllers and path."""
_MOUNT = re.compile(r"\S+ \S+ \S+ (\S+) (\S+) \S+ (?:\S+ )*?- (\S+) \S* (\S+)$")
"""A line of ``/proc/self/mountinfo``, whose source may be empty: root, mount point, type of the
file system and options."""
_CPU = "cpu"
"""Controller of version 1."""
_FEW = 4
"""Processors up to which all are used on a machine whose physical cores are unknown."""


def may_run_on(cpu: int) -> bool:
    """Whether this thread may be pinned to ``cpu``: neither offline nor outside of its cgroup."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return False
    os.sched_setaffinity(0, before)
    return True


def default_threads(
    devices: Path = _DEVICES, may_run_on: Callable[[int], bool] = may_run_on
) -> int:
    """llama-server's threads without ``-t``, by the rule of its ``common_cpu_get_num_math``.

    One per physical core; efficiency cores of hybrid processors are left out. The machine counts,
    not the affinity of the process; a cgroup's share only as llama.cpp notices it. A performance
    core without hyperthreading hides the next one, as in llama.cpp.

    Args:
        devices: Linux's folder of devices.
        may_run_on: tells whether a thread can be pinned to a processor.
    """
    return _performance_cores(devices, may_run_on) or _physical_cores(devices) or _guessed()


def _performance_cores(devices: Path, may_run_on: Callable[[int], bool]) -> int:
    """Performance cores of a hybrid x86 processor; 0 without such, or where one is out of reach.

    llama.cpp asks each processor for its type. The kernel lists them by type for its counters.
    """
    fast = _processors(devices / "cpu_core/cpus")
    found, cpus = 0, iter(range(len(_processors(devices / "system/cpu/online")) if fast else 0))
    for cpu in cpus:
        if not may_run_on(cpu):
            return 0
        if cpu in fast:
            found += 1
            next(cpus, None)  # its other thread
    return found


def _physical_cores(devices: Path) -> int:
    """Distinct groups of sibling threads; 0 if the kernel tells none, or none at the first."""
    siblings = set()
    for cpu in count():
        path = devices / f"system/cpu/cpu{cpu}/topology/thread_siblings"
        try:
            siblings.add(path.read_text())
        except OSError:
            break
    return len(siblings - {""})


def _guessed() -> int:
    n_logical = os.cpu_count() or _FEW
    return n_logical if n_logical <= _FEW else n_logical // 2


def _processors(path: Path) -> frozenset[int]:
    """Numbers of a list such as ``0-15,20``; none if there is no such file."""
    try:
        parts = path.read_text().strip().split(",")
    except OSError:
        return frozenset()
    ranges = (part.partition("-") for part in parts if part)
    return frozenset(
        cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1)
    )


def threads_to_take() -> int:
    """Default number of threads for measurements: 0 for llama-server's own default.

    More threads than processors wait for each other in every step. So the result is not 0 where
    this process may use fewer processors than llama-server counts on the machine. Commands then
    have to state the number, which the server would not find by itself.
    """
    own = default_threads()
    found = min(own, usable_processors())
    return 0 if found == own else found


def usable_processors(root: Path = Path("/")) -> int:
    """Processors that this process may use at once: its affinity, and the tightest cgroup limit.

    Args:
        root: folder of ``proc`` and of the mounts of cgroups.
    """
    usable = [len(os.sched_getaffinity(0))]
    for folder, _version in cgroups(root):
        with suppress(OSError, ValueError, ArithmeticError):
            allowed = cores_allowed(folder)
            # A thread that is held back for part of the time holds back all.
            usable += [] if allowed is None else [int(allowed)]
    return max(1, min(usable))


def cores_allowed(folder: Path) -> float | None:
    """The CPU limit of a cgroup in cores; None if it has none.

    Raises:
        OSError: its files cannot be read.
        ArithmeticError, ValueError: they hold something else.
    """
    if (folder / "cpu.max").is_file():
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    if (folder / "cpu.cfs_quota_us").is_file():
        n_us = int((folder / "cpu.cfs_quota_us").read_text())
        return None if n_us <= 0 else n_us / int((folder / "cpu.cfs_period_us").read_text())
    return None


def cgroups(root: Path) -> Iterator[tuple[Path, int]]:
    """Yield this process's cgroups, innermost first, with their version: 2, or 1 for the CPU.

    Those above are among them, as far as they are visible from here.

    Args:
        root: folder of ``proc`` and of the mounts of cgroups.
    """
    try:
        # Paths need not be UTF-8.
        groups = os.fsdecode((root / "proc/self/cgroup").read_bytes()).splitlines()
        mounts = os.fsdecode((root / "proc/self/mountinfo").read_bytes()).splitlines()
    except OSError:
        return
    parts = (line.split(":", 2) for line in groups)
    paths = {part[1]: part[2] for part in parts if len(part) == _N_PARTS}
    for line in mounts:
        mount = _MOUNT.match(line)
        if mount is None:
            continue
        inside, point, kind, options = mount.groups()
        if kind == "cgroup2" and "" in paths:
            path, version = paths[""], 2
        elif kind == "cgroup" and _CPU in options.split(","):
            path = next((path for one, path in paths.items() if _CPU in one.split(",")), "/")
            version = 1
        else:
            continue
        top = root / point.lstrip("/")
        # A container sees its own cgroup where the mount begins.
        below = path.removeprefix(inside.rstrip("/")).strip("/")
        folder = top / below if (top / below).is_dir() else top
        for one in (folder, *folder.parents):
            yield one, version
            if one == top:
                break
