"""Buffers of llama.cpp, and the devices they are on. Pure: a screen need not load llama.cpp."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from spectui.models.weights import WeightTraffic
from spectui.options.setup import Devices, SplitMode

HOST = "CPU"
"""The memory of the host, as llama.cpp names its device."""


class BufferKind(StrEnum):
    """Contents of a buffer."""

    WEIGHTS = "weights"
    KV = "kv"
    """Caches, and the state of recurrent layers."""
    COMPUTE = "compute"
    OUTPUT = "output"
    """Logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """One buffer of one model or context."""

    device: str
    """Name in llama.cpp: ``CPU``, ``CPU_Mapped``, ``CUDA0``, ``CUDA_Host``, ``RPC0[host:port]``."""
    kind: BufferKind
    size_bytes: int

    @property
    def gpu(self) -> int | None:
        """Number of this machine's GPU that holds the buffer; None for other memory."""
        match = _GPU.fullmatch(self.device)
        return int(match["number"]) if match and not match["server"] else None

    @property
    def memory(self) -> str:
        """Memory that it takes: a device's, by llama.cpp's name (``CUDA0``), or ``HOST``."""
        match = _GPU.fullmatch(self.device)
        return match["name"] if match else HOST

    @property
    def is_mapped(self) -> bool:
        """Whether it is a file in the page cache, which the kernel may drop and read again."""
        return self.device.endswith("_Mapped") and self.memory == HOST


_GPU = re.compile(r"(?P<name>(?!CPU)[A-Za-z]+(?P<number>\d+)(?P<server>\[.+\])?)(?:_\w+)?")
"""Such as ``CUDA0``, ``Vulkan1``, ``MTL0_Mapped`` or ``RPC0[192.168.1.2:50052]``."""
_KINDS = {
    "model": BufferKind.WEIGHTS,
    "KV": BufferKind.KV,
    "RS": BufferKind.KV,
    "compute": BufferKind.COMPUTE,
    "output": BufferKind.OUTPUT,
}
_LINE = re.compile(
    rf"\w+:\s+(?P<device>\S+)\s+(?:(?P<kind>{'|'.join(_KINDS)}) buffer|MoE cache) size ="
    r"\s+(?P<mib>[\d.]+) MiB(?: for [\d.]+ MiB of host experts)?\s*"
)
"""The cache of experts counts as the other cache: llama.cpp's breakdown adds them up as well."""
_MIB = 1 << 20
_REPLACED_KINDS = frozenset({BufferKind.COMPUTE, BufferKind.OUTPUT})
"""Kinds of which a context has one per device: a later line in the log replaces the earlier."""


def parse_buffers(lines: Iterable[str]) -> tuple[Buffer, ...]:
    """Read the buffers out of the log of one model load, one context creation, or both.

    Several contexts have a log each: ``add_up`` what they have.

    Lines of one kind and device are added up: a cache of several parts, a model of several files.
    """
    sizes: dict[tuple[str, BufferKind], int] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        key = match["device"], _KINDS[match["kind"] or "KV"]
        size_bytes = round(float(match["mib"]) * _MIB)
        sizes[key] = size_bytes if key[1] in _REPLACED_KINDS else sizes.get(key, 0) + size_bytes
    return _buffers(sizes)


def add_up(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Make one of all buffers of a kind and device."""
    sizes: Counter[tuple[str, BufferKind]] = Counter()
    for buffer in buffers:
        sizes[buffer.device, buffer.kind] += buffer.size_bytes
    return _buffers(sizes)


def bytes_by_memory(buffers: Iterable[Buffer]) -> Counter[str]:
    """Bytes that buffers take of each memory, by ``Buffer.memory``."""
    sizes = Counter[str]()
    for buffer in buffers:
        sizes[buffer.memory] += buffer.size_bytes
    return sizes


def mapped_bytes(buffers: Iterable[Buffer]) -> int:
    """Bytes of the buffers that are files in the page cache."""
    return sum(one.size_bytes for one in buffers if one.is_mapped)


def _buffers(sizes: Mapping[tuple[str, BufferKind], int]) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(device=device, kind=kind, size_bytes=size_bytes)
        for (device, kind), size_bytes in sizes.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """A GPU of llama.cpp's, and the memory that it computes in."""

    name: str
    """Such as ``CUDA0``, as ``Buffer.memory`` has it."""
    description: str
    """Such as the GPU's product name."""
    free_bytes: int | None
    """None, as ``total_bytes``, where the device does not report it."""
    total_bytes: int | None
    in_ram: bool = False
    """Whether that memory is the host's: what it takes is not free there either."""
    maps_files: bool = True
    """Whether models are mapped where it is used; else they are read, for the host as well."""
    device: str = ""
    """Name for ``-dev`` where it is another one: ``RPC1`` of ``RPC0[192.168.1.2:50052]``."""
    id: str | None = None
    """Id of the slot, mostly a PCI address; equal for one card that several backends drive. None
    where it is unknown."""

    @property
    def title(self) -> str:
        """Name as llama.cpp lists it."""
        return self.device or self.name


def devices_of(placed: Devices, present: Sequence[DeviceMemory]) -> tuple[DeviceMemory, ...]:
    """Devices that a model is put on, in its order.

    Args:
        placed: options of the model.
        present: devices that there are. Names of others are passed over: loading refuses them.
    """
    found = tuple(present)
    if placed.names is not None:
        by_name = {one.title: one for one in present}
        found = tuple(by_name[name] for name in placed.names if name in by_name)
    if placed.split_mode is SplitMode.NONE:
        found = found[placed.main : placed.main + 1]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """One model with its context."""

    buffers: tuple[Buffer, ...]
    traffic: WeightTraffic | None
    """None where it cannot be found from the file's header."""
    mtp_traffic: WeightTraffic | None = None
    """Traffic of the MTP layers, where these may draft."""
    shifted: Mapping[int, WeightTraffic] = field(default_factory=dict)
    """Traffic of the model by another ``--n-cpu-moe``: a layer's experts more or fewer in RAM."""
    devices: tuple[DeviceMemory, ...] = ()
    """GPUs that llama.cpp sees, as they were once it was loaded."""
