"""Checksums of models, worked out once: a file beside the model keeps what was found."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

_CHUNK_BYTES = 4 << 20


def sha256_of(path: Path, on_bytes: Callable[[int], None]) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    Args:
        path: the file.
        on_bytes: called with how many bytes have been read so far.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            on_bytes(file.tell())
    return digest.hexdigest()


def remember(path: Path, sha256: str) -> None:
    """Keep what the file's checksum is, in the format of ``sha256sum``."""
    beside = _beside(path)
    beside.write_text(f"{sha256}  {path.name}\n", encoding="utf-8")
    # It carries the file's own time: a file that is written to later no longer fits.
    status = path.stat()
    os.utime(beside, ns=(status.st_atime_ns, status.st_mtime_ns))


def is_remembered(path: Path, sha256: str) -> bool:
    """Tell whether the file was found to have this checksum, and has not changed since."""
    beside = _beside(path)
    if not beside.is_file() or beside.stat().st_mtime_ns != path.stat().st_mtime_ns:
        return False
    return beside.read_bytes().startswith(sha256.encode())


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
