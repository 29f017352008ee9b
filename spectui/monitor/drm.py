"""AMD's GPUs as the Linux kernel's amdgpu describes them.

Everything is told without root. What a kernel keeps to root, or does not count, is unknown with a
reason.
"""

import errno
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from spectui.documents import Known
from spectui.monitor.metrics import (
    ALWAYS_S,
    EACH_SECOND_S,
    RETRY_S,
    SLOWLY_S,
    TRAFFIC,
    Metric,
    RefusedError,
    SlowMeter,
    Traffic,
    credible_memory,
    link_limit,
)
from spectui.monitor.readings import (
    GpuReading,
    GpuSource,
    Reading,
    pci_address,
    unread_gpu,
)
from spectui.monitor.sysfs import (
    CARD_REGIONS,
    RAM_REGIONS,
    KernelError,
    content,
    first,
    integer,
    link_generation,
    link_width,
    own_bytes,
    text,
)

_DRM = "sys/class/drm"
_NODE = re.compile(r"card\d+")
_MOST_NODES = 1024
"""Connectors of cards are among them."""
_PATIENCE = 100
"""Reads within which PCIe traffic is to be measured: at the shortest interval, some seconds."""
_SLEEPS = "the GPU sleeps; to ask it would wake it"

_METRICS = {
    "memory_used_bytes": ("memory in use", ALWAYS_S),
    "memory_total_bytes": ("the size of the memory", SLOWLY_S),
    "process_bytes": ("memory per process", SLOWLY_S),
    "utilisation": ("utilisation", EACH_SECOND_S),
    "power_w": ("power", EACH_SECOND_S),
    "temperature_c": ("temperature", SLOWLY_S),
    "clock_hz": ("the clock", EACH_SECOND_S),
    "memory_clock_hz": ("the memory's clock", EACH_SECOND_S),
    # A link slows down with the power state: what it was once is not what it is.
    "pcie_generation": ("the PCIe generation", SLOWLY_S),
    "pcie_width": ("the PCIe width", SLOWLY_S),
}
"""Field of ``GpuReading``: its name in a reason, and how often to ask."""


_HEADER = struct.Struct("<HBB")
"""Header of ``gpu_metrics``: size, revision of the format, revision of the content."""
_OF_PROCESSORS = {2, 3}
"""Formats of the tables of processors with a GPU inside."""
_UNTOLD: Known[Any] = Known(None, "the kernel does not report why the clock is low")
_CURRENT_LEVEL = re.compile(r"^\d+: *(\d{1,6})MHz \*$", re.MULTILINE | re.IGNORECASE)


class Card:
    """One GPU of amdgpu's, for as long as it is there."""

    def __init__(self, node: Path, process: Callable[[], Path]) -> None:
        """Read the card.

        Args:
            node: its folder among the graphics devices.
            process: tells the folder of the process with the models.

        Raises:
            KernelError: it does not say what it is.
            OSError: it is not there.
        """
        self.device = (node / "device").resolve(strict=True)
        self.address = self.device.name
        self.name = f"AMD GPU {text(self.device / 'device').removeprefix('0x')}"
        with suppress(KernelError):
            self.name = text(self.device / "product_name") or self.name
        self.in_ram = self._is_integrated()
        regions = RAM_REGIONS if self.in_ram else CARD_REGIONS
        queries = self._queries() | {
            "process_bytes": lambda: own_bytes(process(), self.address, regions)
        }
        self._metrics = {name: Metric(*_METRICS[name], query) for name, query in queries.items()}
        self._meter: SlowMeter | None = None

    def unread(self, reason: str, index: int) -> GpuReading:
        """Return its description, without readings."""
        return unread_gpu(
            reason,
            index=index,
            name=self.name,
            source=GpuSource.AMDGPU,
            address=self.address,
            in_ram=self.in_ram,
        )

    def read(self, now_s: float, index: int) -> GpuReading:
        """Return its present readings.

        Raises:
            KernelError: it was lost.
        """
        if not (self.device / "vendor").exists():
            raise KernelError(errno.ENODEV)
        with suppress(KernelError):
            if text(self.device / "power/runtime_status") == "suspended":
                return self.unread(_SLEEPS, index)
        found: dict[str, Any] = {name: metric.read(now_s) for name, metric in self._metrics.items()}
        used, total = credible_memory(
            found.pop("memory_used_bytes"), found.pop("memory_total_bytes")
        )
        received, sent = self._traffic()
        return GpuReading(
            index=index,
            name=self.name,
            source=GpuSource.AMDGPU,
            address=self.address,
            in_ram=self.in_ram,
            memory_used_bytes=used,
            memory_total_bytes=total,
            throttled_by=_UNTOLD,
            pcie_limit_bytes_per_s=link_limit(found["pcie_generation"], found["pcie_width"]),
            pcie_rx_bytes_per_s=received,
            pcie_tx_bytes_per_s=sent,
            **found,
        )

    def close(self) -> None:
        """End the thread that measures the link."""
        if self._meter is not None:
            self._meter.close()
            self._meter = None

    def _is_integrated(self) -> bool:
        """Whether its memory is the host's, by the form of the table of measurements."""
        with suppress(KernelError):
            table = content(self.device / "gpu_metrics")
            return len(table) >= _HEADER.size and _HEADER.unpack_from(table)[1] in _OF_PROCESSORS
        return False

    def _queries(self) -> dict[str, Callable[[], float]]:
        """Reads of the driver's own files and its sensors', by field of ``GpuReading``."""
        device = self.device
        # Weights lie in what a processor's GPU takes of the RAM.
        kinds = ("vram", "gtt") if self.in_ram else ("vram",)
        used, total = (
            [device / f"mem_info_{kind}_{what}" for kind in kinds] for what in ("used", "total")
        )
        power = first(device, "hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input")
        return {
            "memory_used_bytes": partial(_scaled, 1.0, *used),
            "memory_total_bytes": partial(_scaled, 1.0, *total),
            "utilisation": partial(_scaled, 0.01, device / "gpu_busy_percent"),
            "power_w": partial(_scaled, 1e-6, power),
            "temperature_c": partial(_scaled, 1e-3, first(device, "hwmon/hwmon*/temp1_input")),
            "clock_hz": partial(self._clock_hz, "hwmon/hwmon*/freq1_input", "pp_dpm_sclk"),
            "memory_clock_hz": partial(self._clock_hz, "hwmon/hwmon*/freq2_input", "pp_dpm_mclk"),
            "pcie_generation": partial(link_generation, device),
            "pcie_width": partial(link_width, device),
        }

    def _clock_hz(self, sensor: str, levels: str) -> float:
        try:
            return float(integer(first(self.device, sensor)))
        except KernelError:
            current = _CURRENT_LEVEL.search(text(self.device / levels))
            if current is None:
                raise
            return int(current[1]) * 1e6

    def _traffic(self) -> Traffic:
        """Bytes per second over PCIe, at most: the driver counts packets, and tells the longest."""
        if self._meter is None:
            if not (self.device / "pcie_bw").is_file():
                nothing = Reading(None, KernelError(errno.ENOENT).reason(TRAFFIC))
                return nothing, nothing
            # The file takes a second to read: that is how long the driver counts.
            self._meter = SlowMeter(self._measure, patience=_PATIENCE)
        return self._meter.read()

    def _measure(self) -> tuple[float, float]:
        words = text(self.device / "pcie_bw").split()
        try:
            received, sent, packet_bytes = (int(word) for word in words)
        except ValueError as error:
            raise KernelError(None) from error
        if min(received, sent, packet_bytes) < 0:
            raise KernelError(None)
        return float(received * packet_bytes), float(sent * packet_bytes)


