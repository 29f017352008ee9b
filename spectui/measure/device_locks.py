"""One measurement at a time on a device: a lock for each core and GPU that a run may use.

They are files in the user's data folder, which the system unlocks when their process ends. What
other users run is not seen here; ``monitor/watch.py`` notices what disturbs.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from filelock import FileLock, Timeout

from spectui.errors import BadInputError, UsageError
from spectui.monitor import nvml
from spectui.monitor.nvml import NvmlError
from spectui.options.setup import CpuOptions, Setup
from spectui.paths import data_dir, ensure_dir
from spectui.writing import PRIVATE

_held: set[str] = set()
"""Devices of this process, which may measure in several steps on the same ones."""


def devices_held_for(setup: Setup) -> AbstractContextManager[None]:
    """Keep the devices of a setup until the block ends; raises as ``devices_held``."""
    uses_gpus = any(one.n_gpu_layers != 0 for one in setup.models)
    return devices_held(setup.context.cpu, uses_gpus=uses_gpus)


@contextmanager
def devices_held(cpu: CpuOptions, *, uses_gpus: bool) -> Iterator[None]:
    """Keep the cores of the run, and the GPUs if it uses them, until the block ends.

    Args:
        cpu: cores that the run was told to use; else all that this process may.
        uses_gpus: whether weights may lie on GPUs.

    Raises:
        UsageError: another spectui of this user measures on one of them.
    """
    cores = cpu.cpus or sorted(os.sched_getaffinity(0))
    names = [f"core {core}" for core in cores] + (_gpus() if uses_gpus else [])
    with ExitStack() as stack:
        try:
            folder = ensure_dir(data_dir() / "locks")
        except BadInputError:
            # Whoever cannot write there measures all the same.
            names = []
        for name in names:
            if name in _held:
                continue
            lock = FileLock(folder / f"{name.replace(' ', '-')}.lock", mode=PRIVATE)
            try:
                stack.enter_context(lock.acquire(timeout=0))
            except Timeout:
                raise UsageError(
                    f"another spectui measures on {name}, and both would be slower; wait for it, "
                    "or give each its own (taskset -c 0-3 spectui ..., CUDA_VISIBLE_DEVICES=0)"
                ) from None
            except (OSError, NotImplementedError):
                continue
            _held.add(name)
            stack.callback(_held.discard, name)
        yield


def _gpus() -> list[str]:
    """NVIDIA's GPUs that programs of this environment see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    wanted = None if visible is None else {one.strip() for one in visible.split(",")}
    try:
        with nvml.session():
            found = [nvml.uuid_of(nvml.by_index(index)) for index in range(nvml.count())]
    except NvmlError:
        return []
    return [
        f"GPU {uuid}"
        for index, uuid in enumerate(found)
        if wanted is None or not wanted.isdisjoint({str(index), uuid})
    ]
