"""Files that somebody names: read whole with a limit, and only where they are regular files."""

import os
import stat
from errno import EFBIG, EINVAL
from pathlib import Path

from spectui.format import bytes_text

SMALL_BYTES = 1_000_000
"""Limit of files that people write: settings, presets, grids."""
LARGE_BYTES = 256_000_000
"""Limit of files that programs write: prompts, sessions, recordings."""
_LEAST_BYTES = 1 << 16


def read_file(path: Path, most_bytes: int) -> bytes:
    """Read a regular file of at most ``most_bytes``.

    Devices and pipes, which may have no end or wait for ever, are neither waited for nor read.

    Raises:
        OSError: it cannot be read, is no regular file, or too large; ``strerror`` says which.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(EINVAL, "no regular file", str(path))
        content = b""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            # Files of /proc have no size, and others may grow.
            while len(content) <= most_bytes and (
                part := file.read(min(max(status.st_size, _LEAST_BYTES), most_bytes) + 1)
            ):
                content += part
    finally:
        os.close(descriptor)
    if len(content) > most_bytes:
        raise OSError(EFBIG, f"larger than {bytes_text(most_bytes)}", str(path))
    return content
