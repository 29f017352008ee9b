"""Finds the user's llama-server where none was named."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

PROGRAM = "llama-server"
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
    "/opt/homebrew/bin",
    "/app",
)
"""Where builds and packages put it; ``/app`` in llama.cpp's container."""


def find_server() -> Path | None:
    """Return the first llama-server of the PATH, of this user's processes, of the usual folders."""
    return next(_candidates(), None)


def _candidates() -> Iterator[Path]:
    if found := shutil.which(PROGRAM):
        yield Path(found)
    yield from _running()
    for folder in _FOLDERS:
        # Without a home folder, or where a folder is forbidden, it is not there for this user.
        with suppress(OSError, RuntimeError):
            path = Path(folder).expanduser() / PROGRAM
            if path.is_file() and os.access(path, os.X_OK) and _is_trusted(path):
                yield path


def _is_trusted(path: Path) -> bool:
    """Whether nobody but this user and root can have put it there."""
    stats = (path.resolve().stat(), path.resolve().parent.stat())
    return all(one.st_uid in {0, os.getuid()} and not one.st_mode & stat.S_IWOTH for one in stats)


def _running() -> Iterator[Path]:
    """Programs that this user runs already: they are as trusted as what the user types."""
    own = os.getuid()
    for process in psutil.process_iter(["name"]):
        # It may have ended, or be somebody else's.
        with suppress(psutil.Error, OSError):
            if process.info["name"] == PROGRAM and process.uids().real == own:
                path = Path(process.exe())
                # Of a script it is the interpreter.
                if path.name == PROGRAM and path.is_file():
                    yield path
