"""NVIDIA's GPUs as NVML tells of them: none, or some that come and go."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from spectui.monitor import nvml
from spectui.monitor.metrics import (
    ALWAYS_S,
    EACH_SECOND_S,
    FASTEST_BYTES_PER_S,
    RETRY_S,
    SLOWLY_S,
    Metric,
    RefusedError,
    SlowMeter,
    Traffic,
    credible_memory,
    link_limit,
    link_limit_bytes_per_s,
)
from spectui.monitor.nvml import Handle, NvmlError, call
from spectui.monitor.readings import CounterRate, GpuReading, GpuSource, unread_gpu

_WRAP_BYTES = 1 << 32


class PcieMeter:
    """Measures one GPU's link, by its counters as long as they can be trusted."""

    def __init__(self, gpu: Handle, clock: Callable[[], float]) -> None:
        """Measure ``gpu``; rates refer to ``clock``."""
        self._gpu = gpu
        self._clock = clock
        self._has_counters = True
        self._rates = CounterRate(), CounterRate()
        self._fastest_bytes_per_s = _fastest_bytes_per_s(gpu)
        self._slow: SlowMeter | None = None

    def read(self) -> Traffic:
        """Return the traffic since the last read; does not block.

        Raises:
            NvmlError: the GPU was lost.
        """
        if self._has_counters:
            try:
                counters = nvml.pcie_counters(self._gpu)
            except NvmlError as error:
                if error.is_lost:
                    raise
                self._has_counters = not error.is_permanent
            else:
                traffic = self._from_counters(counters)
                if traffic is not None:
                    return traffic
        return self._slowly()

    def _from_counters(self, counters: nvml.PcieCounters) -> Traffic | None:
        """None where the link is so fast that a counter may have wrapped more than once."""
        now_s = self._clock()
        received, sent = self._rates
        elapsed_s = received.elapsed_s(now_s)
        received.is_32_bit |= counters.is_32_bit
        sent.is_32_bit |= counters.is_32_bit
        traffic = received.update(counters.received, now_s), sent.update(counters.sent, now_s)
        may_wrap = received.is_32_bit or sent.is_32_bit
        if may_wrap and elapsed_s * self._fastest_bytes_per_s >= _WRAP_BYTES:
            return None
        return traffic

    def _slowly(self) -> Traffic:
        if self._slow is None:
            self._slow = SlowMeter(lambda: nvml.pcie_throughput(self._gpu))
        return self._slow.read()

    def close(self) -> None:
        """End the thread of the slow measurement, if there is one."""
        if self._slow is not None:
            self._slow.close()


def _fastest_bytes_per_s(gpu: Handle) -> float:
    """Bandwidth of the link when it is awake; an unknown link counts as the fastest there is."""
    limit = None
    with suppress(NvmlError):
        limit = link_limit_bytes_per_s(nvml.pcie_max_generation(gpu), nvml.pcie_max_width(gpu))
    return FASTEST_BYTES_PER_S if limit is None else limit


Process = Callable[[], int | None]
"""Tells the process with the models; None for this one."""

