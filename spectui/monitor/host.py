"""The host: CPU, memory, and the reads from disk of the process with the models, by procfs."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from spectui.monitor.readings import CounterRate, HostReading, Reading

_KIB = 1 << 10
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+)", re.MULTILINE)
_READ_BYTES = re.compile(rb"^read_bytes: (\d+)", re.MULTILINE)
_SELF = "self"
_MAJOR_FAULTS = 9
"""Place of ``majflt`` in a process's ``stat``, behind its name."""
_Ticks = tuple[int, int]
"""Ticks of one core, of 10 ms each: idle, total."""
_MIN_TICKS = 5
_CORE_LINE_BYTES = 256
"""A line of /proc/stat holds ten numbers; what follows the cores is long, and not needed."""


class Host:
    """Reads the host. The files stay open: opening them would cost more than reading them."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        proc: Path = Path("/proc"),
        process: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Open the files.

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
        self._stat = ProcFile(proc / "stat", _CORE_LINE_BYTES * (1 + (os.cpu_count() or 1)))
        self._memory = ProcFile(proc / "meminfo", 4 * _KIB)
        self._process = _Process(proc / "self", clock)
        self._cores = _Cores(self._stat.read())

    def read(self) -> HostReading:
        """Return the host's present readings."""
        memory = {key: int(kib) * _KIB for key, kib in _MEMORY.findall(self._memory.read())}
        return HostReading(
            cpu_per_core=self._cores.update(self._stat.read()),
            memory_total_bytes=memory[b"MemTotal"],
            memory_available_bytes=memory[b"MemAvailable"],
            swap_used_bytes=memory[b"SwapTotal"] - memory[b"SwapFree"],
            **self._read_process(),
        )

    def close(self) -> None:
        """Close the files."""
        self._stat.close()
        self._memory.close()
        self._process.close()

    def _read_process(self) -> dict[str, Any]:
        """Fields about the process with the models; about this one where that has just ended."""
        try:
            self._follow(str(self._pid() or _SELF))
            return self._process.read()
        except OSError:
            self._follow(_SELF)
            return self._process.read()

    def _follow(self, name: str) -> None:
        if name != self._process.folder.name:
            found = _Process(self._proc / name, self._clock)
            self._process.close()
            self._process = found


class _Process:
    """Memory and reads of one process."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.folder = folder
        self._clock = clock
        self._statm = ProcFile(folder / "statm", _KIB)
        self._stat = ProcFile(folder / "stat", _KIB)
        self._io: ProcFile | str
        try:
            self._io = ProcFile(folder / "io", _KIB)
        except OSError as error:
            self._io = f"the system does not report disk reads of a process ({error.strerror})"
        self._disk_reads = CounterRate()
        self._faults = CounterRate()

    def read(self) -> dict[str, Any]:
        """Return fields of ``HostReading``.

        Raises:
            OSError: the process has ended.
        """
        _size, resident, shared = (int(n) for n in self._statm.read().split()[:3])
        # Its name, in brackets, may hold anything.
        numbers = self._stat.read().rpartition(b")")[2].split()
        return {
            "process_rss_bytes": resident * _PAGE_BYTES,
            "process_anonymous_bytes": Reading((resident - shared) * _PAGE_BYTES),
            "disk_read_bytes_per_s": self._disk_rate(),
            "major_faults_per_s": self._faults.update(int(numbers[_MAJOR_FAULTS]), self._clock()),
        }

    def _disk_rate(self) -> Reading:
        if isinstance(self._io, str):
            return Reading(None, self._io)
        found = _READ_BYTES.search(self._io.read())
        if found is None:
            return Reading(None, "the kernel does not count disk reads of a process")
        return self._disk_reads.update(int(found[1]), self._clock())

    def close(self) -> None:
        """Close the files."""
        for file in (self._statm, self._stat, self._io):
            if isinstance(file, ProcFile):
                file.close()


class ProcFile:
    """A file of procfs; every read sees its present content."""

    def __init__(self, path: Path, n_bytes: int) -> None:
        """Open ``path``; a read gives at most ``n_bytes``.

        Raises:
            OSError: it cannot be opened.
        """
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._n_bytes = n_bytes

    def read(self) -> bytes:
        """Return the content now; may be called from any thread.

        Raises:
            OSError: the kernel does not tell.
        """
        return os.pread(self._fd, self._n_bytes, 0)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


class _Cores:
    """Busy shares of the cores between two reads of /proc/stat."""

    def __init__(self, stat: bytes) -> None:
        self._last = list(_core_ticks(stat))
        self._shares: tuple[float, ...] = ()

    def update(self, stat: bytes) -> tuple[float, ...]:
        """Return the share per core, over at least 50 ms: before that, as it was."""
        ticks = list(_core_ticks(stat))
        if len(ticks) != len(self._last):
            # A core went offline or came back: which one, the next read tells.
            self._last, self._shares = ticks, ()
        elif _elapsed_ticks(self._last, ticks) >= _MIN_TICKS:
            self._shares = tuple(map(_busy_share, self._last, ticks))
            self._last = ticks
        return self._shares


def _core_ticks(stat: bytes) -> Iterator[_Ticks]:
    """Yield each core's ticks since the machine was started."""
    for line in stat.splitlines()[1:]:
        if not line.startswith(b"cpu"):
            return
        # user nice system idle iowait irq softirq steal; guests are part of user and nice.
        ticks = [int(number) for number in line.split()[1:9]]
        yield ticks[3] + ticks[4], sum(ticks)


def _elapsed_ticks(before: list[_Ticks], after: list[_Ticks]) -> int:
    return max(now - then for (_, then), (_, now) in zip(before, after, strict=True))


def _busy_share(before: _Ticks, after: _Ticks) -> float:
    idle, total = after[0] - before[0], after[1] - before[1]
    # The kernel's idle time may step back a little.
    return min(max(1 - idle / total, 0.0), 1.0) if total > 0 else 0.0


def hottest_c() -> Reading:
    """Highest temperature of the host's sensors, in degrees Celsius."""
    values = [
        sensor.current for group in psutil.sensors_temperatures().values() for sensor in group
    ]
    if not values:
        return Reading(None, "the system tells no temperature")
    return Reading(max(values))
