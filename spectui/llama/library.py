"""The native library, imported in one place: its log, its version, and the devices that it sees."""

import ctypes
import os
import platform
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from spectui.llama.buffers import DeviceMemory

# Without this a failed assertion starts a debugger, where one is installed, and hangs.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import llama_cpp.llama_cpp
import llama_cpp.llama_cpp_ext

C: Any = llama_cpp.llama_cpp
"""The binding. Untyped on purpose: its annotations describe ctypes, not what calls accept."""

EXT: Any = llama_cpp.llama_cpp_ext
"""llama.cpp's staging API (``llama-ext.h``): hidden states for MTP."""


LogListener = Callable[[str], None]

_LIBRARIES = Path(str(C.__file__)).parent / "lib"
"""The binding's own."""
_DEBUG, _CONTINUED = 1, 5
"""``GGML_LOG_LEVEL_DEBUG`` and ``GGML_LOG_LEVEL_CONT``."""


class NativeLog:
    """llama.cpp's own log, line by line, kept off the terminal.

    The last lines stay in memory, for error messages; a listener may write all to a file. Native
    threads call in, hence the lock.
    """

    def __init__(self, capacity: int = 50_000) -> None:
        """Keep the last ``capacity`` lines."""
        self._lines: deque[str] = deque(maxlen=capacity)
        self._partial = ""
        self._lock = threading.Lock()
        self._listener: LogListener | None = None
        self._is_debug = False
        # The C side keeps only a pointer: the callback object must live as long as the log.
        self._callback = C.llama_log_callback(self._receive)

    def install(self) -> None:
        """Route llama.cpp's and ggml's messages here."""
        C.llama_log_set(self._callback, ctypes.c_void_p(0))

    def listen(self, listener: LogListener | None) -> None:
        """Hand every further line to ``listener`` as well, or to nobody."""
        self._listener = listener

    def tail(self, n_lines: int | None = None) -> tuple[str, ...]:
        """Return the last ``n_lines`` lines since the mark, oldest first; None for all."""
        with self._lock:
            return tuple(self._lines)[-(n_lines or 0) :]

    def mark(self) -> None:
        """Forget the lines so far, so that ``tail`` shows only what follows."""
        with self._lock:
            self._lines.clear()
            self._partial = ""

    def _receive(self, level: int, text: bytes, _user_data: object) -> None:
        if level != _CONTINUED:
            self._is_debug = level == _DEBUG
        with self._lock:
            *lines, self._partial = (self._partial + text.decode(errors="replace")).split("\n")
            self._lines.extend(lines)
        # Other threads may take it away meanwhile.
        listener = self._listener
        # More than a thousand debug lines per context say which tensor feeds which node.
        if listener is not None and not self._is_debug:
            for line in lines:
                listener(line)


native_log = NativeLog()


@cache
def ensure_backend() -> None:
    """Initialise llama.cpp's backends, once per process."""
    native_log.install()
    C.llama_backend_init()


def binding_version() -> str:
    """Version of llama-cpp-python."""
    from importlib.metadata import version  # noqa: PLC0415 - rarely needed

    return version("llama-cpp-python")


def llama_cpp_version() -> str:
    """Version that llama.cpp reports of itself."""
    version: bytes = C.llama_version()
    return version.decode()


def llama_cpp_commit() -> str | None:
    """Commit that the library was built from; None where it was built outside of a clone."""
    base = ggml("ggml-base")
    try:
        told = base.ggml_commit
    except AttributeError:
        return None
    told.restype = ctypes.c_char_p
    # A package leaves files of the clone out, which git calls dirty.
    commit = (told() or b"").decode().removesuffix("-dirty")
    return None if commit in {"", "unknown"} else commit


@cache
def ggml(name: str) -> ctypes.CDLL:
    """One of ggml's own libraries, such as ``ggml-base``, beside the binding's."""
    return ctypes.CDLL(str(next(_LIBRARIES.glob(f"*{name}.[sd]*"))))


def has_cuda() -> bool:
    """Tell whether the binding was built with CUDA, whatever the driver makes of it."""
    return any(_LIBRARIES.glob("*ggml-cuda*"))


def devices() -> tuple[int, ...]:
    """All devices that ggml knows, as C pointers.

    They are enumerated by libggml, and described by libggml-base.
    """
    ensure_backend()
    registry = ggml("ggml")
    registry.ggml_backend_dev_count.restype = ctypes.c_size_t
    registry.ggml_backend_dev_get.restype = ctypes.c_void_p
    registry.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    n_devices = registry.ggml_backend_dev_count()
    return tuple(registry.ggml_backend_dev_get(index) for index in range(n_devices))


@cache
def buffer_types() -> dict[str, int]:
    """Default buffer type of each device, by name (``CPU``, ``CUDA0``), as C pointers.

    As ``parse_tensor_buffer_overrides`` in llama.cpp's ``common/arg.cpp`` lists them.
    """
    base = ggml("ggml-base")
    base.ggml_backend_dev_buffer_type.restype = ctypes.c_void_p
    base.ggml_backend_dev_buffer_type.argtypes = [ctypes.c_void_p]
    base.ggml_backend_buft_name.restype = ctypes.c_char_p
    base.ggml_backend_buft_name.argtypes = [ctypes.c_void_p]
    found: dict[str, int] = {}
    for device in devices():
        buffer_type = base.ggml_backend_dev_buffer_type(device)
        if buffer_type:
            found[base.ggml_backend_buft_name(buffer_type).decode()] = buffer_type
    return found


def has_gpu() -> bool:
    """Whether a device other than the processor can hold weights."""
    return any(not name.startswith("CPU") for name in buffer_types())


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
        known = one.memory.id is not None and any(card.memory.id == one.memory.id for card in cards)
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
    free_bytes, total_bytes = properties.memory_free, properties.memory_total
    is_told = total_bytes > 0
    is_apples = platform.machine() == "arm64" and _METAL.fullmatch(name) is not None
    device_id = properties.device_id
    memory = DeviceMemory(
        name=name,
        description=properties.description.decode(errors="replace"),
        # More free than there is cannot be: then what is free is not known.
        free_bytes=free_bytes if is_told and free_bytes <= total_bytes else None,
        total_bytes=total_bytes if is_told else None,
        in_ram=properties.type == INTEGRATED or is_apples,
        maps_files=properties.capabilities.mmap_support,
        id=None if device_id is None else device_id.decode(errors="replace"),
    )
    return Device(type=properties.type, memory=memory)
