"""One process at a time writes to a file."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from spectui.errors import BadInputError


@contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file to append to it, which is made where there is none, and keep others out.

    Raises:
        BadInputError: another process has it.
        OSError: it cannot be opened.
    """
    while True:
        with path.open("ab") as file:
            _lock(path, file)
            if _is_at(path, file):
                yield file
                return


def _lock(path: Path, file: BinaryIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BadInputError(
            f"{path} is being fetched by another spectui; wait until it is done"
        ) from error


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Tell whether nobody renamed or deleted the file between opening and locking it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
