"""Finds llama.cpp on this machine: the user's llama-server, and libraries to load.

Nothing that a command, a preset or a study names is looked at here: only the user's own settings,
the PATH, the programs that the user runs, the usual folders, and what is installed beside spectui.
"""

import os
import platform
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from glob import glob
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from spectui.paths import cache_dir

PROGRAM = "llama-server"
LIBRARY_VARIABLE = "LLAMA_CPP_LIB_PATH"
"""A folder with a llama.cpp library, or the library; llama-cpp-python's own variable."""
PREBUILT = "xllamacpp"
"""A package that carries a whole llama.cpp in one file."""
_FOLDERS = (
    "~/llama.cpp/build/bin",
    "~/src/llama.cpp/build/bin",
    "~/git/llama.cpp/build/bin",
    "~/code/llama.cpp/build/bin",
    "~/projects/llama.cpp/build/bin",
    "~/ik_llama.cpp/build/bin",
    "~/.local/bin",
    "/usr/local/bin",
    "/opt/llama.cpp/bin",
    "/opt/llama.cpp/build/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/app",
)
"""Folders where builds and packages put llama-server; ``/app`` in llama.cpp's container."""
_BUNDLES = (
    # LM Studio: lmstudio-ai/lms, issue 610.
    "~/.lmstudio/extensions/backends/llama.cpp-*",
    # Unsloth Studio: unslothai/unsloth, install.sh.
    "~/.unsloth/llama.cpp/build/bin",
    "~/.unsloth/llama.cpp",
    # Jan: janhq/jan, extensions/llamacpp-extension; its Flatpak.
    "~/.local/share/Jan/data/llamacpp/backends/*/*/build/bin",
    "~/.var/app/ai.jan.Jan/data/Jan/data/llamacpp/backends/*/*/build/bin",
    # Ollama from 0.30 on: the paths that its "llama-server binary not found" lists.
    "/usr/local/lib/ollama",
    "/usr/lib/ollama",
)
"""Folders of programs that bundle a llama-server, as patterns. It may need their libraries."""
_BESIDE = (".", "../lib", "../lib64", f"../lib/{platform.machine()}-linux-gnu")
"""Where a library lies, seen from its llama-server: builds and archives, then what is installed."""
_NAMES = ("libllama.so", "libllama.so.*", "libllama.*.so", "*llama*.so")
"""Files that may be the library, the likeliest first; the last for one file with everything."""
_LOADED = (*_NAMES, "libggml*")
"""All that may be loaded of a folder."""


class Origin(StrEnum):
    """Where a library was found."""

    VARIABLE = LIBRARY_VARIABLE
    SERVER = PROGRAM
    BINDING = "llama-cpp-python"
    PREBUILT = PREBUILT


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that may have a library."""

    origin: Origin
    folder: Path
    server: Path | None = None
    """The llama-server that it belongs to; None of other origins."""

    def files(self) -> Iterator[Path]:
        """The files that may be the library, the likeliest first, each once."""
        if self.folder.is_file():
            yield self.folder
            return
        found = (file for name in _NAMES for file in sorted(self.folder.glob(name)))
        yield from (file for file, real in _distinct(found) if real.is_file())


def find_server() -> Path | None:
    """Return the first llama-server of the PATH, of this user's processes, of the usual folders."""
    return next(chain(_on_path(), _running(), _in_folders()), None)


def find_servers() -> Iterator[Path]:
    """Yield llama-servers: as ``find_server``, then those of other programs and spectui's tools.

    Of the latter the newest comes first.
    """
    yield from chain(_on_path(), _running(), _in_folders())
    patterns = (*_BUNDLES, str(cache_dir() / "build" / "*" / "server"))
    folders = (one for pattern in patterns for one in glob(os.path.expanduser(pattern)))  # noqa: PTH111, PTH207 - absolute patterns
    found = (path for folder in folders if (path := _program_in(Path(folder))) is not None)
    yield from sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def _on_path() -> Iterator[Path]:
    if found := shutil.which(PROGRAM):
        yield Path(found)


def _in_folders() -> Iterator[Path]:
    for folder in _FOLDERS:
        # Without a home folder it is not there for this user.
        with suppress(RuntimeError):
            path = _program_in(Path(folder).expanduser())
            if path is not None:
                yield path


def _program_in(folder: Path) -> Path | None:
    """The llama-server of a folder; None where there is none that may be started."""
    path = folder / PROGRAM
    # The folder may be forbidden.
    with suppress(OSError):
        if path.is_file() and os.access(path, os.X_OK) and _is_trusted(path):
            return path
    return None


def places() -> Iterator[Place]:
    """Where to look for a library, in the order in which one is taken."""
    if chosen := os.environ.get(LIBRARY_VARIABLE):
        yield Place(Origin.VARIABLE, Path(chosen).absolute())
    # Without running servers: the choice of the library must not change with what runs.
    for program, real in _distinct(chain(_on_path(), _in_folders())):
        with suppress(OSError):
            yield from _beside(program, real)
    binding = _package_folder("llama_cpp")
    if binding is not None and any((binding / "lib").glob("*llama*")):
        yield Place(Origin.BINDING, binding / "lib")
    if (folder := _package_folder(PREBUILT)) is not None:
        yield Place(Origin.PREBUILT, folder)


def _distinct(paths: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield files that are there, each once, with the files that they are links to."""
    seen = set[Path]()
    for path in paths:
        with suppress(OSError):
            real = path.resolve(strict=True)
            if real not in seen:
                seen.add(real)
                yield path, real


def _beside(program: Path, real: Path) -> Iterator[Place]:
    for folder in _BESIDE:
        path = (real.parent / folder).resolve()
        # Backends are loaded from the program's folder too.
        folders = {path, real.parent}
        files = (file for one in folders for name in _LOADED for file in one.glob(name))
        if (
            any(path.glob("libllama.*"))
            and all(map(_is_ours, folders))
            and all(_is_trusted(file) for file in files if file.exists())
        ):
            yield Place(Origin.SERVER, path, program)


def _package_folder(name: str) -> Path | None:
    found = find_spec(name)
    return None if found is None or found.origin is None else Path(found.origin).parent


def _is_trusted(file: Path) -> bool:
    """Whether nobody but this user and root can have written it, or put it there."""
    real = file.resolve()
    return _is_ours(real) and _is_ours(real.parent)


def _is_ours(path: Path) -> bool:
    found = path.stat()
    return found.st_uid in {0, os.getuid()} and not found.st_mode & stat.S_IWOTH


def _running() -> Iterator[Path]:
    """Programs that this user runs already: they are as trusted as what the user types."""
    for folder in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - hundreds of names
        # It may have ended, or be somebody else's.
        with suppress(OSError):
            process = Path("/proc", folder)
            is_own = process.stat().st_uid == os.getuid()
            if is_own and (process / "comm").read_bytes().strip() == PROGRAM.encode():
                path = (process / "exe").readlink()
                # Of a script it is the interpreter.
                if path.name == PROGRAM and path.is_file():
                    yield path
