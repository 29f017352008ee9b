"""Readings of the monitor: snapshots of the machine, rates of counters, the recent past."""

import re
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from spectui.documents import Known

Reading = Known[float]
"""A number, or the reason why there is none."""
UNREAD = Reading(None, "not read yet")
_ADDRESS = re.compile(r"(?:0*([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])(?:-v\d+)?")


def pci_address(text: str | None) -> str | None:
    """Return a PCI address as Linux writes it, such as ``0000:01:00.0``.

    NVML's domains have eight digits; llama.cpp's virtual devices carry a number behind the card's
    address.

    Args:
        text: an address in any of these forms.

    Returns:
        None for what is no such address: some systems number devices in another way.
    """
    match = _ADDRESS.fullmatch(text.strip().lower()) if text else None
    return match and f"{match[1] or '0':>04}:{match[2]}:{match[3]}.{match[4]}"


class Throttle(StrEnum):
    """Reasons for which a GPU holds its clocks back."""

    HEAT = "heat"
    SUPPLY = "its power supply"
    HARDWARE = "its hardware"
    """One that the driver does not name."""
    POWER = "its power limit"
    """Reached all the time by a GPU under full load, so no fault."""

    @property
    def is_fault(self) -> bool:
        """Whether it does not occur in normal operation."""
        return self is not Throttle.POWER


class GpuSource(StrEnum):
    """Sources of a GPU's readings."""

    NVML = "nvml"
    AMDGPU = "amdgpu"
    LLAMA_CPP = "llama.cpp"


_UNREAD_THROTTLES: Known[tuple[Throttle, ...]] = Known(None, "not read yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at one moment."""

    index: int
    name: str
    source: GpuSource = GpuSource.NVML
    address: str | None = None
    """PCI address as ``pci_address`` writes it; None where there is none, or none was read."""
    in_ram: bool = False
    """Whether its memory is the host's."""
    devices: tuple[str, ...] = ()
    """llama.cpp's names of it, such as ``CUDA0``; none where it uses none, or that is not known."""
    memory_source: GpuSource | None = None
    """Source of the memory reading, if not ``source``."""
    memory_used_bytes: Reading = UNREAD
    memory_total_bytes: Reading = UNREAD
    utilisation: Reading = UNREAD
    """Share of the time in which something ran: 0 to 1."""
    power_w: Reading = UNREAD
    temperature_c: Reading = UNREAD
    throttled_by: Known[tuple[Throttle, ...]] = _UNREAD_THROTTLES
    """Reasons for which it holds its clocks back now; none where it does not."""
    pcie_generation: Reading = UNREAD
    """Generation of the link as it is now; links slow down when idle."""
    pcie_width: Reading = UNREAD
    """Lanes."""
    pcie_limit_bytes_per_s: Reading = UNREAD
    """Limit of the link at its present generation and width, per direction."""
    pcie_rx_bytes_per_s: Reading = UNREAD
    """Received by the GPU: weights and activations going in."""
    pcie_tx_bytes_per_s: Reading = UNREAD
    """Sent by the GPU."""

    @property
    def label(self) -> str:
        """Shortest name that tells it from the other GPUs."""
        return self.devices[0] if self.devices else str(self.index)

    def unread(self, reason: str) -> "GpuReading":
        """The GPU without its readings, for one reason."""
        nothing: dict[str, Any] = dict.fromkeys(_GPU_READINGS, Reading(None, reason))
        return replace(self, throttled_by=Known(None, reason), **nothing)


_GPU_READINGS = tuple(field.name for field in fields(GpuReading) if field.type is Reading)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """CPU, memory and disk at one moment."""

    cpu_per_core: tuple[float, ...]
    """Busy share of each logical core, 0 to 1. Empty at first: a share needs two samples."""
    memory_total_bytes: int
    memory_available_bytes: int
    swap_used_bytes: int
    disk_read_bytes_per_s: Reading
    """Read from disk by the process with the models: mapped weights that were not in memory."""
    major_faults_per_s: Reading
    """Page faults of the process with the models that had to wait for the disk."""
    process_cores: Reading = UNREAD
    """Cores that the process with the models keeps busy, such as 1.5."""
    mapped_bytes: Reading = UNREAD
    """Files, such as models, that the process with the models has mapped and that lie in RAM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The machine at one moment."""

    gpus: tuple[GpuReading, ...]
    gpu_reason: str | None
    """Why ``gpus`` is empty; None if it is not."""
    host: HostReading


MEASURING = Reading(None, "measuring: a rate needs two samples")


class CounterRate:
    """Turns a counter into a rate per second."""

    def __init__(self) -> None:
        """Start without a sample."""
        self._last: tuple[int, float] | None = None
        self._rate = MEASURING

    def update(self, count: int, now_s: float) -> Reading:
        """Take a sample and return the rate since the one before."""
        if self._last is None:
            self._last = count, now_s
        before, before_s = self._last
        if now_s > before_s:
            self._rate = Reading((count - before) / (now_s - before_s))
            self._last = count, now_s
        return self._rate
