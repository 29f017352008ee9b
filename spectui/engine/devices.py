"""The GPUs that a screen shows: those of the system, beside llama.cpp's devices that use them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spectui.engine.events import Role
from spectui.llama.buffers import DeviceMemory, ModelMemory
from spectui.monitor.readings import GpuReading, GpuSource, Reading, Snapshot, pci_address

_UNSEEN = "only llama.cpp knows this device, and tells its memory alone"
_REMOTE = "RPC"
"""Such devices are another machine's: their names have its address, which is long."""


def devices_of(models: Mapping[Role, ModelMemory]) -> tuple[DeviceMemory, ...]:
    """Return llama.cpp's GPUs, as they were when the last model was loaded."""
    return next((one.devices for one in tuple(models.values())[::-1] if one.devices), ())


def shown_gpus(
    gpus: Sequence[GpuReading], devices: Sequence[DeviceMemory]
) -> tuple[GpuReading, ...]:
    """Return the GPUs that concern a session, each with llama.cpp's names of it.

    What only llama.cpp knows is among them. A card that none of its devices is on, such as one
    hidden by ``CUDA_VISIBLE_DEVICES``, is left out where others are used, and a processor's GPU
    beside a card as long as nobody tells which is used.

    Args:
        gpus: the system's.
        devices: llama.cpp's; empty where they are not known, or there are none.
    """
    found = _matched(gpus, devices)
    if found:
        chosen = [gpu for gpu in gpus if gpu.index in found.values()]
    else:
        chosen = [gpu for gpu in gpus if not gpu.in_ram] or list(gpus)
    named = [
        _completed(gpu, [one for one in devices if found.get(one.name) == gpu.index])
        for gpu in chosen
    ]
    unseen = [one for one in devices if one.name not in found]
    remote = [one.name for one in unseen if _is_remote(one)]
    first = max((gpu.index for gpu in gpus), default=-1) + 1
    own = (
        _own(one, index, f"{_REMOTE}{remote.index(one.name)}" if one.name in remote else one.name)
        for index, one in enumerate(unseen, first)
    )
    return (*named, *own)


def concerned(snapshot: Snapshot, models: Mapping[Role, ModelMemory]) -> Snapshot:
    """Return a reading of the machine with the GPUs that the system knows, and that concern it."""
    shown = shown_gpus(snapshot.gpus, devices_of(models))
    gpus = tuple(gpu for gpu in shown if gpu.source is not GpuSource.LLAMA_CPP)
    return replace(snapshot, gpus=gpus)


def _matched(gpus: Sequence[GpuReading], devices: Sequence[DeviceMemory]) -> dict[str, int]:
    """Index of each device's GPU, by their addresses; by order only where these are not told."""
    by_address = {gpu.address: gpu.index for gpu in gpus if gpu.address is not None}
    addresses = {one.name: pci_address(one.id) for one in devices}
    found = {
        name: by_address[address] for name, address in addresses.items() if address in by_address
    }
    for in_ram in (False, True):
        rest = [
            one
            for one in devices
            if one.name not in found and one.in_ram is in_ram and not _is_remote(one)
        ]
        left = [gpu for gpu in gpus if gpu.index not in found.values() and gpu.in_ram is in_ram]
        pairs = list(zip(rest, left, strict=False))
        if len(rest) == len(left) and not any(addresses[a.name] and b.address for a, b in pairs):
            found |= {device.name: gpu.index for device, gpu in pairs}
    return found


def _is_remote(device: DeviceMemory) -> bool:
    return device.name.startswith(_REMOTE)


def _completed(gpu: GpuReading, devices: Sequence[DeviceMemory]) -> GpuReading:
    """Add what llama.cpp tells of it, where the system does not."""
    if not devices:
        return gpu
    named = replace(gpu, devices=tuple(one.name for one in devices))
    if gpu.source is not GpuSource.NVML:
        named = replace(named, name=devices[0].description or gpu.name)
    if gpu.memory_used_bytes.value is not None and gpu.memory_total_bytes.value is not None:
        return named
    return _with_memory(named, devices[0])


def _own(device: DeviceMemory, index: int, name: str) -> GpuReading:
    gpu = GpuReading(
        index=index,
        name=name,
        source=GpuSource.LLAMA_CPP,
        address=pci_address(device.id),
        in_ram=device.in_ram,
        devices=(device.name,),
    )
    return _with_memory(gpu.unread(_UNSEEN), device)


def _with_memory(gpu: GpuReading, device: DeviceMemory) -> GpuReading:
    if device.total_bytes is None or device.free_bytes is None:
        return gpu
    return replace(
        gpu,
        memory_used_bytes=Reading(device.total_bytes - device.free_bytes),
        memory_total_bytes=Reading(device.total_bytes),
        memory_source=GpuSource.LLAMA_CPP,
    )
