"""The real ``pynvml`` over a stand-in for NVIDIA's library, which is built from ``nvml_stub.c``."""

import ctypes
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pynvml

SOURCE = Path(__file__).with_name("nvml_stub.c")
LIBRARY = "libnvidia-ml.so.1"
ANY_GPU = -1
MIB = 1 << 20


_NUMBERS = (
    *("pid", "received_kib_per_s", "sent_kib_per_s", "utilisation_percent"),
    *("power_mw", "temperature_c", "clock_mhz", "generation", "width"),
    *("memory_clock_mhz", "memory_bits", "other_pid", "own_percent", "other_percent"),
)


class StandInGpu(ctypes.Structure):
    """One GPU of the stand-in, as ``Gpu`` in the C source; what is assigned is what NVML tells."""

    _fields_ = (
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("memory_total_bytes", ctypes.c_ulonglong),
        ("memory_used_bytes", ctypes.c_ulonglong),
        ("process_bytes", ctypes.c_ulonglong),
        *((name, ctypes.c_uint) for name in _NUMBERS),
        ("sampled_us", ctypes.c_ulonglong),
        ("throttle_reasons", ctypes.c_ulonglong),
        ("bus_id", ctypes.c_char * 32),
    )


class StandIn:
    """The stand-in library: its GPUs, and what goes wrong with them."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self._gpus = (StandInGpu * 8).in_dll(library, "stub_gpus")
        self._n_gpus = ctypes.c_int.in_dll(library, "stub_n_gpus")
        self._driver = (ctypes.c_char * 80).in_dll(library, "stub_driver")

    def add_gpu(self, **fields: object) -> StandInGpu:
        """Plug in a GPU on a generation 3 link."""
        index = self._n_gpus.value
        gpu: StandInGpu = self._gpus[index]
        usual: dict[str, object] = {
            "name": f"Stand-in {index}".encode(),
            "uuid": f"GPU-{index}".encode(),
            "bus_id": f"00000000:{index + 1:02X}:00.0".encode(),
            "memory_total_bytes": 24_576 * MIB,
            "memory_used_bytes": 1_024 * MIB,
            "utilisation_percent": 30,
            "power_mw": 95_500,
            "temperature_c": 51,
            "clock_mhz": 2_520,
            "generation": 3,
            "width": 16,
            "memory_clock_mhz": 9_751,
            "memory_bits": 384,
        }
        for field, value in (usual | fields).items():
            setattr(gpu, field, value)
        self._n_gpus.value = index + 1
        return gpu

    def update_driver(self, version: str) -> None:
        self._driver.value = version.encode()

    def reorder(self) -> None:
        """Swap the first two GPUs, as a driver may that finds them in another order."""
        first, second = bytes(self._gpus[0]), bytes(self._gpus[1])
        ctypes.memmove(ctypes.byref(self._gpus[0]), second, len(second))
        ctypes.memmove(ctypes.byref(self._gpus[1]), first, len(first))

    def rule(
        self,
        function: str,
        *,
        gpu: int = ANY_GPU,
        code: int = pynvml.NVML_SUCCESS,
        delay_ms: int = 0,
        hangs: bool = False,
    ) -> None:
        """Let a function fail, take its time, or hang until it gets another rule.

        ``*`` is every function of one GPU.
        """
        arguments = (function.encode(), gpu, code, ctypes.c_longlong(delay_ms), int(hangs))
        self.library.stub_rule(*arguments)

    def calls(self, function: str, gpu: int = 0) -> int:
        return int(self.library.stub_calls(function.encode(), gpu))

    def sessions(self) -> int:
        return int(self.library.stub_sessions())


def until(condition: Callable[[], bool]) -> None:
    """Ask until ``condition`` holds; the deadline only keeps a broken test from hanging."""
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"


def build(folder: Path) -> Path:
    """Compile the stand-in into ``folder``, under the name that NVIDIA's library has."""
    library = folder / LIBRARY
    command = ["cc", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"]
    subprocess.run([*command, "-Werror", "-o", library, SOURCE], check=True)
    return library


def environment(folder: Path) -> dict[str, str]:
    """Environment of a program that finds NVIDIA's library in ``folder`` first."""
    return os.environ | {"LD_LIBRARY_PATH": str(folder)}
