"""One measurement at a time on a device: a lock for each core and NVIDIA GPU that a run may use.

They are files in the user's data folder, which the system unlocks when their process ends. What
other users run is not seen here; ``monitor/watch.py`` notices what disturbs.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

from filelock import FileLock, Timeout

from spectui.errors import BadInputError, UsageError
from spectui.files import PRIVATE
from spectui.monitor import nvml
from spectui.monitor.nvml import NvmlError
from spectui.options.setup import Setup
from spectui.paths import data_dir, ensure_dir
from spectui.server.watch.sample import HostState

_GPUS = "CUDA_VISIBLE_DEVICES"
_OWN = f"taskset -c CORES spectui ..., {_GPUS}=0, -ngl 0 for no GPU"


def devices_held_for(setup: Setup) -> AbstractContextManager[None]:
    """Keep the devices of a setup until the block ends; raises as ``devices_held``."""
    uses_gpus = any(one.n_gpu_layers != 0 and one.devices.names != () for one in setup.models)
    return devices_held(uses_gpus=uses_gpus)


def devices_held(*, uses_gpus: bool) -> AbstractContextManager[None]:
    """Keep the cores of the run, and the GPUs if it uses them, until the block ends.

    Args:
        uses_gpus: whether weights may lie on GPUs.

    Raises:
        UsageError: another spectui of this user measures on one of them.
    """
    return _held([*map(_core, _usable(0)), *(visible_gpus(os.environ) if uses_gpus else ())])


def server_devices_held(servers: Iterable[HostState]) -> AbstractContextManager[None]:
    """Keep the devices of servers that run on this machine until the block ends.

    They are the cores that a server may use, of one whose process is hidden, as in a container,
    all of the machine's; and all GPUs.

    Args:
        servers: those of other machines are measured without a lock.

    Raises:
        UsageError: another spectui of this user measures on one of them.
    """
    cores, here = set[int](), [one.process.value for one in servers if one.is_here]
    for process in here:
        try:
            cores |= {*_usable(process.pid)} if process else {*range(os.cpu_count() or 1)}
        except OSError:
            # It has ended, which whoever measures is told.
            continue
    return _held([*map(_core, sorted(cores)), *(visible_gpus({}) if here else ())])


@contextmanager
def _held(names: Sequence[str]) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            folder = ensure_dir(data_dir() / "locks")
        except BadInputError:
            # Whoever cannot write there measures all the same.
            names = []
        for name in names:
            # One for the whole process, which may measure in several steps on the same device.
            path = folder / f"{name.replace(' ', '-')}.lock"
            lock = FileLock(path, mode=PRIVATE, thread_local=False, is_singleton=True)
            try:
                stack.enter_context(lock.acquire(timeout=0))
            except Timeout:
                raise UsageError(
                    f"another spectui measures on {name}, and both would be slower; wait for it, "
                    f"or give each its own ({_OWN})"
                ) from None
            except (OSError, NotImplementedError):
                continue
        yield


def _core(number: int) -> str:
    return f"core {number}"


def _usable(pid: int) -> list[int]:
    """Cores that a process may use; 0 for this one."""
    return sorted(os.sched_getaffinity(pid))


def visible_gpus(environment: Mapping[str, str]) -> list[str]:
    """NVIDIA's GPUs that programs of an environment see; none without a driver."""
    found = list[str]()
    with suppress(NvmlError), nvml.session():
        found = [nvml.uuid_of(nvml.by_index(index)) for index in range(nvml.count())]
    if (told := environment.get(_GPUS)) is None:
        return [f"GPU {name}" for name in found]
    wanted = [one.strip() for one in told.split(",") if one.strip()]
    return [
        f"GPU {name}"
        for index, name in enumerate(found)
        if any(one == str(index) or name.startswith(one) for one in wanted)
    ]
