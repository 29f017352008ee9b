"""Readings that no machine made: what an offloaded MoE target does to a GPU, as arithmetic.

Screens and tests need a GPU that is busy in known ways.

Seconds 0 to 8: the models load; what arrives in GPU memory comes over PCIe, and the rest of the
weights is mapped from disk. Seconds 8 to 13: a long prompt is evaluated; batches are large, so
experts are copied to the GPU, and PCIe is the limit. Then to second 30: decode; experts run
on the CPU, PCIe is nearly idle and DRAM is the limit.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from spectui.known import Known
from spectui.monitor.metrics import link_limit_bytes_per_s
from spectui.monitor.readings import GpuReading, HostReading, Reading, Snapshot

_N_SAMPLES = 120
INTERVAL_S = 0.25
_UNTOLD = "this GPU does not tell it"
_LOADED_S = 8.0
_PROMPT_END_S = 13.0
_GPU_MEMORY_BYTES = 24 << 30
_DESKTOP_BYTES = 1.1e9
_OFFLOADED_BYTES = 20.6e9
"""Attention, shared weights, the draft, KV and compute buffers."""
_MAPPED_BYTES = 38e9
"""Experts, in host memory."""
_GENERATION, _WIDTH = 4, 16


def snapshots() -> Iterator[Snapshot]:
    for number in range(_N_SAMPLES):
        time_s = number * INTERVAL_S
        yield Snapshot(time_s=time_s, gpus=(_gpu(time_s),), gpu_reason=None, host=_host(time_s))


def _wave(time_s: float, low: float, high: float, period_s: float) -> float:
    """A number between ``low`` and ``high`` that looks alive: two sines that do not line up."""
    swing = 0.7 * math.sin(math.tau * time_s / period_s) + 0.3 * math.sin(5.3 * time_s / period_s)
    return round(low + (high - low) * (0.5 + swing / 2), 3)


def _loaded_share(time_s: float) -> float:
    return min(time_s / _LOADED_S, 1.0)


def _gpu(time_s: float) -> GpuReading:
    process_bytes = round(_OFFLOADED_BYTES * _loaded_share(time_s))
    common = GpuReading(
        index=0,
        name="Constructed GPU 24 GB",
        memory_used_bytes=Reading(process_bytes + _DESKTOP_BYTES),
        memory_total_bytes=Reading(_GPU_MEMORY_BYTES),
        process_bytes=Reading(process_bytes),
        utilisation=Reading(round(_wave(time_s, 0.02, 0.09, 1.7), 2)),
        power_w=Reading(_wave(time_s, 90, 98, 2.3)),
        temperature_c=Reading(round(46 + 12 * (1 - math.exp(-time_s / 9)))),
        clock_hz=Reading(2.52e9),
        memory_clock_hz=Reading(None, _UNTOLD),
        throttled_by=Known(None, _UNTOLD),
        pcie_generation=Reading(_GENERATION),
        pcie_width=Reading(_WIDTH),
        pcie_limit_bytes_per_s=Reading(link_limit_bytes_per_s(_GENERATION, _WIDTH)),
        pcie_rx_bytes_per_s=Reading(round(_OFFLOADED_BYTES / _LOADED_S)),
        pcie_tx_bytes_per_s=Reading(_wave(time_s, 4e6, 9e6, 1.1)),
    )
    if time_s < _LOADED_S:
        return common
    if time_s < _PROMPT_END_S:
        return replace(
            common,
            utilisation=Reading(round(_wave(time_s, 0.58, 0.93, 1.3), 2)),
            power_w=Reading(_wave(time_s, 148, 180, 1.3)),
            pcie_rx_bytes_per_s=Reading(_wave(time_s, 9e9, 25.5e9, 1.3)),
            pcie_tx_bytes_per_s=Reading(_wave(time_s, 0.25e9, 0.6e9, 1.3)),
        )
    return replace(
        common,
        utilisation=Reading(round(_wave(time_s, 0.27, 0.34, 2.9), 2)),
        power_w=Reading(_wave(time_s, 98, 118, 2.9)),
        pcie_rx_bytes_per_s=Reading(_wave(time_s, 38e6, 92e6, 2.1)),
        pcie_tx_bytes_per_s=Reading(_wave(time_s, 14e6, 33e6, 2.1)),
    )


def _host(time_s: float) -> HostReading:
    loading = time_s < _LOADED_S
    # Eight threads compute, one per core; the second thread of each core has little to do.
    busy = (0.18, 0.35) if loading else (0.92, 0.99) if time_s >= _PROMPT_END_S else (0.3, 0.5)
    cores = [_wave(time_s + core, *busy, 1.9) for core in range(8)]
    idle = [_wave(time_s + core, 0.01, 0.07, 3.1) for core in range(8)]
    anonymous_bytes = round(1.3e9 * _loaded_share(time_s))
    return HostReading(
        cpu_per_core=(*cores, *idle),
        memory_total_bytes=64 << 30,
        memory_available_bytes=round(58.5e9) - anonymous_bytes,
        swap_used_bytes=0,
        process_rss_bytes=round(_MAPPED_BYTES * _loaded_share(time_s)) + anonymous_bytes,
        process_anonymous_bytes=Reading(anonymous_bytes),
        disk_read_bytes_per_s=Reading(_wave(time_s, 2.9e9, 3.5e9, 1.6) if loading else 0.0),
        major_faults_per_s=Reading(round(_wave(time_s, 5500, 7000, 1.6)) if loading else 0.0),
    )
