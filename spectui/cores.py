"""The number of compute threads that llama-server takes by itself."""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

_DEVICES = Path("/sys/devices")
_FEW = 4
"""Processors up to which a machine that does not tell its cores uses all of them."""


def _may_run_on(cpu: int) -> bool:
    """Whether this thread may be pinned to ``cpu``: neither offline nor outside of its cgroup."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return False
    os.sched_setaffinity(0, before)
    return True


def default_threads(
    devices: Path = _DEVICES, may_run_on: Callable[[int], bool] = _may_run_on
) -> int:
    """Threads without ``-t``, as ``common_cpu_get_num_math`` of llama.cpp counts them on Linux.

    One per physical core; efficiency cores of hybrid processors are left out. The machine counts,
    not the affinity of the process; a cgroup's share only as llama.cpp notices it. What looks odd
    is its own: a performance core without hyperthreading hides the next one.

    Args:
        devices: Linux's folder of devices.
        may_run_on: tells whether a thread can be pinned to a processor.
    """
    return _performance_cores(devices, may_run_on) or _physical_cores(devices) or _guessed()


def _performance_cores(devices: Path, may_run_on: Callable[[int], bool]) -> int:
    """Those of a hybrid x86 processor; 0 if it is none, or one of its processors is out of reach.

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
