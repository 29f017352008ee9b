"""Identity of a machine: enough to tell whether two measurements may be compared."""

import hashlib
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pynvml

from spectui.documents import Json, encoded
from spectui.format import counted
from spectui.monitor import nvml
from spectui.monitor.nvml import NvmlError

_CPU_INFO = Path("/proc/cpuinfo")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Hardware that decides how fast a model runs."""

    cpu: str
    n_cores: int
    """Physical cores."""
    memory_bytes: int
    gpus: tuple[str, ...]
    gpu_problem: str | None = None
    """Why an NVIDIA driver that is there lists no GPUs; None where it does."""
    driver: str | None = None
    """Version of the NVIDIA driver that lists the GPUs; None without one, or if it is unknown."""

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits, equal on machines with the same hardware."""
        # Kernels reserve a little more or less memory from boot to boot: whole GiB are stable.
        parts = (self.cpu, str(self.n_cores), str(round(self.memory_bytes / _GIB)), *self.gpus)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """Processor, cores and GPUs; it names no host."""
        return ", ".join((f"{self.cpu} ({counted(self.n_cores, 'core')})", *self.gpus))

    @property
    def conditions(self) -> dict[str, str]:
        """The machine's part of the conditions under which measurements compare.

        ``driver`` is there where its version is known.
        """
        driver = {} if self.driver is None else {"driver": self.driver}
        return {"machine": self.fingerprint, **driver}

    def document(self) -> Json:
        """The machine as JSON, with its fingerprint."""
        found = {"fingerprint": self.fingerprint, **encoded(self)}
        optional = {"gpu_problem", "driver"}
        return {key: value for key, value in found.items() if key not in optional or value}


def this_machine() -> Machine:
    """Read the hardware; parts that cannot be read are left out."""
    gpus, driver, problem = _gpus()
    return Machine(
        cpu=_cpu_name(),
        n_cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus,
        gpu_problem=problem,
        driver=driver,
    )


def _cpu_name() -> str:
    for line in _CPU_INFO.read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _gpus() -> tuple[tuple[str, ...], str | None, str | None]:
    """Names of the GPUs, their driver's version, and why there are none.

    For a fingerprint a machine whose GPUs are not listed is one without.
    """
    try:
        with nvml.session():
            names = tuple(map(nvml.name, nvml.gpus()))
            driver = None
            with suppress(NvmlError):
                # Without a version, GPUs compare as in results that did not store it.
                driver = nvml.driver_version()
            return names, driver if names else None, None
    except NvmlError as error:
        is_absent = error.code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        return (), None, None if is_absent else error.reason("its GPUs")
