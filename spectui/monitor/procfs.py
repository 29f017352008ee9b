"""Files of procfs that are read again and again: the processors' times, a process's numbers."""

import os
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = float(os.sysconf("SC_CLK_TCK"))
_FILE_BYTES = 1 << 17
"""/proc/stat has a hundred bytes for each core; what follows the cores is not needed."""


class ProcFile:
    """A file of procfs, which stays open: opening it would cost more than reading it."""

    def __init__(self, path: Path) -> None:
        """Open ``path``.

        Raises:
            OSError: it cannot be opened.
        """
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return the content now; may be called from any thread.

        Raises:
            OSError: the kernel does not tell.
        """
        return os.pread(self._fd, _FILE_BYTES, 0)

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


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
