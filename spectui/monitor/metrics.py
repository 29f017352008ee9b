"""Numbers of a GPU, each asked for at its own cadence; what a driver refuses is a reason."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from spectui.documents import Known
from spectui.monitor.readings import MEASURING, Reading

T = TypeVar("T")

ALWAYS_S = 0.0
EACH_SECOND_S = 1.0
SLOWLY_S = 2.0
_REFUSED_S = 30.0
"""Interval of new requests for what a driver refused for good: permissions change."""
RETRY_S = 10.0
"""Seconds for which a missing driver or a lost GPU is left alone before the next try."""

TRAFFIC = "PCIe traffic"
Traffic = tuple[Reading, Reading]
"""Bytes per second received and sent by the GPU."""
_JOIN_S = 0.2
_PATIENCE = 20
_STUCK = Reading(None, "the driver has stopped answering about PCIe traffic")
_NO_MEMORY = Reading(None, "the driver reports a memory of no size")
_TOO_MUCH = Reading(None, "the driver reports more memory in use than there is")

_LANE_BYTES_PER_S = (250e6, 500e6, 984.6e6, 1.969e9, 3.938e9, 7.563e9)
"""Per lane and direction, generation 1 first, after the link's encoding."""
FASTEST_BYTES_PER_S = 16 * _LANE_BYTES_PER_S[-1]
"""Fastest link, per direction."""


class RefusedError(Exception):
    """A question that a driver did not answer."""

    @property
    def is_permanent(self) -> bool:
        """Whether asking again a moment later is pointless."""
        return False

    @property
    def is_lost(self) -> bool:
        """Whether the GPU answers nothing until it is found again."""
        return False

    def reason(self, what: str, gpu: str = "the GPU") -> str:
        """Return a short sentence for a panel; ``what`` was asked of ``gpu``."""
        raise NotImplementedError


class Metric(Generic[T]):
    """One number of one GPU, asked for again once it is older than its period."""

    def __init__(self, what: str, period_s: float, query: Callable[[], T | Known[T]]) -> None:
        """Ask ``query``; ``what`` names the number in a reason."""
        self._what = what
        self._period_s = period_s
        self._query = query
        self._due_s = float("-inf")
        self._reading: Known[T] = Known(None)

    def read(self, now_s: float) -> Known[T]:
        """Return the number, or why there is none.

        Raises:
            RefusedError: the GPU was lost.
        """
        if now_s >= self._due_s:
            self._due_s = now_s + self._period_s
            try:
                answer = self._query()
                self._reading = answer if isinstance(answer, Known) else Known(answer)
            except RefusedError as error:
                if error.is_lost:
                    raise
                self._reading = Known(None, error.reason(self._what))
                if error.is_permanent:
                    self._due_s = now_s + _REFUSED_S
        return self._reading


class SlowMeter:
    """Measures PCIe traffic on a daemon thread, because one measurement blocks for long."""

    def __init__(
        self, measure: Callable[[], tuple[float, float]], *, patience: int = _PATIENCE
    ) -> None:
        """Start the thread; ``measure`` is called on it, and may take ``patience`` reads."""
        self._measure = measure
        self._patience = patience
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
        return self._latest if self._n_unanswered <= self._patience else (_STUCK, _STUCK)

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
            except RefusedError as error:
                reason = Reading(None, error.reason(TRAFFIC))
                self._latest = reason, reason
            self._n_unanswered = 0


def link_limit_bytes_per_s(generation: float, width: float) -> float | None:
    """Return a link's bandwidth per direction; None for a generation that is not known here."""
    if not 1 <= generation <= len(_LANE_BYTES_PER_S):
        return None
    return _LANE_BYTES_PER_S[int(generation) - 1] * width


def link_limit(generation: Reading, width: Reading) -> Reading:
    """Return a link's bandwidth per direction, or why it is unknown."""
    if generation.value is None or width.value is None:
        return Reading(None, generation.reason or width.reason)
    limit = link_limit_bytes_per_s(generation.value, width.value)
    if limit is None:
        return Reading(None, f"the speed of PCIe generation {generation.value:.0f} is not known")
    return Reading(limit)


def credible_memory(used: Reading, total: Reading) -> tuple[Reading, Reading]:
    """Return memory in use and in all; what cannot be is a reason."""
    if total.value is not None and total.value <= 0:
        return _NO_MEMORY, _NO_MEMORY
    if used.value is not None and total.value is not None and used.value > total.value:
        return _TOO_MUCH, total
    return used, total
