"""Reads AMD's GPUs from the sysfs files of the Linux kernel's amdgpu driver.

No reading needs root. A reading that a kernel hides or does not count is missing with a reason: a
file that is not there, cannot be read or holds something else raises an error with one.
"""

import errno
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from spectui.documents import Known
from spectui.monitor.metrics import RETRY_S, TRAFFIC, GpuMeter, RefusedError
from spectui.monitor.readings import GpuReading, GpuSource, pci_address

_DRM = "sys/class/drm"
_NODE = re.compile(r"card\d+")
_SLEEPS = "the GPU sleeps; to ask it would wake it"
_HEADER = struct.Struct("<HBB")
"""Header of ``gpu_metrics``: size, revision of the format, revision of the content."""
_INTEGRATED_FORMATS = {2, 3}
"""Formats of the tables of processors with a GPU inside."""
_NO_REASON = "the kernel does not report why the clock is low"

_FILE_BYTES = 4096
"""Sysfs gives a page at most."""
_NUMBER = re.compile(r"\d{1,20}")
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENODATA, errno.EOPNOTSUPP, errno.EINVAL}
_GONE = {errno.ENODEV, errno.ENXIO}
_FORMS: dict[int | None, str] = {
    None: "the kernel reports {what} in a form that is not known here",
    errno.EACCES: "no permission: the kernel hides {what} from this user",
    **dict.fromkeys(_ABSENT, "the kernel does not report {what}"),
    **dict.fromkeys(_GONE, "{gpu} is not there any more; it is looked for again"),
}


class KernelError(RefusedError):
    """A file that is not there, cannot be read, or holds something else."""

    def __init__(self, code: int | None) -> None:
        """Keep the reason.

        Args:
            code: error number of the system; None for content that was read and not understood.
        """
        super().__init__(
            _FORMS.get(code, 'the kernel could not tell {what}: "{text}"'),
            "" if code is None else os.strerror(code),
            is_permanent=code in _ABSENT or code == errno.EACCES,
            is_lost=code in _GONE,
        )


def _content(path: Path) -> bytes:
    """Return at most a page of a file.

    Raises:
        KernelError: it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            return file.read(_FILE_BYTES)
    except OSError as error:
        raise KernelError(error.errno or errno.EIO) from error


def _text(path: Path) -> str:
    """Return a page of text.

    Raises:
        KernelError: it cannot be read.
    """
    return _content(path).decode(errors="replace").strip()


def _integer(path: Path) -> int:
    """Return the number that a file holds.

    Raises:
        KernelError: it cannot be read, or holds something else.
    """
    text = _text(path)
    if _NUMBER.fullmatch(text) is None:
        raise KernelError(None)
    return int(text)


class _Card:
    """One GPU of amdgpu's, for as long as it is there."""

    def __init__(self, node: Path) -> None:
        """Look at the card.

        Args:
            node: its folder among the graphics devices.

        Raises:
            KernelError: its model cannot be read.
            OSError: it is not there.
        """
        self._device = device = (node / "device").resolve(strict=True)
        in_ram = _is_integrated(device)
        self.about = GpuReading(
            index=0,
            name=_name(device),
            source=GpuSource.AMDGPU,
            address=device.name,
            in_ram=in_ram,
        )
        # Weights lie in what a processor's GPU takes of the RAM.
        regions = ("vram", "gtt") if in_ram else ("vram",)
        # The reason of all fields without a query, which are those of the link.
        without_link = self.about.unread(KernelError(errno.ENOENT).reason(TRAFFIC))
        self._meter = GpuMeter(
            replace(without_link, throttled_by=Known(None, _NO_REASON)), _queries(device, regions)
        )

    def read(self, now_s: float) -> GpuReading:
        """Return its present readings.

        Raises:
            KernelError: it was lost.
        """
        if not (self._device / "vendor").exists():
            raise KernelError(errno.ENODEV)
        with suppress(KernelError):
            if _text(self._device / "power/runtime_status") == "suspended":
                return self.about.unread(_SLEEPS)
        return self._meter.read(now_s)


def _name(device: Path) -> str:
    with suppress(KernelError):
        if name := _text(device / "product_name"):
            return name
    return f"AMD GPU {_text(device / 'device').removeprefix('0x')}"


def _is_integrated(device: Path) -> bool:
    """Whether a GPU's memory is the host's, by the form of its table of measurements."""
    with suppress(KernelError):
        table = _content(device / "gpu_metrics")
        return len(table) >= _HEADER.size and _HEADER.unpack_from(table)[1] in _INTEGRATED_FORMATS
    return False


def _queries(device: Path, regions: Sequence[str]) -> Mapping[str, Callable[[], float]]:
    """Reads of the driver's own files and its sensors', by field of ``GpuReading``."""

    def sensor(*names: str) -> Path:
        found = [path for name in names for path in sorted(device.glob(f"hwmon/hwmon*/{name}"))]
        return found[0] if found else device / names[0]

    used, total = (
        [device / f"mem_info_{region}_{what}" for region in regions] for what in ("used", "total")
    )
    return {
        "memory_used_bytes": lambda: float(sum(map(_integer, used))),
        "memory_total_bytes": lambda: float(sum(map(_integer, total))),
        "utilisation": lambda: _integer(device / "gpu_busy_percent") / 100,
        "power_w": lambda: _integer(sensor("power1_average", "power1_input")) / 1e6,
        "temperature_c": lambda: _integer(sensor("temp1_input")) / 1e3,
    }


class KernelGpus:
    """Reads every GPU of amdgpu's. Nothing raises: what fails is a reason."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Look for GPUs at the first ``read``; ``root`` is the folder with ``sys``."""
        self._root = root
        self._cards: dict[str, _Card] = {}
        self._lost: dict[str, str] = {}
        """Reasons why cards are not read, by their addresses."""
        self._due_s = float("-inf")
        """When to look for cards."""

    def read(self, now_s: float, first_index: int = 0) -> tuple[GpuReading, ...]:
        """Return all GPUs, numbered from ``first_index``; those that were lost among them."""
        if now_s >= self._due_s:
            self._due_s = now_s + RETRY_S
            self._find()
        return tuple(
            replace(self._read(address, now_s, index), index=index)
            for index, address in enumerate(self._cards, first_index)
        )

    def _find(self) -> None:
        """Take up cards that are new, or there again."""
        found: dict[str, _Card] = {}
        for node in (self._root / _DRM).glob("card*"):
            # A loop of links is a RuntimeError.
            with suppress(OSError, RuntimeError, KernelError):
                if not _NODE.fullmatch(node.name):
                    continue
                address = pci_address((node / "device").resolve(strict=True).name)
                if (node / "device/driver").resolve().name != GpuSource.AMDGPU:
                    continue
                if address and (address not in self._cards or address in self._lost):
                    found[address] = _Card(node)
        for address in sorted(found):
            self._cards[address] = found[address]
            self._lost.pop(address, None)

    def _read(self, address: str, now_s: float, index: int) -> GpuReading:
        card = self._cards[address]
        if address not in self._lost:
            try:
                return card.read(now_s)
            except RefusedError as error:
                self._lost[address] = error.reason(f"GPU {index}", f"GPU {index}")
        return card.about.unread(self._lost[address])
