"""Readings that no machine made: what the decode of an offloaded MoE target does to a GPU.

Screens and tests need a GPU that is busy in known ways: experts run on the CPU, so that PCIe is
nearly idle and DRAM is the limit.
"""

import math
from collections.abc import Iterator

from spectui.documents import Known
from spectui.monitor.readings import GpuReading, HostReading, Reading, Snapshot

_UNTOLD = "this GPU does not tell it"
_DESKTOP_BYTES = 1.1e9
_OFFLOADED_BYTES = 20_600_000_000
"""Attention, shared weights, the draft, KV and compute buffers."""
_MAPPED_BYTES = 38_000_000_000
"""Experts, in host memory."""
_ANONYMOUS_BYTES = 1_300_000_000
_GENERATION, _WIDTH, _LIMIT_BYTES_PER_S = 4, 16, 16 * 1.969e9


def snapshots() -> Iterator[Snapshot]:
    """Yield fifteen seconds, the same ones every time."""
    for number in range(60, 120):
        time_s = number * 0.25
        yield Snapshot(gpus=(_gpu(time_s),), gpu_reason=None, host=_host(time_s))


def _wave(time_s: float, low: float, high: float, period_s: float) -> float:
    """A number between ``low`` and ``high`` that looks alive: two sines that do not line up."""
    swing = 0.7 * math.sin(math.tau * time_s / period_s) + 0.3 * math.sin(5.3 * time_s / period_s)
    return round(low + (high - low) * (0.5 + swing / 2), 3)


def _gpu(time_s: float) -> GpuReading:
    return GpuReading(
        index=0,
        name="Constructed GPU 24 GB",
        memory_used_bytes=Reading(_OFFLOADED_BYTES + _DESKTOP_BYTES),
        memory_total_bytes=Reading(24 << 30),
        utilisation=Reading(round(_wave(time_s, 0.27, 0.34, 2.9), 2)),
        power_w=Reading(_wave(time_s, 98, 118, 2.9)),
        temperature_c=Reading(round(46 + 12 * (1 - math.exp(-time_s / 9)))),
        throttled_by=Known(None, _UNTOLD),
        pcie_generation=Reading(_GENERATION),
        pcie_width=Reading(_WIDTH),
        pcie_limit_bytes_per_s=Reading(_LIMIT_BYTES_PER_S),
        pcie_rx_bytes_per_s=Reading(_wave(time_s, 38e6, 92e6, 2.1)),
        pcie_tx_bytes_per_s=Reading(_wave(time_s, 14e6, 33e6, 2.1)),
    )


def _host(time_s: float) -> HostReading:
    # Eight threads compute, one per core; the second thread of each core has little to do.
    cores = [_wave(time_s + core, 0.92, 0.99, 1.9) for core in range(8)]
    idle = [_wave(time_s + core, 0.01, 0.07, 3.1) for core in range(8)]
    return HostReading(
        cpu_per_core=(*cores, *idle),
        memory_total_bytes=64 << 30,
        memory_available_bytes=58_500_000_000 - _ANONYMOUS_BYTES,
        swap_used_bytes=0,
        disk_read_bytes_per_s=Reading(0.0),
        major_faults_per_s=Reading(0.0),
    )
