"""What NVML can be asked about a GPU, in our units. Every function raises ``NvmlError``."""

from typing import NamedTuple, NewType

import pynvml

from spectui.monitor.nvml import NvmlError, call

Handle = NewType("Handle", object)
"""A GPU, for as long as the session lasts in which it was asked for."""

_KIB = 1 << 10
# With their scope, which has no meaning here: without it the binding falls over an exception first.
_PCIE_FIELDS = (
    (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
)


class PcieCounters(NamedTuple):
    """Bytes over the link so far, from the GPU's side."""

    received: int
    sent: int
    is_32_bit: bool
    """They start again at 0 after ``2**32 - 1``."""


def count() -> int:
    """Return how many GPUs the driver knows."""
    return int(call(pynvml.nvmlDeviceGetCount))


def by_index(index: int) -> Handle:
    """Return GPU ``index``."""
    return Handle(call(pynvml.nvmlDeviceGetHandleByIndex, index))


def by_uuid(uuid: str) -> Handle:
    """Return the card that ``uuid`` names, whatever its index is now."""
    return Handle(call(pynvml.nvmlDeviceGetHandleByUUID, uuid))


def uuid_of(gpu: Handle) -> str:
    """Return what tells this card from any other."""
    return str(call(pynvml.nvmlDeviceGetUUID, gpu))


def name(gpu: Handle) -> str:
    """Return the model of the card."""
    # Older bindings return bytes.
    answer: str | bytes = call(pynvml.nvmlDeviceGetName, gpu)
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def memory_used_bytes(gpu: Handle) -> float:
    """Return the memory in use, with what the driver reserves for itself."""
    return float(call(pynvml.nvmlDeviceGetMemoryInfo, gpu).used)


def memory_total_bytes(gpu: Handle) -> float:
    """Return the memory of the card."""
    return float(call(pynvml.nvmlDeviceGetMemoryInfo, gpu).total)


def utilisation(gpu: Handle) -> float:
    """Return the share of the last driver interval in which a kernel ran, 0 to 1."""
    return float(call(pynvml.nvmlDeviceGetUtilizationRates, gpu).gpu) / 100


def power_w(gpu: Handle) -> float:
    """Return the power of the whole card."""
    return float(call(pynvml.nvmlDeviceGetPowerUsage, gpu)) / 1000


def temperature_c(gpu: Handle) -> float:
    """Return the temperature of the chip."""
    return float(call(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU))


def clock_hz(gpu: Handle) -> float:
    """Return the clock of the streaming multiprocessors."""
    return float(call(pynvml.nvmlDeviceGetClockInfo, gpu, pynvml.NVML_CLOCK_SM)) * 1e6


def memory_bytes_per_s(gpu: Handle) -> float:
    """Return what the memory can do at its highest clock, which moves data twice per cycle."""
    clock_hz = float(call(pynvml.nvmlDeviceGetMaxClockInfo, gpu, pynvml.NVML_CLOCK_MEM)) * 1e6
    return 2 * clock_hz * float(call(pynvml.nvmlDeviceGetMemoryBusWidth, gpu)) / 8


def pcie_generation(gpu: Handle) -> float:
    """Return the generation at which the link runs now."""
    return float(call(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, gpu))


def pcie_width(gpu: Handle) -> float:
    """Return the lanes that the link uses now."""
    return float(call(pynvml.nvmlDeviceGetCurrPcieLinkWidth, gpu))


def pcie_max_generation(gpu: Handle) -> float:
    """Return the generation at which card and slot can run."""
    return float(call(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, gpu))


def pcie_max_width(gpu: Handle) -> float:
    """Return the lanes that card and slot have."""
    return float(call(pynvml.nvmlDeviceGetMaxPcieLinkWidth, gpu))


def pcie_counters(gpu: Handle) -> PcieCounters:
    """Return the byte counters of the link; this does not block.

    nvml.h calls them bytes and says that they can wrap. The kernel driver keeps 32 bits
    (``NV2080_CTRL_BUS_GET_PEX_UTIL_COUNTERS_PARAMS``); the value's type tells what reaches us.
    """
    received, sent = call(pynvml.nvmlDeviceGetFieldValues, gpu, _PCIE_FIELDS)
    for field in (received, sent):
        if field.nvmlReturn != pynvml.NVML_SUCCESS:
            raise NvmlError(field.nvmlReturn, f"field {field.fieldId}")
    is_32_bit = received.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    # NVML leaves the rest of the union as it was.
    key = "uiVal" if is_32_bit else "ullVal"
    return PcieCounters(int(getattr(received.value, key)), int(getattr(sent.value, key)), is_32_bit)


def pcie_throughput(gpu: Handle) -> tuple[float, float]:
    """Measure bytes per second received and sent; blocks for 20 ms per direction."""
    directions = (pynvml.NVML_PCIE_UTIL_RX_BYTES, pynvml.NVML_PCIE_UTIL_TX_BYTES)
    # NVML says KB/s; nvtop and nvitop read them as KiB.
    received, sent = (
        float(call(pynvml.nvmlDeviceGetPcieThroughput, gpu, direction)) * _KIB
        for direction in directions
    )
    return received, sent
