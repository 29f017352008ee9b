"""Reads files with a limit of size, and writes them whole or not at all.

Only regular files are read: devices and pipes, which may have no end, are refused. A result
replaces its file in one step, so that a full disk costs no old one.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EBUSY, EEXIST, EFBIG, EINVAL, EPERM, EROFS
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TypeVar

import msgspec

from spectui.errors import BadInputError
from spectui.format import bytes_text

SMALL_BYTES = 1_000_000
"""Limit of files that people write: settings, presets, grids."""
LARGE_BYTES = 256_000_000
"""Limit of files that programs write: prompts, sessions, recordings."""
_LEAST_BYTES = 1 << 16
PRIVATE = 0o600
_USUAL = 0o666
_PARTIAL = ".spectui-{}.partial"
_OVERWRITES = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_NEW_FILE = (EACCES, EPERM, EROFS, EBUSY)
"""Errors of a folder that takes no new file, and of a file that is a mount of its own."""
_T = TypeVar("_T")


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Devices and pipes, which may have no end or wait for ever, are neither waited for nor read.

    Raises:
        OSError: it cannot be read, or is no regular file; ``strerror`` says which.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(EINVAL, "no regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_file(path: Path, most_bytes: int) -> bytes:
    """Read a regular file of at most ``most_bytes``.

    Raises:
        OSError: as ``open_file``, or it is too large.
    """
    content = b""
    with open_file(path) as file:
        size_bytes = max(os.fstat(file.fileno()).st_size, _LEAST_BYTES)
        # Files of /proc have no size, and others may grow.
        while len(content) <= most_bytes and (part := file.read(min(size_bytes, most_bytes) + 1)):
            content += part
    if len(content) > most_bytes:
        raise OSError(EFBIG, f"larger than {bytes_text(most_bytes)}", str(path))
    return content


def unreadable(path: Path | str, error: OSError, remedy: str) -> BadInputError:
    """The error for a file that the user names and that cannot be read."""
    reason = f" cannot be read ({error.strerror})"
    if isinstance(error, FileNotFoundError):
        reason = ": no such file"
    return BadInputError(f"{path}{reason}; {remedy}")


def read_toml(path: Path, kind: type[_T], *, other: str, advice: Callable[[str], str]) -> _T:
    """Read a TOML file.

    Args:
        path: a regular file.
        kind: class of its contents.
        other: what to give in place of a file that cannot be read.
        advice: returns what to do about a problem of the contents.

    Raises:
        BadInputError: missing, no regular file, no TOML, or its contents are not as in ``kind``.
    """
    try:
        content = read_file(path, SMALL_BYTES)
    except OSError as error:
        raise unreadable(path, error, f"give {other}") from error
    try:
        return msgspec.toml.decode(content, type=kind)
    except msgspec.ValidationError as error:
        problem = str(error).replace("Expected `array` of length >= 1", "an empty list")
        raise BadInputError(f"{path}: {problem}; {advice(str(error))}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not valid TOML ({error}); correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{path} is not valid TOML (nested too deep); correct it") from error


def named_toml(folders: Iterable[Path]) -> dict[str, Path]:
    """TOML files by their names without the ending; those of the first folder hide others."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def open_private(path: Path, flags: int) -> int:
    """Open a file of spectui's own, for its user alone where it is made; links are not followed.

    Raises:
        OSError: it cannot be opened, or is a link, a pipe or a device other than the null device.
    """
    # Opening a pipe would wait for a reader.
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(path, flags, PRIVATE)
    if not stat.S_ISREG(os.fstat(file).st_mode) and str(path) != os.devnull:
        os.close(file)
        raise OSError(EINVAL, "no regular file", str(path))
    return file


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


def write_own_file(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write ``content`` to ``path``, where spectui alone writes: whole, or what was there stays.

    A link, pipe or device that stands there is replaced.

    Raises:
        OSError: it cannot be written.
    """
    _replace(_without_links_above(path), content, is_private=is_private)


def read_cached(path: Path, kind: type[_T]) -> _T | None:
    """Read what ``write_cached`` has kept; None where there is nothing of ``kind``."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=kind)
    return None


def write_cached(path: Path, value: object) -> None:
    """Keep a value as JSON, if there is room: to find it out again costs little."""
    # A path that is no text cannot be kept.
    with suppress(OSError, UnicodeEncodeError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_own_file(path, msgspec.json.encode(value))


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
        if error.errno not in _NO_NEW_FILE or not os.access(place, os.W_OK):
            raise
        # O_NOFOLLOW: the file must not have become a link meanwhile.
        with os.fdopen(os.open(place, _OVERWRITES), "wb") as file:
            file.write(content)


def write_new_file(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write ``content`` to ``path``, where nothing may be: the whole of it, or no file.

    Raises:
        FileExistsError: something is there; it stays as it is.
        OSError: it cannot be written.
    """
    place = _without_links_above(path)
    if place.exists() or place.is_symlink():
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))
    with _partial(place.parent, content, PRIVATE if is_private else _USUAL) as (partial, _file):
        try:
            # Unlike a renaming it replaces nothing.
            os.link(partial, place)
        except FileExistsError:
            raise
        except OSError:
            # File systems without hard links. A kill here leaves a file without a byte.
            place.touch(exist_ok=False)
            partial.replace(place)


def _place(path: Path) -> Path | None:
    """Resolve ``path`` to its file, which may not exist yet; None if it is no regular file."""
    with suppress(FileNotFoundError):
        path.stat()
        if not path.is_file():
            return None
    place = _without_links_above(path)
    while place.is_symlink():
        if place.is_relative_to("/proc"):
            # An open descriptor, whose owner would not see a file that replaces it.
            return None
        place = _without_links_above(place.parent / place.readlink())
    return place


def _without_links_above(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _replace(place: Path, content: bytes, *, is_private: bool) -> None:
    # Users who may not read the old file must not read a part of the new one.
    mode = PRIVATE if is_private or place.exists() else _USUAL
    with _partial(place.parent, content, mode) as (partial, file):
        _copy_owner_and_mode(place, file)
        partial.replace(place)


@contextmanager
def _partial(folder: Path, content: bytes, mode: int) -> Iterator[tuple[Path, int]]:
    """Write a file under a temporary name, and remove it in the end; yields it and its descriptor.

    Files of killed processes are removed: a file that is still being written is locked.
    """
    for left in folder.glob(_PARTIAL.format("*")):
        with suppress(OSError):
            _remove_unless_locked(left)
    partial = folder / _PARTIAL.format(os.urandom(8).hex())
    try:
        with os.fdopen(_locked(partial, mode), "wb") as file:
            file.write(content)
            file.flush()
            # Some disks say only here that they are full.
            os.fsync(file.fileno())
            yield partial, file.fileno()
    finally:
        partial.unlink(missing_ok=True)


def _locked(partial: Path, mode: int) -> int:
    while True:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        # File systems without locks.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file).st_nlink:
            return file
        # Another process removed it as left over, before it was locked.
        os.close(file)


def _remove_unless_locked(partial: Path) -> None:
    file = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        partial.unlink()
    finally:
        os.close(file)


def _copy_owner_and_mode(place: Path, file: int) -> None:
    with suppress(OSError):
        old = place.lstat()
        if not stat.S_ISREG(old.st_mode):
            return
        with suppress(OSError):
            os.fchown(file, old.st_uid, old.st_gid)
        # After the owner, whose change takes rights away.
        os.fchmod(file, old.st_mode & 0o7777)
