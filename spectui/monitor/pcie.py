"""Traffic over a GPU's PCIe link: from the byte counters, else from a slow measurement."""

import threading
from collections.abc import Callable
from contextlib import suppress

from spectui.monitor import nvml
from spectui.monitor.nvml import Handle, NvmlError
from spectui.monitor.rates import MEASURING, CounterRate
from spectui.monitor.readings import Reading

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
