"""One measurement at a time on a device: a lock for each core and GPU that a run may use.

They are files in the user's data folder, which the system unlocks when their process ends. What
other users run is not seen here; ``monitor/watch.py`` notices what disturbs.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from spectui.errors import BadInputError, UsageError
from spectui.files import PRIVATE
from spectui.monitor import nvml
from spectui.monitor.drm import KernelGpus
from spectui.monitor.nvml import NvmlError
from spectui.options.setup import CpuOptions, Setup
from spectui.paths import data_dir, ensure_dir
from spectui.server.watch.sample import HostState

_OF_OTHERS = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")


def devices_held_for(setup: Setup) -> AbstractContextManager[None]:
    """Keep the devices of a setup until the block ends; raises as ``devices_held``."""
    uses_gpus = any(one.n_gpu_layers != 0 and one.devices.names != () for one in setup.models)
    return devices_held(setup.context.cpu, uses_gpus=uses_gpus)


def devices_held(cpu: CpuOptions, *, uses_gpus: bool) -> AbstractContextManager[None]:
    """Keep the cores of the run, and the GPUs if it uses them, until the block ends.

    Args:
        cpu: cores that the run was told to use. Without any that this process may use threads
            run on all that it may (``llama/threadpools.py``), and so does this.
        uses_gpus: whether weights may lie on GPUs.

    Raises:
        UsageError: another spectui of this user measures on one of them.
    """
    usable = _usable(0)
    cores = [core for core in cpu.cpus or () if core in usable] or usable
    return _held_by_name(_cores(cores) + (visible_gpus(os.environ) if uses_gpus else []))


def server_devices_held(servers: Iterable[HostState]) -> AbstractContextManager[None]:
    """Keep the devices of servers that run on this machine until the block ends.

    They are the cores that a server may use, and the GPUs that its environment shows it; of a
    server whose process is hidden, as in a container, those of the whole machine.

    Args:
        servers: those of other machines are measured without a lock.

    Raises:
        UsageError: another spectui of this user measures on one of them.
    """
    return _held_by_name(list(chain.from_iterable(_of_server(one) for one in servers)))


def _of_server(server: HostState) -> list[str]:
    if not server.is_here:
        return []
    cores, environment = list(range(os.cpu_count() or 1)), dict[str, str]()
    if server.process.value is not None:
        pid = server.process.value.pid
        # Another user's process hides its environment: then it may see every GPU.
        with suppress(OSError, psutil.Error):
            cores = _usable(pid)
            environment = psutil.Process(pid).environ()
    return _cores(cores) + visible_gpus(environment)


@contextmanager
def _held_by_name(names: Sequence[str]) -> Iterator[None]:
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
                way = f"{_others(name)}CUDA_VISIBLE_DEVICES=0, -ngl 0 for no GPU"
                raise UsageError(
                    f"another spectui measures on {name}, and both would be slower; wait for it, "
                    f"or give each its own ({way})"
                ) from None
            except (OSError, NotImplementedError):
                continue
        yield


def _cores(numbers: Iterable[int]) -> list[str]:
    return [f"core {number}" for number in numbers]


def _others(taken: str) -> str:
    """How a spectui is given half of the cores of this process, without one that is taken."""
    cores = [core for core in _usable(0) if f"core {core}" != taken]
    mine = cores[len(cores) // 2 :]
    if not mine:
        return ""
    is_row = mine[-1] - mine[0] == len(mine) - 1 and len(mine) > 1
    listed = f"{mine[0]}-{mine[-1]}" if is_row else ",".join(map(str, mine))
    return f"taskset -c {listed} spectui ..., "


def _usable(pid: int) -> list[int]:
    """Cores that a process may use; 0 for this one."""
    return sorted(os.sched_getaffinity(pid))


def visible_gpus(environment: Mapping[str, str], root: Path = Path("/")) -> list[str]:
    """GPUs with memory of their own that programs of an environment see.

    NVIDIA's are told by NVML, the others by the kernel.
    """
    with closing(KernelGpus(root=root)) as kernel:
        others = kernel.addresses()
    found = (
        *_visible(_by_nvml(), ("CUDA_VISIBLE_DEVICES",), environment),
        *_visible(others, _OF_OTHERS, environment),
    )
    return [f"GPU {name}" for name in found]


def _visible(
    found: Sequence[str], variables: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Devices that the first set variable allows, by their numbers or names."""
    told = next((environment[name] for name in variables if name in environment), None)
    if told is None:
        return list(found)
    wanted = [one.strip() for one in told.split(",") if one.strip()]
    return [
        name
        for index, name in enumerate(found)
        if any(one == str(index) or name.startswith(one) for one in wanted)
    ]


def _by_nvml() -> list[str]:
    try:
        with nvml.session():
            return [nvml.uuid_of(nvml.by_index(index)) for index in range(nvml.count())]
    except NvmlError:
        return []
