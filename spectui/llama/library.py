"""The native library, opened in one place, at its first use: its log, its version, its parts.

Much of spectui needs no library: what reads headers and commands, and what measures through a
llama-server. llama-cpp-python declares the structures and functions; whose library has them is
decided here (``spectui.llama.search`` says where to look, ``spectui.llama.layout`` what fits).
"""

import ctypes
import importlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec, module_from_spec
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from spectui.errors import MissingLibraryError
from spectui.llama import layout
from spectui.llama.layout import Reading
from spectui.llama.search import LIBRARY_VARIABLE, PREBUILT, Origin, Place, places

# Without this a failed assertion starts a debugger, where one is installed, and hangs.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

_CHOSEN_VARIABLE = "_SPECTUI_LIBRARY"
"""Environment variable that passes the chosen library on to child processes of spectui."""
_READING_S = 60.0
"""Seconds that a library may take to be opened: one for GPUs looks for drivers."""


class _Binding:
    """A module of the binding, imported with the library at the first use of a name."""

    def __init__(self, name: str) -> None:
        """Stand in for ``llama_cpp.<name>``."""
        self._name = name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - ctypes
        value = getattr(_module(self._name), name)
        # Kept, since every round looks names up.
        self.__dict__[name] = value
        return value


C: Any = _Binding("llama_cpp")
"""The binding. Untyped on purpose: its annotations describe ctypes, not what calls accept."""

EXT: Any = _Binding("llama_cpp_ext")
"""llama.cpp's staging API (``llama-ext.h``): hidden states for MTP."""


# --- Which library ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Library:
    """A llama.cpp library that spectui can use."""

    file: Path
    origin: Origin
    reading: Reading
    server: Path | None = None
    """The llama-server that it lies beside; None of other origins."""

    @property
    def folder(self) -> Path:
        """The folder with its parts."""
        return self.file.parent

    def __str__(self) -> str:
        """Such as ``llama.cpp 0.5.0 of /opt/llama.cpp/bin``."""
        version = self.reading.version or "of unknown version"
        is_package = self.origin in {Origin.PREBUILT, Origin.BINDING}
        return f"llama.cpp {version} of {self.origin if is_package else self.folder}"


@cache
def library() -> Library:
    """Choose the library, once per process.

    Raises:
        MissingLibraryError: there is none that can be used.
    """
    if inherited := os.environ.get(_CHOSEN_VARIABLE):
        return msgspec.json.decode(inherited, type=Library, dec_hook=lambda kind, text: kind(text))
    refused: dict[Place, str] = {}
    for place in places():
        found = examine(place)
        if isinstance(found, Library):
            return found
        if place.origin is Origin.VARIABLE:
            raise MissingLibraryError(
                f"{LIBRARY_VARIABLE}={place.folder} cannot be used: {found}; name the folder "
                "of another llama.cpp, or unset it"
            )
        refused[place] = found
    raise MissingLibraryError(_missing(refused))


def unusable_places() -> dict[Place, str]:
    """The places searched before that of the library in use, and why theirs cannot be used."""
    used = library()
    earlier = takewhile(lambda place: used.file not in place.files(), places())
    found = {place: examine(place) for place in earlier if any(place.files())}
    return {place: why for place, why in found.items() if isinstance(why, str)}


def has_library() -> bool:
    """Whether there is a library that can be used."""
    try:
        library()
    except MissingLibraryError:
        return False
    return True


def library_variables() -> dict[str, str]:
    """Environment variables that let a child use this process's library."""
    if not has_library():
        return {}
    # Paths are texts there.
    return {_CHOSEN_VARIABLE: msgspec.json.encode(library(), enc_hook=str).decode()}


@cache
def examine(place: Place) -> Library | str:
    """The library of a place, or why it cannot be used; it is opened in a process of its own."""
    why = "it has no libllama"
    for file in place.files():
        folders = [file.parent]
        if place.server is not None:
            # CMake installs backends beside the programs.
            folders.append(place.server.resolve().parent)
        try:
            reading = _read(file, folders)
            _check(reading, place.origin)
        except LookupError as error:
            why = f"{file} {error}"
            continue
        if reading.backends is not None:
            return Library(file, place.origin, reading, place.server)
        searched = " or ".join(dict.fromkeys(map(str, folders)))
        why = (
            f"{file} has no backend for this CPU, nor is there one (libggml-cpu*.so) in {searched}"
        )
    return why


