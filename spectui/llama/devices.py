"""Devices of llama.cpp beside the processor: GPUs, and those of RPC servers."""

import ctypes
from collections.abc import Sequence
from typing import Any

from spectui.errors import MissingLibraryError, UsageError
from spectui.llama.buffers import DeviceMemory
from spectui.llama.library import install_command
from spectui.llama.native import (
    backend_function,
    backend_name,
    buffer_name,
    ensure_backend,
    native_function,
)
from spectui.llama.rpc import ensure_free

GPU, INTEGRATED = 1, 2
"""``GGML_BACKEND_DEVICE_TYPE_GPU`` and ``_IGPU``; the others compute with the processor."""
_PROCESSOR = 0
_POINTER = ctypes.c_void_p
_RPC = "RPC"
"""Name of the backend."""


_connected: set[str] = set()
"""RPC servers whose devices this process has."""


def use_rpc(endpoints: Sequence[str]) -> None:
    """Add the devices of RPC servers to those of this machine, as ``--rpc`` does.

    Args:
        endpoints: ``HOST:PORT`` of each.

    Raises:
        UsageError: this llama.cpp lacks the backend, or a server cannot be used.
    """
    for endpoint in endpoints:
        ensure_backend()
        connect = backend_function(_RPC, "ggml_backend_rpc_add_server")
        if connect is None:
            raise UsageError(
                f"--rpc {endpoint}: this llama.cpp was built without RPC; build it again with "
                f"{install_command('-DGGML_RPC=on')}, or name libggml-rpc.so of the same llama.cpp "
                "in GGML_BACKEND_PATH"
            )
        # Each time: a server may have gone, or serve another client by now.
        ensure_free(endpoint)
        if endpoint not in _connected:
            native_function("ggml_backend_register", None, _POINTER)(connect(endpoint.encode()))
            _connected.add(endpoint)


def devices() -> tuple[int, ...]:
    """All devices that ggml knows, as C pointers; none without a library.

    They are enumerated by libggml, and described by libggml-base.
    """
    try:
        ensure_backend()
    except MissingLibraryError:
        return ()
    n_devices = native_function("ggml_backend_dev_count", ctypes.c_size_t)()
    get = native_function("ggml_backend_dev_get", _POINTER, ctypes.c_size_t)
    return tuple(map(get, range(n_devices)))


def find_devices(names: Sequence[str]) -> tuple[int, ...]:
    """Devices that ``-dev`` names, as C pointers; the processor is none (``parse_device_list``).

    Raises:
        UsageError: there is no such device.
    """
    known = {
        _property(one, "name", ctypes.c_char_p).decode(): one
        for one in devices()
        if _type(one) != _PROCESSOR
    }
    for name in names:
        if name not in known:
            which = f"its devices are {', '.join(known)}" if known else "it has none"
            raise UsageError(
                f"-dev {name}: this machine has no such device ({which}); leave it out, or use none"
            )
    return tuple(known[name] for name in names)


def buffer_types() -> dict[str, int]:
    """Default buffer type of each device, by name (``CPU``, ``CUDA0``), as C pointers.

    As ``parse_tensor_buffer_overrides`` in llama.cpp's ``common/arg.cpp`` lists them.
    """
    types = (_property(device, "buffer_type") for device in devices())
    return {buffer_name(one): one for one in types if one is not None}


def _property(device: int, name: str, kind: Any = _POINTER) -> Any:  # noqa: ANN401 - ctypes
    """The result of ggml's function of this name for a device."""
    return native_function(f"ggml_backend_dev_{name}", kind, _POINTER)(device)


def has_gpu() -> bool:
    """Whether a device other than the processor can hold weights."""
    return any(not name.startswith("CPU") for name in buffer_types())


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


def gpu_memories() -> tuple[DeviceMemory, ...]:
    """Every device that a model would be put on; the first call starts the drivers."""
    # Other devices are left out: some take long to describe themselves.
    return used([describe(one) for one in devices() if _type(one) in {GPU, INTEGRATED}])


def used(found: Sequence[DeviceMemory]) -> tuple[DeviceMemory, ...]:
    """Choose as ``llama_prepare_model_devices`` does, in its order.

    Those of RPC servers; every card once; and integrated GPUs only where there is no card, those of
    one backend.
    """
    remote = [one for one in found if _backend(one) == _RPC]
    cards: list[DeviceMemory] = []
    for one in found:
        known = one.id is not None and any(card.id == one.id for card in cards)
        if not (one.in_ram or known or _backend(one) == _RPC):
            cards.append(one)
    if not cards:
        integrated = [one for one in found if one.in_ram]
        cards = [one for one in integrated if _backend(one) == _backend(integrated[0])]
    return (*remote, *cards)


def _backend(memory: DeviceMemory) -> str:
    """Name of its backend: that of ``CUDA0`` or ``RPC0[192.168.1.2:50052]`` without a number."""
    return memory.name.partition("[")[0].rstrip("0123456789")


def _type(device: int) -> int:
    return int(_property(device, "type", ctypes.c_int))


def describe(device: int) -> DeviceMemory:
    """Ask ggml about a device, given as C pointer; this may start its driver."""
    properties, of_pointer = _Properties(), ctypes.POINTER(_Properties)
    fill = native_function("ggml_backend_dev_get_props", None, _POINTER, of_pointer)
    fill(device, ctypes.byref(properties))
    name = properties.name.decode(errors="replace")
    backend = backend_name(_property(device, "backend_reg"))
    # Devices without this reading report 0, and some report more free than there is in all.
    free_bytes, total_bytes = properties.memory_free, properties.memory_total
    device_id = properties.device_id
    buffer_type = _property(device, "buffer_type") if backend == _RPC else None
    return DeviceMemory(
        name=name if buffer_type is None else buffer_name(buffer_type),
        description=properties.description.decode(errors="replace"),
        free_bytes=free_bytes if total_bytes and free_bytes <= total_bytes else None,
        total_bytes=total_bytes or None,
        in_ram=properties.type == INTEGRATED,
        maps_files=properties.capabilities.mmap_support,
        device="" if buffer_type is None else name,
        id=None if device_id is None else device_id.decode(errors="replace"),
    )
