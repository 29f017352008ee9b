"""Contents of procfs: the processors' times, a process's numbers."""

import os
from typing import NamedTuple

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
