"""Files that somebody names: read whole with a limit, and only where they are regular files."""

import os
import stat
from errno import EFBIG, EINVAL
from io import BufferedReader
from pathlib import Path

from spectui.format import bytes_text

SMALL_BYTES = 1_000_000
"""Limit of files that people write: settings, presets, grids."""
LARGE_BYTES = 256_000_000
"""Limit of files that programs write: prompts, sessions, recordings."""
_LEAST_BYTES = 1 << 16


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
