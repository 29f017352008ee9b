"""The native library: loaded once, its log captured, its version known."""

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path

from spectui.llama.c import C

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
        # More than a thousand debug lines per context say which tensor feeds which node.
        if self._listener is not None and not self._is_debug:
            for line in lines:
                self._listener(line)


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
