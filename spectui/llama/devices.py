"""The devices that llama.cpp puts models on, and what is free on them."""

import ctypes
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectui.llama.library import devices, ggml
from spectui.llama.planned import DeviceMemory

GPU, INTEGRATED = 1, 2
"""``GGML_BACKEND_DEVICE_TYPE_GPU`` and ``_IGPU``; the others compute with the processor."""
_METAL = re.compile(r"(MTL|Metal)\d*")
"""Such a device is no integrated one for ggml, and on Apple silicon has no memory of its own."""
_NUMBERED = re.compile(r"(?P<backend>.*?)\d*")


class _Capabilities(ctypes.Structure):
    """``struct ggml_backend_dev_caps``."""

    _fields_ = tuple(
        (name, ctypes.c_bool)
        for name in ("is_async", "host_buffer", "buffer_from_host_ptr", "events", "mmap_support")
    )


class _Properties(ctypes.Structure):
    """``struct ggml_backend_dev_props``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("capabilities", _Capabilities),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device, as ggml describes it."""

    type: int
    id: str | None
    """Id of the slot; equal for one card that several backends drive. None where it is unknown."""
    memory: DeviceMemory


def gpu_memories() -> tuple[DeviceMemory, ...]:
    """Every GPU that a model would be put on; the first call starts the drivers."""
    return used(tuple(_described()))


def used(found: Sequence[Device]) -> tuple[DeviceMemory, ...]:
    """Choose as ``llama_prepare_model_devices`` does, in its order.

    Every card once; and integrated GPUs only where there is no other, those of one backend.
    """
    cards: list[Device] = []
    for one in found:
        known = one.id is not None and any(card.id == one.id for card in cards)
        if one.type == GPU and not known:
            cards.append(one)
    integrated = [one for one in found if one.type == INTEGRATED]
    if cards or not integrated:
        return tuple(card.memory for card in cards)
    first = _backend(integrated[0])
    return tuple(one.memory for one in integrated if _backend(one) == first)


def _backend(device: Device) -> str | None:
    match = _NUMBERED.fullmatch(device.memory.name)
    return match and match["backend"]


def _described() -> Iterator[Device]:
    base = ggml("ggml-base")
    base.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    for device in devices():
        # Others need not be asked: some take long to describe themselves.
        if base.ggml_backend_dev_type(device) in {GPU, INTEGRATED}:
            yield describe(device)


def describe(device: int) -> Device:
    """Ask ggml about a device, given as C pointer; this may start its driver."""
    base = ggml("ggml-base")
    base.ggml_backend_dev_get_props.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Properties)]
    base.ggml_backend_dev_get_props.restype = None
    properties = _Properties()
    base.ggml_backend_dev_get_props(device, ctypes.byref(properties))
    name = properties.name.decode(errors="replace")
    is_told = properties.memory_total > 0
    is_apples = platform.machine() == "arm64" and _METAL.fullmatch(name) is not None
    device_id = properties.device_id
    memory = DeviceMemory(
        name=name,
        description=properties.description.decode(errors="replace"),
        free_bytes=properties.memory_free if is_told else None,
        total_bytes=properties.memory_total if is_told else None,
        in_ram=properties.type == INTEGRATED or is_apples,
        maps_files=properties.capabilities.mmap_support,
    )
    return Device(
        type=properties.type,
        id=None if device_id is None else device_id.decode(errors="replace"),
        memory=memory,
    )
