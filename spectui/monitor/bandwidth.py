"""Bandwidth of memory, which limits decoding where nothing else does."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spectui.monitor import nvml
from spectui.monitor.nvml import NvmlError

MEASURED_BYTES = 1 << 29
"""Several times the caches of most processors, where they are not known."""
_CACHES = Path("/sys/devices/system/cpu")
_TIMES_THE_CACHES = 4
_LEAST_BYTES = 1 << 26
_PASSES = 8


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
            return MEASURED_BYTES
    wanted = _TIMES_THE_CACHES * sum(found.values()) or MEASURED_BYTES
    return min(max(wanted, _LEAST_BYTES), MEASURED_BYTES)


def ram_bytes_per_s(n_threads: int, n_bytes: int | None = None) -> float | None:
    """Measure how fast ``n_threads`` together read RAM: the best of a few passes.

    Takes some tenths of a second. A pass takes the largest of all numbers, which reads each once
    and computes next to nothing. Every thread reads what it has filled, so that with several
    memory nodes a part lies on its reader's.

    Args:
        n_threads: threads that read.
        n_bytes: to read in a pass; None for ``measured_bytes``.

    Returns:
        None where there is no room for that.
    """
    n_numbers = (n_bytes or measured_bytes()) // 4 // n_threads
    with ExitStack() as stack:
        readers = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(n_threads)]
        filling = [reader.submit(np.ones, n_numbers, np.float32) for reader in readers]
        try:
            parts = [part.result() for part in filling]
        except MemoryError:
            return None
        seconds = [_pass_s(readers, parts) for _ in range(_PASSES)]
    return 4 * n_numbers * n_threads / min(seconds)


def _pass_s(
    readers: Sequence[ThreadPoolExecutor], parts: Sequence[npt.NDArray[np.float32]]
) -> float:
    began = time.perf_counter()
    reading = [reader.submit(np.max, part) for reader, part in zip(readers, parts, strict=True)]
    for one in reading:
        one.result()
    return time.perf_counter() - began


def gpu_bytes_per_s(names: Collection[str]) -> float | None:
    """Return the fastest GPU's memory bandwidth, by its clock and width; None if not told.

    Args:
        names: models of the cards that count.
    """
    try:
        with nvml.session():
            gpus = [nvml.by_index(index) for index in range(nvml.count())]
            used = [gpu for gpu in gpus if nvml.name(gpu) in names]
            return max((nvml.memory_bytes_per_s(gpu) for gpu in used), default=None)
    except NvmlError:
        # No driver, or one that does not tell: then nothing is said of it.
        return None
