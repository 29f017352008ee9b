"""What binaries have said of themselves, kept until they change."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from spectui.paths import cache_dir, text_of
from spectui.writing import write_file

_T = TypeVar("_T", bound=msgspec.Struct)

_FORMAT = 1
"""To be raised when what is read from a help text changes."""
_FOLDER = "llama-server"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What changes when a binary does."""

    path: str
    """Where links lead to."""
    size_bytes: int
    mtime_ns: int
    libraries: str
    """Digest of the same of the shared libraries beside it, which may hold all of its code."""
    format: int = _FORMAT


class _Kept(msgspec.Struct, kw_only=True):
    identity: Identity
    known: msgspec.Raw


def identity_of(path: Path) -> Identity:
    """Of an existing file."""
    resolved = path.resolve()
    stat = resolved.stat()
    return Identity(
        path=text_of(str(resolved)),
        size_bytes=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        libraries=_libraries(resolved.parent),
    )


def recall(identity: Identity, kind: type[_T]) -> _T | None:
    """What is known of the binary as it is now; None for nothing."""
    try:
        kept = msgspec.json.decode(_file(identity).read_bytes(), type=_Kept)
        return msgspec.json.decode(kept.known, type=kind) if kept.identity == identity else None
    except (OSError, msgspec.MsgspecError):
        return None


def remember(identity: Identity, known: msgspec.Struct) -> None:
    """Keep it, if there is room: to ask again costs little."""
    path = _file(identity)
    # A path that is no text cannot be kept.
    with suppress(OSError, UnicodeEncodeError):
        kept = _Kept(identity=identity, known=msgspec.Raw(msgspec.json.encode(known)))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, msgspec.json.encode(kept))


def _libraries(folder: Path) -> str:
    digest = hashlib.sha256()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if ".so" in entry.name and entry.is_file():
                stat = entry.stat()
                digest.update(f"{entry.name!a} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _file(identity: Identity) -> Path:
    name = hashlib.sha256(identity.path.encode()).hexdigest()
    return cache_dir() / _FOLDER / f"{name[:16]}.json"