_PID_NAMESPACE = Path("/proc/self/ns/pid")
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Linux gives the namespace that it boots with this number (``PROC_PID_INIT_INO``)."""


class UnknownProcessError(NvmlError):
    """The driver lists processes by ids that mean nothing here."""

    def __init__(self) -> None:
        super().__init__(pynvml.NVML_ERROR_NOT_FOUND, "unknown process")

    def reason(self, what: str, gpu: str = "the GPU") -> str:  # noqa: ARG002 - as the base has it
        """Return the one reason that there is."""
        return "in a container the driver does not know this process by its id"


def process_bytes(gpu: Handle, process: Process) -> float:
    """Return the memory of ``gpu`` that a process holds: 0 before it uses the GPU.

    Args:
        gpu: the GPU.
        process: tells the process with the models.

    Raises:
        NvmlError: NVML refused, keeps the size to itself, or counts processes differently.
    """
    processes = call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, gpu)
    pid = process() or os.getpid()
    sizes = [one.usedGpuMemory for one in processes if one.pid == pid]
    if None in sizes:
        raise NvmlError(pynvml.NVML_ERROR_NOT_SUPPORTED, "the size is not available")
    if not sizes and not driver_knows_our_ids():
        raise UnknownProcessError
    return float(sum(sizes))


def driver_knows_our_ids() -> bool:
    """Whether the driver lists processes by the ids that they have here."""
    try:
        return str(_PID_NAMESPACE.readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False


Query = Callable[[Handle], float]

_METRICS: dict[str, tuple[str, float, Query]] = {
    "memory_used_bytes": ("memory", ALWAYS_S, nvml.memory_used_bytes),
    "memory_total_bytes": ("memory", SLOWLY_S, nvml.memory_total_bytes),
    "utilisation": ("utilisation", ALWAYS_S, nvml.utilisation),
    "power_w": ("power", EACH_SECOND_S, nvml.power_w),
    "temperature_c": ("temperature", SLOWLY_S, nvml.temperature_c),
    "clock_hz": ("the clock", EACH_SECOND_S, nvml.clock_hz),
    "memory_clock_hz": ("the memory's clock", EACH_SECOND_S, nvml.memory_clock_hz),
    # A link slows down with the power state: what it was once is not what it is.
    "pcie_generation": ("the PCIe generation", SLOWLY_S, nvml.pcie_generation),
    "pcie_width": ("the PCIe width", SLOWLY_S, nvml.pcie_width),
}
"""Field of ``GpuReading``: its name in a reason, how often to ask, and what."""


class Gpu:
    """Reads one GPU for as long as it answers."""

    def __init__(
        self, card: GpuReading, gpu: Handle, clock: Callable[[], float], process: Process
    ) -> None:
        """Read ``gpu``, which ``card`` describes.

        Args:
            card: its description.
            gpu: the GPU.
            clock: PCIe rates refer to it.
            process: tells whose memory is told apart.
        """
        self._card = card
        self._metrics = {
            field: Metric(what, period_s, partial(query, gpu))
            for field, (what, period_s, query) in _METRICS.items()
        }
        self._metrics["process_bytes"] = Metric(
            "memory per process", EACH_SECOND_S, partial(process_bytes, gpu, process)
        )
        self._throttles = Metric(
            "why the clock is low", EACH_SECOND_S, partial(nvml.throttled_by, gpu)
        )
        self._pcie = PcieMeter(gpu, clock)

    def read(self, now_s: float) -> GpuReading:
        """Return the GPU's present readings.

        Raises:
            RefusedError: it was lost.
        """
        readings: dict[str, Any] = {
            field: metric.read(now_s) for field, metric in self._metrics.items()
        }
        received, sent = self._pcie.read()
        used, total = credible_memory(
            readings.pop("memory_used_bytes"), readings.pop("memory_total_bytes")
        )
        return replace(
            self._card,
            memory_used_bytes=used,
            memory_total_bytes=total,
            throttled_by=self._throttles.read(now_s),
            pcie_limit_bytes_per_s=link_limit(readings["pcie_generation"], readings["pcie_width"]),
            pcie_rx_bytes_per_s=received,
            pcie_tx_bytes_per_s=sent,
            **readings,
        )

    def close(self) -> None:
        """End what runs in the background."""
        self._pcie.close()


@dataclass(slots=True, kw_only=True)
class _Card:
    """A GPU that was present at least once; its index stays, wherever the driver puts it later."""

    index: int
    name: str
    address: str | None = None
    uuid: str | None = None
    gpu: Gpu | None = None
    reason: str | None = None
    """Why there is no ``gpu``."""

    def lose(self, error: RefusedError) -> None:
        """Stop reading it."""
        if self.gpu is not None:
            self.gpu.close()
        self.gpu = None
        self.reason = error.reason(f"GPU {self.index}", f"GPU {self.index}")

    def unread(self) -> GpuReading:
        """Return its description, without readings."""
        return unread_gpu(
            self.reason,
            index=self.index,
            name=self.name,
            source=GpuSource.NVML,
            address=self.address,
        )


class NvidiaGpus:
    """Reads every GPU that NVML knows. Nothing raises: what fails is a reason."""

    def __init__(self, clock: Callable[[], float], process: Process = lambda: None) -> None:
        """Look for GPUs at the first ``read``.

        Args:
            clock: rates refer to it.
            process: asked for the process with the models; None for this one.
        """
        self._clock = clock
        self._process = process
        self._cards: list[_Card] = []
        self._reason: str | None = None
        self._in_session = False
        self._due_s = float("-inf")
        """When to look for what is missing."""

    def read(self, now_s: float) -> tuple[tuple[GpuReading, ...], str | None]:
        """Return all GPUs, or none and the reason."""
        if now_s >= self._due_s and not self._is_complete():
            self._due_s = now_s + RETRY_S
            self._restart()
        return tuple(self._read(card, now_s) for card in self._cards), self._reason

    def close(self) -> None:
        """End the session."""
        for card in self._cards:
            if card.gpu is not None:
                card.gpu.close()
                card.gpu = None
        if self._in_session:
            nvml.stop()
        self._in_session = False

    def _is_complete(self) -> bool:
        return bool(self._cards) and all(card.gpu is not None for card in self._cards)

    def _restart(self) -> None:
        """Begin a new session: in an old one a lost GPU stays lost, and handles end with it."""
        self.close()
        self._reason = None
        try:
            nvml.start()
            self._in_session = True
            if not self._cards:
                self._cards = [
                    _Card(index=index, name=f"GPU {index}") for index in range(nvml.count())
                ]
        except NvmlError as error:
            self._explain(error)
            return
        if not self._cards:
            self._reason = "the NVIDIA driver finds no GPU"
        for card in self._cards:
            self._find(card)

    def _explain(self, error: NvmlError) -> None:
        for card in self._cards:
            card.lose(error)
        if not self._cards:
            self._reason = error.reason("the GPUs")

    def _find(self, card: _Card) -> None:
        try:
            handle = _handle(card)
            card.uuid = nvml.uuid_of(handle)
            card.name = nvml.name(handle)
            card.address = nvml.address(handle)
            card.gpu = Gpu(card.unread(), handle, self._clock, self._process)
        except NvmlError as error:
            card.lose(error)

    def _read(self, card: _Card, now_s: float) -> GpuReading:
        if card.gpu is not None:
            try:
                return card.gpu.read(now_s)
            except RefusedError as error:
                card.lose(error)
                self._due_s = now_s + RETRY_S
        return card.unread()


def _handle(card: _Card) -> Handle:
    return nvml.by_index(card.index) if card.uuid is None else nvml.by_uuid(card.uuid)
