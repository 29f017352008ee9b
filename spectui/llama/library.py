"""The native library, opened in one place, at its first use: its log, its version, its parts.

Much of spectui needs no library: what reads headers and commands, and what measures through a
llama-server. llama-cpp-python may be installed without one (``-DLLAMA_BUILD=OFF``), and may be
given another folder with one (``LLAMA_CPP_LIB_PATH``).
"""

import ctypes
import importlib
import os
import re
import shlex
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from spectui.errors import MissingLibraryError
from spectui.known import Known
from spectui.llama.planned import without_folder

# Without this a failed assertion starts a debugger, where one is installed, and hangs.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

BINDING_COMMIT = "0c1e57098"
"""llama.cpp's commit whose structures the pinned llama-cpp-python declares (its changelog)."""
LIBRARY_VARIABLE = "LLAMA_CPP_LIB_PATH"
"""llama-cpp-python's own: a folder with ``libllama`` in place of the one that it brings."""


class _Binding:
    """A module of the binding, imported with the library at the first use of a name."""

    def __init__(self, name: str) -> None:
        """Stand in for ``llama_cpp.<name>``."""
        self._name = name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - ctypes
        value = getattr(_module(self._name), name)
        # It is asked for in every round.
        self.__dict__[name] = value
        return value


C: Any = _Binding("llama_cpp")
"""The binding. Untyped on purpose: its annotations describe ctypes, not what calls accept."""

EXT: Any = _Binding("llama_cpp_ext")
"""llama.cpp's staging API (``llama-ext.h``): hidden states for MTP."""


LogListener = Callable[[str], None]
_BACKEND = re.compile(r"(?:lib)?ggml-(\w+)\.")
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
        self._callback: object = None

    def install(self) -> None:
        """Route llama.cpp's and ggml's messages here."""
        # The C side keeps only a pointer: the callback object must live as long as the log.
        self._callback = C.llama_log_callback(self._receive)
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


def install_command(options: str = "") -> str:
    """The command that builds the library anew, with CMake options such as ``-DGGML_CUDA=on``.

    It is for the environment that spectui runs in, whoever made that.
    """
    given = f'CMAKE_ARGS="{options}" ' if options else ""
    python = shlex.quote(sys.executable)
    install = f"{python} -m pip install --force-reinstall --no-cache-dir"
    if find_spec("pip") is None:
        # As uv makes them.
        install = f"uv pip install --python {python} --reinstall --no-cache"
    return f"{given}{install} --no-deps llama-cpp-python=={binding_version()}"


def llama_cpp_version() -> str:
    """Version that llama.cpp reports of itself.

    Raises:
        MissingLibraryError: there is no library.
    """
    version: bytes = C.llama_version()
    return version.decode()


def known_version() -> Known[str]:
    """Version of llama.cpp, or why there is no library."""
    try:
        return Known(value=llama_cpp_version())
    except MissingLibraryError as error:
        return Known(value=None, reason=str(error))


def llama_cpp_commit() -> str | None:
    """Commit that the library was built from; None where it was built outside of a clone."""
    return _commit(ggml("ggml-base"))


def _commit(base: ctypes.CDLL) -> str | None:
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

    Raises:
        MissingLibraryError: there is none.
    """
    _module("llama_cpp")
    return _opened(_folder(), name)


def has_library() -> bool:
    """Whether there is a library, or one was named; it may still fail to open."""
    return LIBRARY_VARIABLE in os.environ or any(_folder().glob("*llama.*"))


def backends() -> tuple[str, ...]:
    """Names of the backends that the library was built with, such as ``cpu`` and ``cuda``.

    Whether a driver lets them be used is another question.
    """
    names = {found[1] for path in _folder().glob("*ggml-*") if (found := _BACKEND.match(path.name))}
    return tuple(sorted(names - {"base"}))


# --- Opening it -------------------------------------------------------------------------------

_BACKEND = re.compile(r"(?:lib)?ggml-(\w+)\.")
_LOADED = re.compile(r"\.so\.\d+$|\.\d+\.dylib$")


@cache
def _module(name: str) -> ModuleType:
    """Import a module of the binding, which opens the library.

    Raises:
        MissingLibraryError: there is none, or it is of another llama.cpp.
    """
    if LIBRARY_VARIABLE in os.environ:
        _check_commit(_folder())
    try:
        return importlib.import_module(f"llama_cpp.{name}")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise MissingLibraryError(_missing(error)) from error


def _folder() -> Path:
    """Folder of the library and its parts."""
    if chosen := os.environ.get(LIBRARY_VARIABLE):
        return Path(chosen)
    found = find_spec("llama_cpp")
    if found is None or found.origin is None:
        raise MissingLibraryError("llama-cpp-python is not installed; install spectui again")
    return Path(found.origin).parent / "lib"


def _opened(folder: Path, name: str) -> ctypes.CDLL:
    # Wheels have copies in place of links. That of the name by which libllama loads it is the one
    # that has its devices.
    files = sorted(folder.glob(f"*{name}.*"), key=lambda path: _LOADED.search(path.name) is None)
    if not files:
        raise MissingLibraryError(f"{folder} has no lib{name}")
    return ctypes.CDLL(str(files[0]))


def _check_commit(folder: Path) -> None:
    """Refuse a library whose structures are others than the binding declares."""
    try:
        commit = _commit(_opened(folder, "ggml-base"))
    except (MissingLibraryError, OSError) as error:
        raise MissingLibraryError(
            f"{LIBRARY_VARIABLE}={folder} has no llama.cpp library that can be opened ({error}); "
            "name the folder with libllama and libggml-base, or unset it"
        ) from error
    if commit is None or not _is_same(commit, BINDING_COMMIT):
        raise MissingLibraryError(
            f"{LIBRARY_VARIABLE}={folder} is llama.cpp {commit or 'of an unknown commit'}, and "
            f"llama-cpp-python {binding_version()} needs {BINDING_COMMIT}; build that commit, or "
            "unset it"
        )


def _is_same(one: str, other: str) -> bool:
    """Whether two abbreviated hashes can belong to one commit."""
    shorter, longer = sorted((one, other), key=len)
    return longer.startswith(shorter)


def _missing(error: Exception) -> str:
    return (
        f"llama-cpp-python has no llama.cpp library that can be opened here ({error}); build it "
        f"with {install_command()}, or measure through your own llama-server: "
        "--backend server --server-bin PATH"
    )
