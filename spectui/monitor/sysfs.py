"""Files of sysfs and procfs about a GPU: bounded reads, its link, what a process holds of it.

A file that is not there, cannot be read or holds something else is an error with a reason.
"""

import errno
import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path

from spectui.monitor.metrics import RefusedError
from spectui.monitor.readings import pci_address

_FILE_BYTES = 4096
"""Sysfs gives a page at most."""
_NUMBER = re.compile(r"\d{1,20}")
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENODATA, errno.EOPNOTSUPP, errno.EINVAL}
_GONE = {errno.ENODEV, errno.ENXIO}


class KernelError(RefusedError):
    """A file that is not there, cannot be read, or holds something else."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code
        """Error number of the system; None for content that was read and not understood."""

    @property
    def is_permanent(self) -> bool:
        """Whether asking again a moment later is pointless."""
        return self.code in _ABSENT or self.code == errno.EACCES

    @property
    def is_lost(self) -> bool:
        """Whether the device is gone."""
        return self.code in _GONE

    def reason(self, what: str, gpu: str = "the GPU") -> str:
        """Return a short sentence for a panel; ``what`` was asked of ``gpu``."""
        if self.code is None:
            return f"the kernel reports {what} in a form that is not known here"
        if self.code in _GONE:
            return f"{gpu} is not there any more; it is looked for again"
        if self.code in _ABSENT:
            return f"the kernel does not report {what}"
        if self.code == errno.EACCES:
            return f"no permission: the kernel hides {what} from this user"
        return f'the kernel could not tell {what}: "{os.strerror(self.code)}"'


def content(path: Path) -> bytes:
    """Return at most a page of a file.

    Raises:
        KernelError: it cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(fd, _FILE_BYTES)
        finally:
            os.close(fd)
    except OSError as error:
        raise KernelError(error.errno or errno.EIO) from error


def text(path: Path) -> str:
    """Return a page of text.

    Raises:
        KernelError: it cannot be read.
    """
    return content(path).decode(errors="replace").strip()


def integer(path: Path) -> int:
    """Return the number that a file holds.

    Raises:
        KernelError: it cannot be read, or holds something else.
    """
    told = text(path)
    if _NUMBER.fullmatch(told) is None:
        raise KernelError(None)
    return int(told)


def first(folder: Path, *patterns: str) -> Path:
    """Return the first file that is there; the first pattern's own path where none is."""
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if found:
            return found[0]
    return folder / patterns[0]


_SPEED = re.compile(r"(\d{1,2}(?:\.\d)?) GT/s")
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""By GT/s."""


def _slot(device: Path) -> Path:
    """Return the PCI device whose link is the one into the slot.

    Cards may have a bridge of their own: the link behind it is inside the card, and tells some
    speed or other.
    """
    vendor, slot = text(device / "vendor"), device
    for parent in device.parents:
        if pci_address(parent.name) is None:
            return slot
        with suppress(KernelError):
            if text(parent / "vendor") != vendor:
                return slot
        if (parent / "current_link_speed").is_file():
            slot = parent
    return slot


def link_generation(device: Path) -> float:
    """Return the generation at which a PCI device's link runs now.

    Raises:
        KernelError: it has none, or one that is not known here.
    """
    speed = _SPEED.match(text(_slot(device) / "current_link_speed"))
    if speed is None or float(speed[1]) not in _GENERATIONS:
        raise KernelError(None)
    return float(_GENERATIONS[float(speed[1])])


def link_width(device: Path) -> float:
    """Return the lanes that a PCI device's link uses now.

    Raises:
        KernelError: it has none.
    """
    lanes = integer(_slot(device) / "current_link_width")
    if lanes <= 0:
        raise KernelError(None)
    return float(lanes)


_MOST_FILES = 4096
_RENDER_NODES = Path("/dev/dri")
_FIELD = re.compile(r"^(drm-[a-z-]+):\s*(\S+)", re.MULTILINE)
_CLIENT_MEMORY = re.compile(
    r"^drm-(?P<kind>resident|memory|total)-(?P<region>[a-z]+)\d*:\s*(?P<n>\d{1,18}) ?(?P<unit>\w*)",
    re.MULTILINE,
)
_PREFERRED = ("resident", "memory", "total")
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
CARD_REGIONS = frozenset({"vram"})
"""Kinds of memory on a card."""
RAM_REGIONS = CARD_REGIONS | {"gtt"}
"""Kinds of memory that a GPU without its own takes."""


def own_bytes(proc: Path, address: str, regions: frozenset[str]) -> float:
    """Return the memory of a GPU that a process holds: 0 before it opens it.

    Args:
        proc: folder of the process in procfs.
        address: the GPU's.
        regions: kinds of memory that count.

    Raises:
        KernelError: the kernel lists no files of the process.
    """
    clients: dict[str, float] = {}
    try:
        for file in islice((proc / "fd").iterdir(), _MOST_FILES):
            with suppress(OSError, KernelError):
                if file.readlink().parent == _RENDER_NODES:
                    told = text(proc / "fdinfo" / file.name)
                    fields = dict(_FIELD.findall(told))
                    if fields.get("drm-pdev") == address:
                        client = fields.get("drm-client-id", file.name)
                        clients[client] = _client_bytes(told, regions)
    except OSError as error:
        raise KernelError(error.errno or errno.EIO) from error
    return sum(clients.values())


def _client_bytes(told: str, regions: frozenset[str]) -> float:
    sizes: dict[str, float] = {}
    for match in _CLIENT_MEMORY.finditer(told):
        if match["region"] in regions and match["unit"] in _UNITS:
            size_bytes = int(match["n"]) * _UNITS[match["unit"]]
            sizes[match["kind"]] = sizes.get(match["kind"], 0) + size_bytes
    return next((sizes[kind] for kind in _PREFERRED if kind in sizes), 0.0)
