"""All GPUs: none, or some that come and go; each metric at its own cadence, refusals as reasons."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

import pynvml

from spectui.monitor import nvml
from spectui.monitor.nvml import Handle, NvmlError, call
from spectui.monitor.readings import MEASURING, CounterRate, GpuReading, Reading

Traffic = tuple[Reading, Reading]
"""Bytes per second received and sent by the GPU."""
WHAT = "PCIe traffic"

_LANE_BYTES_PER_S = (250e6, 500e6, 984.6e6, 1.969e9, 3.938e9, 7.563e9)
"""Per lane and direction, generation 1 first, after the link's encoding."""
_FASTEST_BYTES_PER_S = 16 * _LANE_BYTES_PER_S[-1]
_WRAP_BYTES = 1 << 32
_JOIN_S = 0.2
_PATIENCE = 20
_STUCK = Reading(None, "the driver has stopped answering about PCIe traffic")


def link_limit_bytes_per_s(generation: float, width: float) -> float | None:
    """Return a link's bandwidth per direction; None for a generation that is not known here."""
    if not 1 <= generation <= len(_LANE_BYTES_PER_S):
        return None
    return _LANE_BYTES_PER_S[int(generation) - 1] * width


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


class SlowMeter:
    """Measures on a daemon thread, because one measurement blocks for 40 ms."""

    def __init__(self, measure: Callable[[], tuple[float, float]]) -> None:
        """Start the thread; ``measure`` is called on it."""
        self._measure = measure
        self._wanted = threading.Event()
        self._closed = False
        self._latest: Traffic = (MEASURING, MEASURING)
        self._n_unanswered = 0
        self._thread = threading.Thread(target=self._run, name="spectui-pcie", daemon=True)
        self._thread.start()

    def read(self) -> Traffic:
        """Return the latest measurement and ask for another one."""
        self._n_unanswered += 1
        self._wanted.set()
        return self._latest if self._n_unanswered <= _PATIENCE else (_STUCK, _STUCK)

    def close(self) -> None:
        """End the thread; one that hangs in the driver is left behind."""
        self._closed = True
        self._wanted.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            try:
                received, sent = self._measure()
                self._latest = Reading(received), Reading(sent)
            except NvmlError as error:
                reason = Reading(None, error.reason(WHAT))
                self._latest = reason, reason
            self._n_unanswered = 0


def _fastest_bytes_per_s(gpu: Handle) -> float:
    """Bandwidth of the link when it is awake; an unknown link counts as the fastest there is."""
    limit = None
    with suppress(NvmlError):
        limit = link_limit_bytes_per_s(nvml.pcie_max_generation(gpu), nvml.pcie_max_width(gpu))
    return _FASTEST_BYTES_PER_S if limit is None else limit


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


def process_bytes(gpu: Handle) -> float:
    """Return the memory of ``gpu`` that this process holds: 0 before it uses the GPU.

    Raises:
        NvmlError: NVML refused, keeps the size to itself, or counts processes differently.
    """
    processes = call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, gpu)
    sizes = [process.usedGpuMemory for process in processes if process.pid == os.getpid()]
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

_ALWAYS_S = 0.0
_EACH_SECOND_S = 1.0
_SLOWLY_S = 2.0
_REFUSED_S = 30.0
"""Interval of new requests for what a driver refused for good: permissions change."""

_METRICS: dict[str, tuple[str, float, Query]] = {
    "memory_used_bytes": ("memory", _ALWAYS_S, nvml.memory_used_bytes),
    "memory_total_bytes": ("memory", _SLOWLY_S, nvml.memory_total_bytes),
    "process_bytes": ("memory per process", _EACH_SECOND_S, process_bytes),
    "utilisation": ("utilisation", _ALWAYS_S, nvml.utilisation),
    "power_w": ("power", _EACH_SECOND_S, nvml.power_w),
    "temperature_c": ("temperature", _SLOWLY_S, nvml.temperature_c),
    "clock_hz": ("the clock", _EACH_SECOND_S, nvml.clock_hz),
    # A link slows down with the power state: what it was once is not what it is.
    "pcie_generation": ("the PCIe generation", _SLOWLY_S, nvml.pcie_generation),
    "pcie_width": ("the PCIe width", _SLOWLY_S, nvml.pcie_width),
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
        """Return the GPU's present readings.

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


RETRY_S = 10.0
"""Seconds for which a missing driver or a lost GPU is left alone before the next try."""

_READINGS = [field.name for field in fields(GpuReading) if field.name not in {"index", "name"}]


@dataclass(slots=True, kw_only=True)
class _Card:
    """A GPU that was present at least once; its index stays, wherever the driver puts it later."""

    index: int
    name: str
    uuid: str | None = None
    gpu: Gpu | None = None
    reason: str | None = None
    """Why there is no ``gpu``."""

    def lose(self, error: NvmlError) -> None:
        """Stop reading it."""
        if self.gpu is not None:
            self.gpu.close()
        self.gpu = None
        self.reason = error.reason(f"GPU {self.index}", f"GPU {self.index}")


class Gpus:
    """Reads every GPU that NVML knows. Nothing raises: what fails is a reason."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Look for GPUs at the first ``read``; rates refer to ``clock``."""
        self._clock = clock
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
            card.gpu = Gpu(card.index, card.name, handle, self._clock)
        except NvmlError as error:
            card.lose(error)

    def _read(self, card: _Card, now_s: float) -> GpuReading:
        if card.gpu is not None:
            try:
                return card.gpu.read(now_s)
            except NvmlError as error:
                card.lose(error)
                self._due_s = now_s + RETRY_S
        missing = dict.fromkeys(_READINGS, Reading(None, card.reason))
        return GpuReading(index=card.index, name=card.name, **missing)


def _handle(card: _Card) -> Handle:
    return nvml.by_index(card.index) if card.uuid is None else nvml.by_uuid(card.uuid)
