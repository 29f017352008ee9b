"""The GPU memory of this very process."""

import os
from pathlib import Path

import pynvml

from spectui.monitor.nvml import NvmlError, call
from spectui.monitor.queries import Handle

_PID_NAMESPACE = Path("/proc/self/ns/pid")
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""Linux gives the namespace that it boots with this number (``PROC_PID_INIT_INO``)."""


class UnknownProcessError(NvmlError):
    """The driver lists processes by ids that mean nothing here."""

    def __init__(self) -> None:
        super().__init__(pynvml.NVML_ERROR_NOT_FOUND, "unknown process")

    def reason(self, what: str, gpu: str = "the GPU") -> str:  # noqa: ARG002 - as the base has it
        """Return the one reason that there is."""
        return "in a container the driver does not know this process by its id"


def process_bytes(gpu: Handle) -> float:
    """Return what this process holds of the memory of ``gpu``: 0 before it uses the GPU.

    Raises:
        NvmlError: NVML refused, keeps the size to itself, or counts processes differently.
    """
    processes = call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, gpu)
    sizes = [process.usedGpuMemory for process in processes if process.pid == os.getpid()]
    if None in sizes:
        raise NvmlError(pynvml.NVML_ERROR_NOT_SUPPORTED, "the size is not available")
    if not sizes and not _driver_knows_our_ids():
        raise UnknownProcessError
    return float(sum(sizes))


def _driver_knows_our_ids() -> bool:
    try:
        return str(_PID_NAMESPACE.readlink()) == _INITIAL_PID_NAMESPACE
    except OSError:
        return False
