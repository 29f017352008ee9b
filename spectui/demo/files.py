"""Writing into a folder that others may write into at the same time, or that may fail."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spectui.errors import BadInputError, CancelledError

_LOCK_POLL_S = 0.1


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn an ``OSError`` inside into a ``BadInputError`` that names ``folder``."""
    try:
        yield
    except OSError as error:
        # numpy's write errors carry a text but no errno.
        reason = error.strerror or str(error)
        raise BadInputError(
            f"cannot write demo models to {folder} ({reason}); "
            "free some space there or choose another folder"
        ) from error


@contextmanager
def exclusive_lock(path: Path, stopped: Callable[[], bool]) -> Iterator[None]:
    """Wait until no other thread or process holds the lock file ``path``, then hold it.

    The file stays: removing it would let two builders lock two files of the same name.

    Raises:
        BadInputError: the file cannot be created or locked.
        CancelledError: ``stopped`` returned true while waiting.
    """
    with explained(path.parent):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not _try_lock(handle, path.parent):
            if stopped():
                raise CancelledError("waiting for another build of the demo models was cancelled")
            time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int, folder: Path) -> bool:
    with explained(folder):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def sync(path: Path) -> None:
    """Wait until the file or folder ``path`` is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
