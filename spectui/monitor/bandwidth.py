"""How fast memory can be read: what bounds decoding where nothing else does."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from spectui.monitor import nvml, queries
from spectui.monitor.nvml import NvmlError

MEASURED_BYTES = 1 << 29
"""Several times the caches of most processors."""
_PASSES = 4


def ram_bytes_per_s(n_threads: int) -> float | None:
    """Measure how fast ``n_threads`` together read RAM: the best of a few passes.

    Takes some tenths of a second. A pass takes the largest of all numbers, which reads each once
    and computes next to nothing. Every thread reads what it has filled, so that with several
    memory nodes a part lies on its reader's.

    Returns:
        None where there is no room for ``MEASURED_BYTES``.
    """
    n_numbers = MEASURED_BYTES // 4 // n_threads
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
    """Return what the fastest GPU's memory can do, by its clock and width; None if not told.

    Args:
        names: models of the cards that count.
    """
    try:
        with nvml.session():
            gpus = [queries.by_index(index) for index in range(queries.count())]
            used = [gpu for gpu in gpus if queries.name(gpu) in names]
            return max((queries.memory_bytes_per_s(gpu) for gpu in used), default=None)
    except NvmlError:
        # No driver, or one that does not tell: then nothing is said of it.
        return None
