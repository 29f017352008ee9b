"""The library once it is opened: what it is, its backends, and functions beyond the binding's."""

import ctypes
import os
import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from spectui.documents import Known
from spectui.errors import MissingLibraryError
from spectui.llama.facts import LibraryFacts, features_in, wide_features
from spectui.llama.library import C, has_library, library, native
from spectui.llama.log import native_log

_BACKEND = re.compile(r"libggml-(?!base\b)([\w-]+)\.")
_starting = threading.RLock()


def library_facts() -> LibraryFacts:
    """Facts of the chosen library, which is opened for them.

    Raises:
        MissingLibraryError: there is none.
    """
    chosen = library()
    ensure_backend()
    used = features_in(C.llama_print_system_info().decode())
    return LibraryFacts(
        name=str(chosen),
        file=str(chosen.file),
        origin=str(chosen.origin),
        server=None if chosen.server is None else str(chosen.server),
        version=chosen.reading.version,
        commit=chosen.reading.commit,
        features=used,
        unused=tuple(name for name in wide_features() if name not in used),
    )


def known_library() -> Known[LibraryFacts]:
    """Facts of the chosen library, or why there is none."""
    try:
        return Known(value=library_facts())
    except MissingLibraryError as error:
        return Known(value=None, reason=str(error))


def backends() -> tuple[str, ...]:
    """Names of the backends that the library has, such as ``cpu`` and ``cuda``; none without one.

    Whether a driver lets them be used is another question.
    """
    if not has_library():
        return ()
    ensure_backend()
    files = {
        found[1] for path in library().folder.iterdir() if (found := _BACKEND.match(path.name))
    }
    n_backends = native_function("ggml_backend_reg_count", ctypes.c_size_t)()
    get = native_function("ggml_backend_reg_get", ctypes.c_void_p, ctypes.c_size_t)
    names = {backend_name(get(index)).lower() for index in range(n_backends)}
    # The CPU's backend may come as a file for each kind of processor.
    return tuple(sorted(names | {name for name in files if name.partition("-")[0] not in names}))


def ensure_backend() -> None:
    """Initialise llama.cpp's backends, once per process, whichever thread comes first.

    Those that are files of their own are loaded first: where it finds none, llama.cpp searches the
    current directory. The one that ``GGML_BACKEND_PATH`` names is loaded as llama-server loads it.
    """
    with _starting:
        _initialise()


@cache
def _initialise() -> None:
    native_log.install(C)
    load = native_function("ggml_backend_load", ctypes.c_void_p, ctypes.c_char_p)
    for file in library().reading.backends or ():
        load(os.fsencode(file))
    C.llama_backend_init()
    if path := os.environ.get("GGML_BACKEND_PATH"):
        load(os.fsencode(path))


@cache
def native_function(name: str, result: Any = None, *arguments: Any) -> Any:  # noqa: ANN401 - ctypes
    """A function that the binding does not declare, with the types of its result and arguments.

    Each name is asked for with the same types everywhere: ctypes has one object of it.

    Raises:
        MissingLibraryError: there is no library.
    """
    function = getattr(native(), name)
    function.restype, function.argtypes = result, arguments
    return function


def backend_function(backend: str, name: str) -> Callable[..., Any] | None:
    """A function of a backend, from a pointer to a pointer; None where the library lacks that one.

    Args:
        backend: such as ``CPU``.
        name: the function's, as the backend registers it.
    """
    pointer = ctypes.c_void_p
    found = native_function("ggml_backend_reg_by_name", pointer, ctypes.c_char_p)(backend.encode())
    if not found:
        return None
    find = native_function("ggml_backend_reg_get_proc_address", pointer, pointer, ctypes.c_char_p)
    address = find(found, name.encode())
    return ctypes.CFUNCTYPE(pointer, pointer)(address) if address else None


def backend_name(backend: int) -> str:
    """Name of a ``ggml_backend_reg``, such as ``CUDA``."""
    name = native_function("ggml_backend_reg_name", ctypes.c_char_p, ctypes.c_void_p)
    return str(name(backend).decode())


def buffer_name(buffer_type: int) -> str:
    """Name of a ``ggml_backend_buffer_type``, such as ``CUDA0``."""
    name = native_function("ggml_backend_buft_name", ctypes.c_char_p, ctypes.c_void_p)
    return str(name(buffer_type).decode())
