"""Files that hold a result: whole or not at all, so that a full disk costs no old one."""

import os
import secrets
from contextlib import suppress
from errno import EACCES, EBUSY, EPERM, EROFS
from io import FileIO
from pathlib import Path

PRIVATE = 0o600
_USUAL = 0o666
_TAKES_NO_OTHER = (EACCES, EPERM, EROFS, EBUSY)
"""Errors of a folder that takes no new file, and of a file that is a mount of its own."""


def open_private(path: Path, flags: int) -> int:
    """Open a file of spectui's own, for its user alone where it is made; links are not followed.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)


def append(file: FileIO, content: bytes) -> None:
    """Add ``content`` to the end of an unbuffered file: the whole of it, or nothing.

    Raises:
        OSError: it cannot be written.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    left = memoryview(content)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError:
        # Half a line would spoil the next one.
        with suppress(OSError):
            file.truncate(size_bytes)
        raise


def write_file(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write ``content`` to ``path``: it stands there whole, or what was there stays.

    What a link points to is written, not the link. A file that is replaced gives its mode and,
    where that is allowed, its owner to the new one; a new one of ``is_private`` is for its user
    alone. Devices, pipes and descriptors (``/dev/stdout``) take the bytes as they are, and so does
    a file whose folder takes no other one beside it.

    Raises:
        OSError: it cannot be written.
    """
    place = _place(path)
    if place is None:
        path.write_bytes(content)
        return
    try:
        _replace(place, content, is_private=is_private)
    except OSError as error:
        if error.errno not in _TAKES_NO_OTHER or not os.access(place, os.W_OK):
            raise
        place.write_bytes(content)


def write_new_file(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write ``content`` to ``path``, where nothing may be: the whole of it, or no file.

    Raises:
        FileExistsError: something is there; it stays as it is.
        OSError: it cannot be written.
    """
    path.touch(PRIVATE if is_private else _USUAL, exist_ok=False)
    try:
        write_file(path, content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _place(path: Path) -> Path | None:
    """Resolve ``path`` to its file, which may not exist yet; None if it is no regular file."""
    with suppress(FileNotFoundError):
        path.stat()
        if not path.is_file():
            return None
    place = _without_links_above(path)
    while place.is_symlink():
        if place.is_relative_to("/proc"):
            # An open descriptor: whoever opened it would not see another file of that name.
            return None
        place = _without_links_above(place.parent / place.readlink())
    return place


def _without_links_above(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _replace(place: Path, content: bytes, *, is_private: bool) -> None:
    partial = place.with_name(f".spectui-{secrets.token_hex(8)}.partial")
    # Whoever may not read the old one may not read half of the new one.
    mode = PRIVATE if is_private or place.exists() else _USUAL
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            # Some disks say only here that they are full.
            os.fsync(file.fileno())
            _take_after(place, file.fileno())
        partial.replace(place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _take_after(place: Path, file: int) -> None:
    with suppress(OSError):
        old = place.stat()
        with suppress(OSError):
            os.fchown(file, old.st_uid, old.st_gid)
        # After the owner, whose change takes rights away.
        os.fchmod(file, old.st_mode & 0o7777)
