"""How fast memory can be read: what bounds decoding where nothing else does."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from spectui.monitor import nvml, queries
from spectui.monitor.nvml import NvmlError

_PART_BYTES = 1 << 26
_LEAST_BYTES = 1 << 29
"""Several times the caches of any processor."""
_PASSES = 4


def ram_bytes_per_s(n_threads: int) -> float:
    """Measure how fast ``n_threads`` together read RAM: the best of a few passes.

    Takes some tenths of a second and half a gigabyte. A pass takes the largest of all numbers,
    which reads each once and computes next to nothing.
    """
    n_parts = max(n_threads, _LEAST_BYTES // _PART_BYTES)
    parts = [np.ones(_PART_BYTES // 4, np.float32) for _ in range(n_parts)]
    with ThreadPoolExecutor(n_threads) as pool:
        seconds = [_pass_s(pool, parts) for _ in range(_PASSES)]
    return n_parts * _PART_BYTES / min(seconds)


def _pass_s(pool: ThreadPoolExecutor, parts: list[npt.NDArray[np.float32]]) -> float:
    began = time.perf_counter()
    list(pool.map(np.max, parts))
    return time.perf_counter() - began


def gpu_bytes_per_s() -> float | None:
    """Return what the slowest GPU's memory can do, by its clock and width; None if not told."""
    try:
        with nvml.session():
            gpus = [queries.by_index(index) for index in range(queries.count())]
            return min((queries.memory_bytes_per_s(gpu) for gpu in gpus), default=None)
    except NvmlError:
        # No driver, or one that does not tell: then nothing is said of it.
        return None
