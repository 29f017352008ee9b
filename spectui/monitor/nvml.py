"""The choke point of NVML: every call of ``pynvml`` (``nvidia-ml-py``) goes through ``call``.

What NVML refuses becomes an ``NvmlError``, which can say in a short sentence why: every question
below, in our units, may raise it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NewType, TypeVar

import pynvml

from spectui.monitor.metrics import RefusedError
from spectui.monitor.readings import Throttle, pci_address

T = TypeVar("T")

_REASONS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "no NVIDIA driver is loaded (libnvidia-ml.so.1 was not found)"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "no NVIDIA driver is loaded (its kernel module does not answer)"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA driver was updated while it ran; restart the machine"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission: the driver hides {what} from this user",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "the driver does not report {what}",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "this NVIDIA driver is too old to report {what}",
    pynvml.NVML_ERROR_GPU_IS_LOST: "{gpu} was lost; restart the driver",
    pynvml.NVML_ERROR_RESET_REQUIRED: "{gpu} needs a reset; restart the driver",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "{gpu} is not there any more; restart the driver",
    pynvml.NVML_ERROR_NOT_FOUND: "{gpu} is not there any more; restart the driver",
    pynvml.NVML_ERROR_UNINITIALIZED: "NVML was shut down; it is started again shortly",
}
_PERMANENT = (
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
_LOST = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
    # Another part of this process ended the session: to us that is the same.
    pynvml.NVML_ERROR_UNINITIALIZED,
)


class NvmlError(RefusedError):
    """A call that NVML refused."""

    def __init__(self, code: int, text: str) -> None:
        form = _REASONS.get(code, 'NVML could not tell {what}: "{text}"')
        super().__init__(form, text, is_permanent=code in _PERMANENT, is_lost=code in _LOST)
        self.code = code


def call(function: Callable[..., T], *arguments: object) -> T:
    """Call a function of ``pynvml``.

    Raises:
        NvmlError: NVML refused.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlError(error.value, str(error)) from error


@contextmanager
def session() -> Iterator[None]:
    """Hold a session. NVML counts them, and ends with the last.

    Raises:
        NvmlError: there is no driver, or it does not answer.
    """
    call(pynvml.nvmlInit)
    try:
        yield
    finally:
        # One that is over already is fine.
        with suppress(NvmlError):
            call(pynvml.nvmlShutdown)


Handle = NewType("Handle", object)
"""A GPU, for as long as the session lasts in which it was asked for."""

_KIB = 1 << 10


def count() -> int:
    """Return how many GPUs the driver knows."""
    return int(call(pynvml.nvmlDeviceGetCount))


def driver_version() -> str:
    """Return the version of the driver."""
    return str(call(pynvml.nvmlSystemGetDriverVersion))


def by_index(index: int) -> Handle:
    """Return GPU ``index``."""
    return Handle(call(pynvml.nvmlDeviceGetHandleByIndex, index))


def by_uuid(uuid: str) -> Handle:
    """Return the card that ``uuid`` names, whatever its index is now."""
    return Handle(call(pynvml.nvmlDeviceGetHandleByUUID, uuid))


def gpus() -> list[Handle]:
    """Return every GPU that the driver knows."""
    return [by_index(index) for index in range(count())]


def uuid_of(gpu: Handle) -> str:
    """Return the card's stable identifier."""
    return str(call(pynvml.nvmlDeviceGetUUID, gpu))


def name(gpu: Handle) -> str:
    """Return the model of the card."""
    return str(call(pynvml.nvmlDeviceGetName, gpu))


def address(gpu: Handle) -> str | None:
    """Return the card's PCI address; None where the driver does not tell."""
    with suppress(NvmlError):
        return pci_address(call(pynvml.nvmlDeviceGetPciInfo, gpu).busId)
    return None


def memory_used_bytes(gpu: Handle) -> float:
    """Return the memory in use, with what the driver reserves for itself."""
    return float(call(pynvml.nvmlDeviceGetMemoryInfo, gpu).used)


def memory_total_bytes(gpu: Handle) -> float:
    """Return the memory of the card."""
    return float(call(pynvml.nvmlDeviceGetMemoryInfo, gpu).total)


_HEAT = pynvml.nvmlClocksThrottleReasonSwThermalSlowdown | (
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
)
_THROTTLES = {
    Throttle.HEAT: _HEAT,
    Throttle.SUPPLY: pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    Throttle.HARDWARE: pynvml.nvmlClocksThrottleReasonHwSlowdown,
    Throttle.POWER: pynvml.nvmlClocksThrottleReasonSwPowerCap,
}


def throttled_by(gpu: Handle) -> tuple[Throttle, ...]:
    """Return the reasons for which the clocks are held back; not that there is nothing to do."""
    reasons = int(call(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, gpu))
    found = [one for one, bits in _THROTTLES.items() if reasons & bits]
    if len(found) > 1 and Throttle.HARDWARE in found:
        # It stands beside what has a name of its own.
        found.remove(Throttle.HARDWARE)
    return tuple(found)


def memory_bytes_per_s(gpu: Handle) -> float:
    """Return the memory's bandwidth at its highest clock, which moves data twice per cycle."""
    clock_hz = float(call(pynvml.nvmlDeviceGetMaxClockInfo, gpu, pynvml.NVML_CLOCK_MEM)) * 1e6
    return 2 * clock_hz * float(call(pynvml.nvmlDeviceGetMemoryBusWidth, gpu)) / 8


QUERIES: Mapping[str, Callable[[Handle], Any]] = {
    "memory_used_bytes": memory_used_bytes,
    "memory_total_bytes": memory_total_bytes,
    # Of the last interval of the driver's, in which a kernel ran.
    "utilisation": lambda gpu: call(pynvml.nvmlDeviceGetUtilizationRates, gpu).gpu / 100,
    "power_w": lambda gpu: call(pynvml.nvmlDeviceGetPowerUsage, gpu) / 1000,
    "temperature_c": lambda gpu: float(
        call(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU)
    ),
    "throttled_by": throttled_by,
    "pcie_generation": lambda gpu: call(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, gpu),
    "pcie_width": lambda gpu: call(pynvml.nvmlDeviceGetCurrPcieLinkWidth, gpu),
}
"""Questions about a GPU, by field of ``GpuReading``."""


def pcie_throughput(gpu: Handle) -> tuple[float, float]:
    """Measure bytes per second received and sent; blocks for 20 ms per direction."""
    directions = (pynvml.NVML_PCIE_UTIL_RX_BYTES, pynvml.NVML_PCIE_UTIL_TX_BYTES)
    # NVML says KB/s; nvtop and nvitop read them as KiB.
    received, sent = (
        float(call(pynvml.nvmlDeviceGetPcieThroughput, gpu, direction)) * _KIB
        for direction in directions
    )
    return received, sent
