"""The native library, imported in one place: its log, its version, its own libraries."""

import ctypes
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from spectui.llama.planned import without_folder

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
_LOADED = re.compile(r"\.so\.\d+$|\.\d+\.dylib$")
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

    def add(self, line: str) -> None:
        """Take in a line of another process."""
        with self._lock:
            self._lines.append(line)
        listener = self._listener
        if listener is not None:
            listener(line)

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


AbortListener = Callable[[str], bool]
"""Told why llama.cpp ends the process; returns whether all who waited for it know by now."""


class Aborts:
    """An end that llama.cpp gives the process: a failed assertion, an RPC server that is gone.

    Native code cannot be gone back into from there. Where somebody takes charge, the thread waits
    for ever in place of the end, with all that it holds, and the rest of the process lives.
    """

    def __init__(self) -> None:
        """Listen to nobody yet."""
        self._listeners: set[AbortListener] = set()
        # The C side keeps only a pointer.
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(self._end)

    def install(self) -> None:
        """Be asked before the end (``ggml_set_abort_callback``)."""
        ggml("ggml-base").ggml_set_abort_callback(self._callback)

    def listen(self, listener: AbortListener) -> None:
        """Tell ``listener`` from now on, on the thread that gave up."""
        self._listeners.add(listener)

    def forget(self, listener: AbortListener) -> None:
        """Tell ``listener`` no more."""
        self._listeners.discard(listener)

    def _end(self, message: bytes) -> None:
        why = without_folder(message.decode(errors="replace"))
        is_main = threading.current_thread() is threading.main_thread()
        in_charge = [listener for listener in tuple(self._listeners) if listener(why)]
        if in_charge and not is_main:
            threading.Event().wait()
        os.write(2, f"{why}\n".encode())


aborts = Aborts()


@cache
def ensure_backend() -> None:
    """Initialise llama.cpp's backends, once per process.

    The one that ``GGML_BACKEND_PATH`` names is loaded as llama-server loads it
    (``ggml_backend_load_all``), which also looks for others in the working folder.
    """
    native_log.install()
    aborts.install()
    C.llama_backend_init()
    if path := os.environ.get("GGML_BACKEND_PATH"):
        load = ggml("ggml").ggml_backend_load
        load.argtypes, load.restype = [ctypes.c_char_p], ctypes.c_void_p
        load(os.fsencode(path))


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
    """One of ggml's own libraries, such as ``ggml-base``, beside the binding's.

    Wheels have copies in place of links. That of the name by which libllama loads it is the one
    that has its devices.
    """
    files = list(_LIBRARIES.glob(f"*{name}.*"))
    return ctypes.CDLL(str(min(files, key=lambda path: _LOADED.search(path.name) is None)))


def has_cuda() -> bool:
    """Tell whether the binding was built with CUDA, whatever the driver makes of it."""
    return any(_LIBRARIES.glob("*ggml-cuda*"))
