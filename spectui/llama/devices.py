"""The devices that llama.cpp could put a model on, and what is free on them."""

import ctypes
from collections.abc import Iterator

from spectui.llama.library import devices, ggml
from spectui.llama.planned import DeviceMemory

_GPU_TYPES = frozenset({1, 2})
"""``GGML_BACKEND_DEVICE_TYPE_GPU`` and ``_IGPU``; the others compute in the host's memory."""


def gpu_memories() -> tuple[DeviceMemory, ...]:
    """Every GPU, by ``ggml_backend_dev_memory``; the first call starts the drivers."""
    return tuple(_gpus())


def _gpus() -> Iterator[DeviceMemory]:
    base = ggml("ggml-base")
    base.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    for name in ("ggml_backend_dev_name", "ggml_backend_dev_description"):
        function = getattr(base, name)
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p
    size = ctypes.POINTER(ctypes.c_size_t)
    base.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, size, size]
    base.ggml_backend_dev_memory.restype = None
    for device in devices():
        if base.ggml_backend_dev_type(device) not in _GPU_TYPES:
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        base.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        is_told = total.value > 0
        yield DeviceMemory(
            name=base.ggml_backend_dev_name(device).decode(errors="replace"),
            description=base.ggml_backend_dev_description(device).decode(errors="replace"),
            free_bytes=free.value if is_told else None,
            total_bytes=total.value if is_told else None,
        )