def _read(file: Path, folders: list[Path]) -> Reading:
    """Read a library, whose backends may lie in these folders, in a process of its own.

    Raises:
        LookupError: it cannot be opened; the message follows the file's name.
    """
    command = [sys.executable, "-I", "-S", layout.__file__, *map(str, [file, *folders])]
    try:
        done = subprocess.run(  # noqa: S603 - this very program, without a shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_READING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LookupError(f"was not open after {_READING_S:g} s") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise LookupError(f"ends the process that opens it ({name})")
    try:
        return msgspec.json.decode(done.stdout, type=Reading)
    except msgspec.DecodeError:
        why = (done.stderr.splitlines() or ["the process that opens it ends without a word"])[-1]
        raise LookupError(f"cannot be opened: {why}") from None


def _check(reading: Reading, origin: Origin) -> None:
    """Refuse a library of an unknown layout; that of one built with the binding is the binding's.

    Raises:
        LookupError: it is one; the message follows the file's name.
    """
    if origin is Origin.BINDING and reading.context is None:
        return
    try:
        reading.check()
    except LookupError as error:
        raise LookupError(f"is of a llama.cpp that spectui does not know: {error}") from None


def _missing(refused: dict[Place, str]) -> str:
    seen = "".join(f"; {one.folder}: {why}" for one, why in refused.items() if any(one.files()))
    advice = f"compile one with {install_command()}"
    if layout.IS_READABLE:
        advice = (
            f"install a prebuilt one with {_pip_install()} {PREBUILT}, name the folder of your own "
            f"in {LIBRARY_VARIABLE}"
        )
    return (
        f"no llama.cpp library can be used here{seen}; {advice}, or measure through your own "
        "llama-server: --backend server --server-bin PATH"
    )


def install_command(options: str = "") -> str:
    """The command that compiles the library anew, with CMake options such as ``-DGGML_CUDA=on``.

    It installs into the environment that spectui runs in, by pip or uv. It takes no wheel from a
    cache, since a cached one may lack the library.
    """
    cmake = f'CMAKE_ARGS="{options}" ' if options else ""
    flags = "--force-reinstall --no-cache-dir --no-deps"
    return f"{cmake}{_pip_install()} {flags} llama-cpp-python=={binding_version()}"


def _pip_install() -> str:
    python = shlex.quote(sys.executable)
    # An environment that uv has made has no pip.
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"


# --- What it is -------------------------------------------------------------------------------


def binding_version() -> str:
    """Version of llama-cpp-python."""
    from importlib.metadata import version  # noqa: PLC0415 - rarely needed

    return version("llama-cpp-python")


def llama_cpp_version() -> str:
    """Version that llama.cpp reports of itself.

    Raises:
        MissingLibraryError: there is no library.
    """
    return library().reading.version or "of unknown version"


# --- Opening it -------------------------------------------------------------------------------

_opening = threading.RLock()


def native() -> ctypes.CDLL:
    """The library itself. ggml's functions are found through libllama, which needs them.

    Raises:
        MissingLibraryError: there is none.
    """
    opened: ctypes.CDLL = _module("llama_cpp")._lib
    return opened


class _Native(ctypes.CDLL):
    """A library in which a missing function raises when it is called, not when it is looked up."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - ctypes
        try:
            return super().__getattr__(name)
        except AttributeError:
            file = self._name

        def missing(*_arguments: object) -> None:
            raise MissingLibraryError(
                f"this needs llama.cpp's {name}, which {file} lacks; name the folder of a "
                f"llama.cpp that has it in {LIBRARY_VARIABLE}"
            )

        missing.__name__ = name
        setattr(self, name, missing)
        return missing


@cache
def _module(name: str) -> Any:  # noqa: ANN401 - ctypes
    """Import a module of the binding, over the chosen library.

    Raises:
        MissingLibraryError: there is none, or it lacks what the module needs.
    """
    with _opening:
        chosen = library()
        try:
            binding = _binding(chosen)
            return binding if name == "llama_cpp" else _staging(name, binding)
        except (ImportError, OSError, AttributeError) as error:
            raise MissingLibraryError(
                f"{chosen.file} cannot be used: {error}; name the folder of another llama.cpp in "
                f"{LIBRARY_VARIABLE}"
            ) from error


@cache
def _binding(chosen: Library) -> Any:  # noqa: ANN401 - ctypes
    """Import the declarations alone: the package also brings a way of its own to run models."""
    found = find_spec("llama_cpp")
    if found is None:
        raise ImportError("llama-cpp-python is not installed; install spectui again")
    sys.modules["llama_cpp"] = module_from_spec(found)
    opened = _Native(str(chosen.file), handle=layout.opened(chosen.file)._handle)
    loader: Any = importlib.import_module("llama_cpp._ctypes_extensions")
    loader.load_shared_library = lambda _name, _folder: opened
    binding = importlib.import_module("llama_cpp.llama_cpp")
    if chosen.reading.has_moe_cache:
        _add_moe_cache(binding)
    return binding


def _staging(name: str, binding: Any) -> ModuleType:  # noqa: ANN401 - ctypes
    """Import a module that tries several names of a function, so that missing ones must raise."""
    tolerant = binding._lib
    binding._lib = ctypes.CDLL(tolerant._name, handle=tolerant._handle)
    try:
        return importlib.import_module(f"llama_cpp.{name}")
    finally:
        binding._lib = tolerant


def _add_moe_cache(binding: Any) -> None:  # noqa: ANN401 - ctypes
    """Give the binding the structure of a library that has a cache of experts."""
    before = binding.llama_context_params
    fields = list(before._fields_)
    at = [name for name, *_ in fields].index("type_v") + 1
    fields.insert(at, ("moe_cache_size", ctypes.c_size_t))
    after = type(before.__name__, (ctypes.Structure,), {"_fields_": fields})
    binding.llama_context_params = after
    for function in vars(binding).values():
        if isinstance(function, binding._lib._FuncPtr):
            if function.restype is before:
                function.restype = after
            arguments = function.argtypes or ()
            function.argtypes = [after if one is before else one for one in arguments]
