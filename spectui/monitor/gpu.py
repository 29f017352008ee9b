"""One GPU: every metric at its own cadence, every refusal a reason."""

from collections.abc import Callable

from spectui.monitor import queries
from spectui.monitor.nvml import NvmlError
from spectui.monitor.pcie import PcieMeter, link_limit_bytes_per_s
from spectui.monitor.process import process_bytes
from spectui.monitor.queries import Handle
from spectui.monitor.readings import GpuReading, Reading

Query = Callable[[Handle], float]

_ALWAYS_S = 0.0
_EACH_SECOND_S = 1.0
_SLOWLY_S = 2.0
_REFUSED_S = 30.0
"""What a driver refuses for good is asked for seldom, not never: permissions change."""

_METRICS: dict[str, tuple[str, float, Query]] = {
    "memory_used_bytes": ("memory", _ALWAYS_S, queries.memory_used_bytes),
    "memory_total_bytes": ("memory", _SLOWLY_S, queries.memory_total_bytes),
    "process_bytes": ("memory per process", _EACH_SECOND_S, process_bytes),
    "utilisation": ("utilisation", _ALWAYS_S, queries.utilisation),
    "power_w": ("power", _EACH_SECOND_S, queries.power_w),
    "temperature_c": ("temperature", _SLOWLY_S, queries.temperature_c),
    "clock_hz": ("the clock", _EACH_SECOND_S, queries.clock_hz),
    # A link slows down with the power state: what it was once is not what it is.
    "pcie_generation": ("the PCIe generation", _SLOWLY_S, queries.pcie_generation),
    "pcie_width": ("the PCIe width", _SLOWLY_S, queries.pcie_width),
}
"""Field of ``GpuReading``: its name in a reason, how often to ask, and what."""


class Gpu:
    """Reads one GPU for as long as it answers."""

    def __init__(self, index: int, name: str, gpu: Handle, clock: Callable[[], float]) -> None:
        """Read ``gpu``; PCIe rates refer to ``clock``."""
        self._index = index
        self._name = name
        self._metrics = {field: Metric(gpu, *how) for field, how in _METRICS.items()}
        self._pcie = PcieMeter(gpu, clock)

    def read(self, now_s: float) -> GpuReading:
        """Return what the GPU does now.

        Raises:
            NvmlError: it was lost.
        """
        readings = {field: metric.read(now_s) for field, metric in self._metrics.items()}
        received, sent = self._pcie.read()
        return GpuReading(
            index=self._index,
            name=self._name,
            pcie_limit_bytes_per_s=_limit(readings["pcie_generation"], readings["pcie_width"]),
            pcie_rx_bytes_per_s=received,
            pcie_tx_bytes_per_s=sent,
            **readings,
        )

    def close(self) -> None:
        """End what runs in the background."""
        self._pcie.close()


class Metric:
    """One number of one GPU, asked for again once it is older than its period."""

    def __init__(self, gpu: Handle, what: str, period_s: float, query: Query) -> None:
        """Ask ``query`` of ``gpu``; ``what`` names the number in a reason."""
        self._gpu = gpu
        self._what = what
        self._period_s = period_s
        self._query = query
        self._due_s = float("-inf")
        self._reading = Reading(None)

    def read(self, now_s: float) -> Reading:
        """Return the number, or why there is none.

        Raises:
            NvmlError: the GPU was lost.
        """
        if now_s >= self._due_s:
            self._due_s = now_s + self._period_s
            try:
                self._reading = Reading(self._query(self._gpu))
            except NvmlError as error:
                if error.is_lost:
                    raise
                self._reading = Reading(None, error.reason(self._what))
                if error.is_permanent:
                    self._due_s = now_s + _REFUSED_S
        return self._reading


def _limit(generation: Reading, width: Reading) -> Reading:
    if generation.value is None or width.value is None:
        return Reading(None, generation.reason or width.reason)
    limit = link_limit_bytes_per_s(generation.value, width.value)
    if limit is None:
        return Reading(None, f"the speed of PCIe generation {generation.value:.0f} is not known")
    return Reading(limit)
