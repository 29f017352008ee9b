"""Measures the speed at which this machine reads its RAM, and keeps it as the limit of decoding."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import psutil

from spectui.files import read_cached, write_cached
from spectui.monitor.machine import this_machine
from spectui.paths import cache_dir

MEASURED_BYTES = 1 << 29
"""Several times the caches of most processors, where they are not known."""
_CACHES = Path("/sys/devices/system/cpu")
_TIMES_THE_CACHES = 4
_LEAST_BYTES = 1 << 26
_PASSES = 8
_STEP_NUMBERS = 1 << 20
_LEAST_SHARE = 0.5
"""Share of the bytes to read: less would lie in caches."""

Numbers = npt.NDArray[np.float32]


def measured_bytes(caches: Path = _CACHES) -> int:
    """Return how much has to be read so that caches help little: several times what they hold.

    Not more than ``MEASURED_BYTES``: on a virtual machine, memory that is touched first takes far
    longer than reading it.

    Args:
        caches: Linux's folder of processors.
    """
    # Processors share caches: the name of the group tells which are the same.
    found = {}
    for index in caches.glob("cpu[0-9]*/cache/index3"):
        try:
            group = (index / "shared_cpu_list").read_text().strip()
            found[group] = int((index / "size").read_text().strip().removesuffix("K")) << 10
        except (OSError, ValueError):
            # Some virtual machines and boards do not report caches.
            return MEASURED_BYTES
    wanted = _TIMES_THE_CACHES * sum(found.values()) or MEASURED_BYTES
    return min(max(wanted, _LEAST_BYTES), MEASURED_BYTES)


def ram_bytes_per_s(
    n_threads: int,
    n_bytes: int | None = None,
    *,
    longest_s: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> float | None:
    """Measure how fast ``n_threads`` together read RAM: the best of a few passes.

    Takes some tenths of a second. A pass takes the largest of all numbers, which reads each once
    and computes next to nothing. Every thread reads what it has filled, so that with several
    memory nodes a part lies on its reader's.

    Args:
        n_threads: threads that read.
        n_bytes: to read in a pass; None for ``measured_bytes``.
        longest_s: time after which no pass begins, half of it for filling; None for no limit.
        clock: seconds.

    Returns:
        None where there is no room for that, or no time.
    """
    n_numbers = (n_bytes or measured_bytes()) // 4 // n_threads
    began_s = clock()
    half_s, end_s = (
        (None, None) if longest_s is None else (began_s + longest_s / 2, began_s + longest_s)
    )
    with ExitStack() as stack:
        readers = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(n_threads)]
        filling = [reader.submit(_filled, n_numbers, half_s, clock) for reader in readers]
        try:
            parts = [part.result() for part in filling]
        except MemoryError:
            return None
        n_filled = sum(part.size for part in parts)
        if n_filled < _LEAST_SHARE * n_numbers * n_threads:
            return None
        seconds = [_pass_s(readers, parts, clock)]
        while len(seconds) < _PASSES and (end_s is None or clock() < end_s):
            seconds.append(_pass_s(readers, parts, clock))
    return 4 * n_filled / min(seconds)


def _filled(n_numbers: int, end_s: float | None, clock: Callable[[], float]) -> Numbers:
    part = np.empty(n_numbers, np.float32)
    for start in range(0, n_numbers, _STEP_NUMBERS):
        if end_s is not None and clock() >= end_s:
            return part[:start]
        part[start : start + _STEP_NUMBERS] = 1.0
    return part


def _pass_s(
    readers: Sequence[ThreadPoolExecutor], parts: Sequence[Numbers], clock: Callable[[], float]
) -> float:
    began_s = clock()
    reading = [reader.submit(np.max, part) for reader, part in zip(readers, parts, strict=True)]
    for one in reading:
        one.result()
    return clock() - began_s


_FILE = "ram.json"
_LONGEST_S = 0.25
_LOAD_INTERVAL_S = 0.1
_IDLE_PERCENT = 20.0
"""Load of the machine up to which it counts as idle."""
_ROOM = 4
"""Free memory for what is measured, in times of that."""
_JOIN_S = 0.5


class _Kept(msgspec.Struct, frozen=True):
    machine: str
    """Fingerprint."""
    bytes_per_s: dict[int, Annotated[float, msgspec.Meta(gt=0)]]
    """By the number of threads."""


def kept_limit(machine: str, n_threads: int) -> float | None:
    """Return what was measured before on the machine of a fingerprint."""
    return _kept(machine).get(n_threads)


def keep_limit(machine: str, n_threads: int, bytes_per_s: float) -> None:
    """Keep what was measured, if there is room."""
    limits = {**_kept(machine), n_threads: bytes_per_s}
    write_cached(cache_dir() / _FILE, _Kept(machine=machine, bytes_per_s=limits))


def _kept(machine: str) -> dict[int, float]:
    found = read_cached(cache_dir() / _FILE, _Kept)
    return found.bytes_per_s if found is not None and found.machine == machine else {}


def _is_idle() -> bool:
    """Whether the machine is idle, and has free memory to measure in; takes a tenth of a second."""
    if psutil.virtual_memory().available < _ROOM * MEASURED_BYTES:
        return False
    return psutil.cpu_percent(interval=_LOAD_INTERVAL_S) <= _IDLE_PERCENT


def ram_limit(
    machine: str, n_threads: int, *, is_idle: Callable[[], bool] = _is_idle
) -> float | None:
    """Return the kept limit; measure it where there is none, and keep that of an idle machine.

    On a virtual machine measuring may take seconds: memory is touched for the first time.

    Args:
        machine: fingerprint of this one.
        n_threads: threads that read.
        is_idle: called after the measurement, which other programs would slow down.

    Returns:
        Bytes per second; None where there is no room to measure.
    """
    limit = kept_limit(machine, n_threads)
    if limit is None:
        limit = ram_bytes_per_s(n_threads)
        if limit is not None and is_idle():
            keep_limit(machine, n_threads, limit)
    return limit


class RamGauge:
    """Provides the limit of this machine's RAM, which is measured once, when nothing else runs."""

    def __init__(
        self, on_limit: Callable[[float], None], *, is_idle: Callable[[], bool] = _is_idle
    ) -> None:
        """Measure nothing yet.

        Args:
            on_limit: called with the bytes per second, perhaps on another thread.
            is_idle: called before and after the measurement, which other programs would slow down.
        """
        self._on_limit = on_limit
        self._is_idle = is_idle
        self._thread: threading.Thread | None = None
        self._known: dict[int, float] = {}

    def ask(self, n_threads: int) -> None:
        """Call ``on_limit`` with the limit for so many threads, unless the machine is busy."""
        if n_threads in self._known:
            self._on_limit(self._known[n_threads])
        elif self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._run, args=(n_threads,), name="spectui-ram", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Wait for what is being measured."""
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self, n_threads: int) -> None:
        machine = this_machine().fingerprint
        limit = kept_limit(machine, n_threads)
        if limit is None and self._is_idle():
            measured = ram_bytes_per_s(n_threads, longest_s=_LONGEST_S)
            if measured is not None and self._is_idle():
                limit = measured
                keep_limit(machine, n_threads, limit)
        if limit is not None:
            self._known[n_threads] = limit
            self._on_limit(limit)
