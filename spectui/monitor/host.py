"""Reads the host from procfs: CPU, memory, and disk reads of the process with the models."""

import os
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from spectui.monitor.readings import CounterRate, HostReading, Reading

TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))


class CpuTimes(NamedTuple):
    """Seconds of a core, or of several together, since the machine was started."""

    busy_s: float
    idle_s: float
    iowait_s: float
    steal_s: float
    """Time that the hypervisor gave to others while there was work here."""


def whole_times(stat: bytes) -> CpuTimes:
    """Return the kernel's own sum over all cores, which is rounded once."""
    return _times(stat.partition(b"\n")[0].split())


def core_times(stat: bytes) -> dict[int, CpuTimes]:
    """Return each core's times by its number."""
    cores = [line.split() for line in stat.splitlines()[1:] if line.startswith(b"cpu")]
    return {int(core[0][3:]): _times(core) for core in cores}


def _times(words: list[bytes]) -> CpuTimes:
    # Guests are part of user and nice.
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(word) / TICKS_PER_S for word in words[1:9]
    )
    return CpuTimes(user + nice + system + irq + softirq, idle, iowait, steal)


def process_words(stat: bytes) -> tuple[bytes, list[bytes]]:
    """Return a process's name and the words behind it, none where it has just ended."""
    # The name may hold anything, parentheses and spaces as well.
    name, _, rest = stat.partition(b"(")[2].rpartition(b")")
    return name, rest.split()


_KIB = 1 << 10
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+)", re.MULTILINE)
_READ_BYTES = re.compile(rb"^read_bytes: (\d+)", re.MULTILINE)
_SELF = "self"
_MAJOR_FAULTS = 9
"""Place of ``majflt`` in a process's ``stat``, behind its name."""
_CPU_TICKS = slice(11, 13)
"""Places of ``utime`` and ``stime`` there."""
_SHARED_PAGES = 2
"""Place in a process's ``statm``: pages of files, and of memory that processes share."""
_SHORTEST_S = 0.045
"""Time of a core below which its share would be coarse: /proc/stat counts in steps of 10 ms."""


class Host:
    """Reads the host."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        proc: Path = Path("/proc"),
        process: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Read for the first time.

        Args:
            clock: rates refer to it.
            proc: where procfs is.
            process: asked at every reading for the process with the models; None for this one.

        Raises:
            OSError: procfs is not there.
        """
        self._clock = clock
        self._proc = proc
        self._pid = process
        self._process = _Process(proc / _SELF)
        self._cores = _Cores((proc / "stat").read_bytes())

    def read(self) -> HostReading:
        """Return the host's present readings."""
        found = _MEMORY.findall((self._proc / "meminfo").read_bytes())
        memory = {key: int(kib) * _KIB for key, kib in found}
        return HostReading(
            cpu_per_core=self._cores.update((self._proc / "stat").read_bytes()),
            memory_total_bytes=memory[b"MemTotal"],
            memory_available_bytes=memory[b"MemAvailable"],
            swap_used_bytes=memory[b"SwapTotal"] - memory[b"SwapFree"],
            **self._read_process(),
        )

    def _read_process(self) -> dict[str, Reading]:
        """Fields about the process with the models; about this one where that has just ended."""
        folder = self._proc / str(self._pid() or _SELF)
        try:
            stat = (folder / "stat").read_bytes()
        except OSError:
            folder = self._proc / _SELF
            stat = (folder / "stat").read_bytes()
        if folder != self._process.folder:
            self._process = _Process(folder)
        return self._process.read(stat, self._clock())


class _Process:
    """Reads of one process from disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._disk_reads, self._faults, self._ticks = CounterRate(), CounterRate(), CounterRate()

    def read(self, stat: bytes, now_s: float) -> dict[str, Reading]:
        """Return fields of ``HostReading``; ``stat`` is the content of its ``stat``."""
        _name, words = process_words(stat)
        ticks = self._ticks.update(sum(map(int, words[_CPU_TICKS])), now_s)
        return {
            "disk_read_bytes_per_s": self._disk_rate(now_s),
            "major_faults_per_s": self._faults.update(int(words[_MAJOR_FAULTS]), now_s),
            "mapped_bytes": self._mapped(),
            "process_cores": ticks if ticks.value is None else Reading(ticks.value / TICKS_PER_S),
        }

    def _mapped(self) -> Reading:
        try:
            pages = int((self.folder / "statm").read_bytes().split()[_SHARED_PAGES])
        except (OSError, IndexError) as error:
            return Reading(None, f"the system does not report what a process has mapped ({error})")
        return Reading(pages * resource.getpagesize())

    def _disk_rate(self, now_s: float) -> Reading:
        try:
            found = _READ_BYTES.search((self.folder / "io").read_bytes())
        except OSError as error:
            why = f"the system does not report disk reads of a process ({error.strerror})"
            return Reading(None, why)
        if found is None:
            return Reading(None, "the kernel does not count disk reads of a process")
        return self._disk_reads.update(int(found[1]), now_s)


class _Cores:
    """Busy shares of the cores between two reads of /proc/stat."""

    def __init__(self, stat: bytes) -> None:
        self._last = core_times(stat)
        self._shares: tuple[float, ...] = ()

    def update(self, stat: bytes) -> tuple[float, ...]:
        """Return the share per core, over at least 50 ms: before that, as it was."""
        last, cores = self._last, core_times(stat)
        if cores.keys() != last.keys():
            # A core went offline or came back: shares are known again at the next read.
            self._last, self._shares = cores, ()
        elif max(sum(cores[core]) - sum(last[core]) for core in cores) >= _SHORTEST_S:
            self._last = cores
            self._shares = tuple(_busy_share(last[core], cores[core]) for core in cores)
        return self._shares


def _busy_share(before: CpuTimes, after: CpuTimes) -> float:
    total_s = sum(after) - sum(before)
    idle_s = after.idle_s + after.iowait_s - before.idle_s - before.iowait_s
    # The kernel's idle time may step back a little.
    return min(max(1 - idle_s / total_s, 0.0), 1.0) if total_s > 0 else 0.0