def _scaled(scale: float, *paths: Path) -> float:
    """Sum of the numbers in files, times ``scale``."""
    return sum(map(integer, paths)) * scale


class KernelGpus:
    """Reads every GPU of amdgpu's. Nothing raises: what fails is a reason."""

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        process: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Look for GPUs at the first ``read``.

        Args:
            root: folder with ``proc`` and ``sys``.
            process: asked for the process with the models; None for this one.
        """
        self._root = root
        self._pid = process
        self._cards: dict[str, Card] = {}
        self._lost: dict[str, str] = {}
        """Reasons why cards are not read, by their addresses."""
        self._due_s = float("-inf")
        """When to look for cards."""

    def read(self, now_s: float, first_index: int = 0) -> tuple[GpuReading, ...]:
        """Return all GPUs, numbered from ``first_index``; those that were lost among them."""
        if now_s >= self._due_s:
            self._due_s = now_s + RETRY_S
            self._find()
        cards = enumerate(self._cards.values(), first_index)
        return tuple(self._read(card, now_s, index) for index, card in cards)

    def addresses(self) -> tuple[str, ...]:
        """PCI addresses of the cards with memory of their own that are there now."""
        self._find()
        return tuple(card.address for card in self._cards.values() if not card.in_ram)

    def close(self) -> None:
        """End what runs in the background."""
        for card in self._cards.values():
            card.close()

    def _find(self) -> None:
        """Take up cards that are new, or there again."""
        found: dict[str, Card] = {}
        for node in islice((self._root / _DRM).glob("card*"), _MOST_NODES):
            # A loop of links is a RuntimeError.
            with suppress(OSError, RuntimeError, KernelError):
                if not _NODE.fullmatch(node.name):
                    continue
                address = pci_address((node / "device").resolve(strict=True).name)
                if (node / "device/driver").resolve().name != GpuSource.AMDGPU:
                    continue
                if address and (address not in self._cards or address in self._lost):
                    found[address] = Card(node, self._process)
        for address in sorted(found):
            self._cards[address] = found[address]
            self._lost.pop(address, None)

    def _process(self) -> Path:
        # A folder that is missing would never be asked for again.
        folder = self._root / "proc" / str(self._pid() or "self")
        return folder if folder.exists() else self._root / "proc/self"

    def _read(self, card: Card, now_s: float, index: int) -> GpuReading:
        if card.address not in self._lost:
            try:
                return card.read(now_s, index)
            except RefusedError as error:
                card.close()
                self._lost[card.address] = error.reason(f"GPU {index}", f"GPU {index}")
        return card.unread(self._lost[card.address], index)
