"""Readings of the monitor: frozen snapshots of the machine. A missing reading has a reason."""

from dataclasses import dataclass

from spectui.known import Known

Reading = Known[float]
"""A number, or the reason why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one moment."""

    index: int
    name: str
    memory_used_bytes: Reading
    memory_total_bytes: Reading
    process_bytes: Reading
    """Part of the used memory that this process holds."""
    utilisation: Reading
    """0 to 1."""
    power_w: Reading
    temperature_c: Reading
    clock_hz: Reading
    """Clock of the streaming multiprocessors."""
    pcie_generation: Reading
    """Generation of the link as it is now; links slow down when idle."""
    pcie_width: Reading
    """Lanes."""
    pcie_limit_bytes_per_s: Reading
    """Limit of the link at its present generation and width, per direction."""
    pcie_rx_bytes_per_s: Reading
    """Received by the GPU: weights and activations going in."""
    pcie_tx_bytes_per_s: Reading
    """Sent by the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """CPU, memory and disk at one moment."""

    cpu_per_core: tuple[float, ...]
    """Busy share of each logical core, 0 to 1. Empty at first: a share needs two samples."""
    memory_total_bytes: int
    memory_available_bytes: int
    swap_used_bytes: int
    process_rss_bytes: int
    """Resident memory of this process, mapped weights included."""
    process_anonymous_bytes: Reading
    """Resident memory of this process without mapped files."""
    disk_read_bytes_per_s: Reading
    """Read from disk by this process: mapped weights that were not in memory."""
    major_faults_per_s: Reading
    """Page faults of this process that had to wait for the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The machine at one moment."""

    time_s: float
    """On the sampler's clock."""
    gpus: tuple[GpuReading, ...]
    gpu_reason: str | None
    """Why ``gpus`` is empty; None if it is not."""
    host: HostReading
