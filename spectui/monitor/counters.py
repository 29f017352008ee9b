"""Reads counters of the machine: processor times by owner, waiting for memory, clocks.

A ``Mark`` takes less than 0.1 ms, so that one can be set at each end of a measurement. The
difference of two is used (``disturbance.between``).
"""

import os
import re
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from spectui.cores import cgroups, cores_allowed
from spectui.monitor.host import CpuTimes, core_times, whole_times
from spectui.monitor.processes import Key, Processes
from spectui.monitor.readings import UNREAD, Reading

_PRESSED = re.compile(rb"^some .*\btotal=(\d+)", re.MULTILINE)


class Clocks(NamedTuple):
    """The machine's clocks and this process's, in seconds, each from a beginning of its own."""

    monotonic_s: float
    """Stands still while the machine sleeps, where ``boot_s`` does not."""
    boot_s: float
    """Goes on while it sleeps."""
    own_s: float
    """CPU time of this process, and of its children that have ended."""


def read_clocks() -> Clocks:
    """The clocks now."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Clocks(
        time.monotonic(),
        time.clock_gettime(time.CLOCK_BOOTTIME),
        time.process_time() + ended.ru_utime + ended.ru_stime,
    )


class Slow(NamedTuple):
    """Readings that change slowly, or cost much, as they were last read."""

    n_throttles: Reading = UNREAD
    """Times that the processor slowed itself down, since the machine was started."""
    gpu_others: Reading = UNREAD
    """Share that others took of the GPU, of those that this process uses."""
    gpu_slowed: Reading = UNREAD
    """1 where such a GPU holds its clocks back, else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Counters of the machine at one moment."""

    clocks: Clocks
    n_cores: int
    """Cores that this process may run on."""
    cpu: CpuTimes
    """Times of those cores together."""
    n_usable: float
    """Cores that this process may use at once: fewer than ``n_cores`` under a cgroup's limit."""
    started: Mapping[Key, float]
    """CPU time of living processes that belong to this one."""
    memory_pressure_s: Reading
    """Time in which some task waited for memory."""
    throttled_s: Reading
    """Time for which cgroups' CPU limits held processes back, summed over cores."""
    slow: Slow


class Counters:
    """Reads the counters, from any thread."""

    def __init__(
        self,
        processes: Processes,
        *,
        root: Path = Path("/"),
        clocks: Callable[[], Clocks] = read_clocks,
    ) -> None:
        """Find the counters that the system has.

        Args:
            processes: tracks the living processes that belong to this one.
            root: folder with ``proc`` and ``sys``.
            clocks: the clocks now.
        """
        self._processes = processes
        self._clocks = clocks
        self._cores = _affinity()
        self._proc = root / "proc"
        self._throttling, self._limit = _throttling(root)

    def read(self, slow: Slow) -> Mark:
        """Return the counters' present values, beside ``slow``."""
        stat = (self._proc / "stat").read_bytes()
        if self._cores is None:
            n_cores, cpu = stat.count(b"\ncpu"), whole_times(stat)
        else:
            # Where /proc belongs to a container, cores may have other numbers there.
            own = [times for core, times in core_times(stat).items() if core in self._cores]
            n_cores, cpu = (
                len(own),
                CpuTimes(*map(sum, zip(*own or [whole_times(stat)], strict=True))),
            )
        n_cores = n_cores or len(self._cores or ()) or os.cpu_count() or 1
        return Mark(
            clocks=self._clocks(),
            n_cores=n_cores,
            cpu=cpu,
            n_usable=n_cores if self._limit is None else min(n_cores, self._limit),
            started=self._processes.own_cpu_s(),
            memory_pressure_s=self._memory_pressure(),
            throttled_s=self._throttled(),
            slow=slow,
        )

    def _memory_pressure(self) -> Reading:
        # Where it was turned off at boot, the file is there and reading it fails.
        with suppress(OSError):
            found = _PRESSED.search((self._proc / "pressure/memory").read_bytes())
            if found is not None:
                return Reading(int(found[1]) / 1e6)
        return Reading(None, "the kernel does not report it (there is no /proc/pressure/memory)")

    def _throttled(self) -> Reading:
        if isinstance(self._throttling, str):
            return Reading(None, self._throttling)
        total_s = 0.0
        for path, (key, per_s) in self._throttling:
            try:
                words = path.read_bytes().split()
                total_s += int(words[words.index(key) + 1]) / per_s
            except (OSError, ValueError):
                return Reading(None, "the cgroup of this process is not there any more")
        return Reading(total_s)


_THROTTLED = {1: (b"throttled_time", 1e9), 2: (b"throttled_usec", 1e6)}
"""By the version of cgroups: key and units of a second."""
_Throttling = tuple[tuple[Path, tuple[bytes, float]], ...]


def _throttling(root: Path) -> tuple[_Throttling | str, float | None]:
    """Files of the cgroups with a CPU limit that hold this process, and the tightest limit.

    A limit counts where it is set: the cgroups above are looked at as well, as far as they are
    visible from here. Limits that are set later are not seen.

    Returns:
        The files, or why there are none; and cores, or None without a limit.
    """
    found, limits, is_seen = [], list[float](), False
    for folder, version in cgroups(root):
        with suppress(OSError, ValueError, ArithmeticError):
            is_seen = is_seen or (folder / "cpu.stat").is_file()
            n_cores = cores_allowed(folder)
            if n_cores is not None:
                found.append((folder / "cpu.stat", _THROTTLED[version]))
                limits.append(n_cores)
    if not (found or is_seen):
        return "no cgroup with a CPU controller is visible here", None
    return tuple(found), min(limits, default=None)


def _affinity() -> frozenset[int] | None:
    """Numbers of the cores that this process may use; None for all."""
    cores = frozenset(os.sched_getaffinity(0))
    return None if len(cores) >= (os.cpu_count() or 1) else cores
