"""Reads NVIDIA's GPUs through NVML.

Every call of ``pynvml`` (``nvidia-ml-py``) goes through ``call``, which turns a refusal into an
``NvmlError`` with a short sentence as its reason. Every query below may raise it; results are in
spectui's units.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NewType, TypeVar

import pynvml

from spectui.monitor.metrics import RETRY_S, GpuMeter, RefusedError, SlowMeter
from spectui.monitor.readings import GpuReading, Throttle, pci_address

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
    # Another part of this process ended the session, which has the same effect.
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
    """Return the reasons for which the clocks are held back; being idle is none of them."""
    reasons = int(call(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, gpu))
    found = [one for one, bits in _THROTTLES.items() if reasons & bits]
    if len(found) > 1 and Throttle.HARDWARE in found:
        # It accompanies reasons that have names of their own.
        found.remove(Throttle.HARDWARE)
    return tuple(found)


def memory_bytes_per_s(gpu: Handle) -> float:
    """Return the memory's bandwidth at its highest clock, which moves data twice per cycle."""
    clock_hz = float(call(pynvml.nvmlDeviceGetMaxClockInfo, gpu, pynvml.NVML_CLOCK_MEM)) * 1e6
    return 2 * clock_hz * float(call(pynvml.nvmlDeviceGetMemoryBusWidth, gpu)) / 8


QUERIES: Mapping[str, Callable[[Handle], Any]] = {
    # With what the driver reserves for itself.
    "memory_used_bytes": lambda gpu: float(call(pynvml.nvmlDeviceGetMemoryInfo, gpu).used),
    "memory_total_bytes": lambda gpu: float(call(pynvml.nvmlDeviceGetMemoryInfo, gpu).total),
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


class _Card:
    """A GPU that was present at least once; its index stays, wherever the driver puts it later."""

    def __init__(self, index: int) -> None:
        self._about = GpuReading(index=index, name=f"GPU {index}")
        self._uuid: str | None = None
        self._meter: GpuMeter | None = None

    @property
    def is_read(self) -> bool:
        """Whether it was found, and not lost since."""
        return self._meter is not None

    def find(self) -> None:
        """Look for it in a new session, and begin to read it."""
        index = self._about.index
        try:
            gpu = by_index(index) if self._uuid is None else by_uuid(self._uuid)
            self._uuid = uuid_of(gpu)
            self._about = GpuReading(index=index, name=name(gpu), address=address(gpu))
            queries = {field: partial(query, gpu) for field, query in QUERIES.items()}
            self._meter = GpuMeter(self._about, queries, SlowMeter(partial(pcie_throughput, gpu)))
        except NvmlError as error:
            self.lose(error)

    def lose(self, error: RefusedError) -> None:
        """Stop reading it."""
        self.close()
        name = f"GPU {self._about.index}"
        self._about = self._about.unread(error.reason(name, name))

    def read(self, now_s: float) -> GpuReading:
        """Return its readings, or its description, with a reason for each that is missing."""
        if self._meter is not None:
            try:
                return self._meter.read(now_s)
            except RefusedError as error:
                self.lose(error)
        return self._about

    def close(self) -> None:
        """End what runs in the background."""
        if self._meter is not None:
            self._meter.close()
            self._meter = None


class NvidiaGpus:
    """Reads every GPU that NVML knows. Nothing raises: what fails is a reason."""

    def __init__(self) -> None:
        """Look for GPUs at the first ``read``."""
        self._cards: list[_Card] = []
        self._reason: str | None = None
        self._session = ExitStack()
        self._due_s = float("-inf")
        """When to look for what is missing."""

    def read(self, now_s: float) -> tuple[tuple[GpuReading, ...], str | None]:
        """Return all GPUs, or none and the reason."""
        is_complete = bool(self._cards) and all(card.is_read for card in self._cards)
        if is_complete or now_s >= self._due_s:
            # A card that is lost by this reading is left alone for a while as well.
            self._due_s = now_s + RETRY_S
            if not is_complete:
                self._restart()
        return tuple(card.read(now_s) for card in self._cards), self._reason

    def close(self) -> None:
        """End the session."""
        for card in self._cards:
            card.close()
        self._session.close()

    def _restart(self) -> None:
        """Begin a new session: in an old one a lost GPU stays lost, and handles end with it."""
        self.close()
        self._reason = None
        try:
            self._session.enter_context(session())
            self._cards = self._cards or [_Card(index) for index in range(count())]
        except NvmlError as error:
            for card in self._cards:
                card.lose(error)
            self._reason = error.reason("the GPUs")
            return
        if not self._cards:
            self._reason = "the NVIDIA driver finds no GPU"
        for card in self._cards:
            card.find()
