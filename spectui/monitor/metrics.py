"""Reads numbers of a GPU, each at its own interval; a refusal of the driver becomes a reason."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from spectui.documents import Known
from spectui.monitor.readings import MEASURING, GpuReading, Reading

_ALWAYS_S = 0.0
_EACH_SECOND_S = 1.0
_SLOWLY_S = 2.0
_REFUSED_S = 30.0
"""Interval of new requests for what a driver refused for good: permissions change."""
RETRY_S = 10.0
"""Seconds for which a missing driver or a lost GPU is left alone before the next try."""

_METRICS = {
    "memory_used_bytes": ("memory", _ALWAYS_S),
    "memory_total_bytes": ("memory", _SLOWLY_S),
    "utilisation": ("utilisation", _ALWAYS_S),
    "power_w": ("power", _EACH_SECOND_S),
    "temperature_c": ("temperature", _SLOWLY_S),
    "throttled_by": ("why the clock is low", _EACH_SECOND_S),
    # Read again and again, since a link slows down with the power state.
    "pcie_generation": ("the PCIe generation", _SLOWLY_S),
    "pcie_width": ("the PCIe width", _SLOWLY_S),
}
"""Field of ``GpuReading``: its name in a reason, and how often to ask."""

TRAFFIC = "PCIe traffic"
Traffic = tuple[Reading, Reading]
"""Bytes per second received and sent by the GPU."""
_JOIN_S = 0.2
_PATIENCE = 100
"""Reads without a new measurement of traffic until the driver counts as stuck: some seconds."""
_STUCK = Reading(None, "the driver has stopped answering about PCIe traffic")
_NO_MEMORY = Reading(None, "the driver reports a memory of no size")
_TOO_MUCH = Reading(None, "the driver reports more memory in use than there is")

_LANE_BYTES_PER_S = {1: 250e6, 2: 500e6, 3: 984.6e6, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Per lane and direction, by generation, after the link's encoding."""


class RefusedError(Exception):
    """A question that a driver did not answer."""

    def __init__(
        self, form: str, text: str = "", *, is_permanent: bool = False, is_lost: bool = False
    ) -> None:
        """Keep the reason.

        Args:
            form: a short sentence with ``{what}``, ``{gpu}`` and ``{text}``.
            text: the driver's own words.
            is_permanent: whether asking again a moment later is pointless.
            is_lost: whether the GPU answers nothing until it is found again.
        """
        super().__init__(text)
        self._form = form
        self.is_permanent = is_permanent
        self.is_lost = is_lost

    def reason(self, what: str, gpu: str = "the GPU") -> str:
        """Return a short sentence for a panel; ``what`` was asked of ``gpu``."""
        return self._form.format(what=what, gpu=gpu, text=self)


class _Metric:
    """One number of one GPU, asked for again once it is older than its period."""

    def __init__(self, what: str, period_s: float, query: Callable[[], Any]) -> None:
        self._what = what
        self._period_s = period_s
        self._query = query
        self._due_s = float("-inf")
        self._reading = Known[Any](None)

    def read(self, now_s: float) -> Known[Any]:
        """Return the number, or why there is none.

        Raises:
            RefusedError: the GPU was lost.
        """
        if now_s >= self._due_s:
            self._due_s = now_s + self._period_s
            try:
                self._reading = Known(self._query())
            except RefusedError as error:
                if error.is_lost:
                    raise
                self._reading = Known(None, error.reason(self._what))
                if error.is_permanent:
                    self._due_s = now_s + _REFUSED_S
        return self._reading


class SlowMeter:
    """Measures PCIe traffic on a daemon thread, because one measurement blocks for long.

    The thread starts with the first read.
    """

    def __init__(self, measure: Callable[[], tuple[float, float]]) -> None:
        """Measure nothing yet; ``measure`` is called on the thread."""
        self._measure = measure
        self._wanted = threading.Event()
        self._closed = False
        self._latest: Traffic = (MEASURING, MEASURING)
        self._n_unanswered = 0
        self._thread = threading.Thread(target=self._run, name="spectui-pcie", daemon=True)

    def read(self) -> Traffic:
        """Return the latest measurement and ask for another one."""
        if self._thread.ident is None:
            self._thread.start()
        self._n_unanswered += 1
        self._wanted.set()
        return self._latest if self._n_unanswered <= _PATIENCE else (_STUCK, _STUCK)

    def close(self) -> None:
        """End the thread; one that hangs in the driver is left behind."""
        self._closed = True
        self._wanted.set()
        if self._thread.is_alive():
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
            except RefusedError as error:
                reason = Reading(None, error.reason(TRAFFIC))
                self._latest = reason, reason
            self._n_unanswered = 0


class GpuMeter:
    """Reads one GPU for as long as it answers."""

    def __init__(
        self,
        gpu: GpuReading,
        queries: Mapping[str, Callable[[], Any]],
        traffic: SlowMeter | None = None,
    ) -> None:
        """Ask nothing yet.

        Args:
            gpu: its description, and readings that stay.
            queries: questions to its driver, by field of ``GpuReading``.
            traffic: measures its link; None where that cannot be measured.
        """
        self._gpu = gpu
        self._metrics = {
            field: _Metric(*_METRICS[field], query) for field, query in queries.items()
        }
        self._traffic = traffic

    def read(self, now_s: float) -> GpuReading:
        """Return the GPU's present readings.

        Raises:
            RefusedError: it was lost.
        """
        found: dict[str, Any] = {name: one.read(now_s) for name, one in self._metrics.items()}
        if self._traffic is not None:
            received, sent = self._traffic.read()
            found |= {"pcie_rx_bytes_per_s": received, "pcie_tx_bytes_per_s": sent}
        used, total = found.pop("memory_used_bytes"), found.pop("memory_total_bytes")
        used, total = _credible_memory(used, total)
        if "pcie_generation" in found:
            limit = _link_limit(found["pcie_generation"], found["pcie_width"])
            found["pcie_limit_bytes_per_s"] = limit
        return replace(self._gpu, memory_used_bytes=used, memory_total_bytes=total, **found)

    def close(self) -> None:
        """End what runs in the background."""
        if self._traffic is not None:
            self._traffic.close()


def _link_limit(generation: Reading, width: Reading) -> Reading:
    """A link's bandwidth per direction, or why it is unknown."""
    if generation.value is None or width.value is None:
        return Reading(None, generation.reason or width.reason)
    lane_bytes_per_s = _LANE_BYTES_PER_S.get(int(generation.value))
    if lane_bytes_per_s is None:
        return Reading(None, f"the speed of PCIe generation {generation.value:.0f} is not known")
    return Reading(lane_bytes_per_s * width.value)


def _credible_memory(used: Reading, total: Reading) -> tuple[Reading, Reading]:
    """Memory in use and in all; what cannot be is a reason."""
    if total.value is not None and total.value <= 0:
        return _NO_MEMORY, _NO_MEMORY
    if used.value is not None and total.value is not None and used.value > total.value:
        return _TOO_MUCH, total
    return used, total
