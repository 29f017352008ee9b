"""How busy the machine was while it decoded: means of the last readings, for the bottleneck."""

from collections import deque
from collections.abc import Callable, Iterable

from spectui.live.throughput import ratio
from spectui.monitor.readings import GpuReading, Snapshot

_N_MEAN = 8
"""Readings: two seconds at the usual pace."""


class MachineLoad:
    """Takes readings that were made while something was decoded."""

    def __init__(self) -> None:
        """Start without any."""
        self._snapshots: deque[Snapshot] = deque(maxlen=_N_MEAN)

    def add(self, snapshot: Snapshot) -> None:
        """Take one."""
        self._snapshots.append(snapshot)

    def pcie_use(self) -> float | None:
        """Share of its limit that the busiest link takes, in its busier direction."""
        return self._mean(lambda snapshot: _most(map(_link_use, snapshot.gpus)))

    def gpu_use(self) -> float | None:
        """Share of time that the busiest GPU computes."""
        return self._mean(lambda snapshot: _most(gpu.utilisation.value for gpu in snapshot.gpus))

    def cores_busy(self) -> float | None:
        """Share of time that the busier half of the logical cores computes."""
        return self._mean(_busier_half)

    def disk_bytes_per_s(self) -> float | None:
        """What this process reads from disk."""
        return self._mean(lambda snapshot: snapshot.host.disk_read_bytes_per_s.value)

    def _mean(self, read: Callable[[Snapshot], float | None]) -> float | None:
        values = [value for value in map(read, self._snapshots) if value is not None]
        return sum(values) / len(values) if values else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _link_use(gpu: GpuReading) -> float | None:
    busier = _most((gpu.pcie_rx_bytes_per_s.value, gpu.pcie_tx_bytes_per_s.value))
    return ratio(busier, gpu.pcie_limit_bytes_per_s.value)


def _busier_half(snapshot: Snapshot) -> float | None:
    cores = sorted(snapshot.host.cpu_per_core, reverse=True)
    half = cores[: (len(cores) + 1) // 2]
    return sum(half) / len(half) if half else None
