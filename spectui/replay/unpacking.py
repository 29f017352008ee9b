"""Unpacking a file that anyone may have made: it may be damaged, or unpack to no end."""

import gzip
import zlib
from io import BytesIO
from itertools import islice
from pathlib import Path

from spectui.errors import BadInputError

_MAX_BYTES = 1 << 28
"""A few kilobytes unpack to any size; half a million tokens recorded for 32 take all of this."""
_CHUNK_BYTES = 1 << 20
_MAGIC = b"\x1f\x8b"
_HINT = "record it again with spectui trace"


def unpacked(path: Path) -> bytes:
    """Read and unpack a gzipped file.

    Raises:
        BadInputError: missing, empty, cut off, damaged, not gzipped, or too large.
    """
    packed = _packed(path)
    try:
        if max(len(packed), _unpacked_size(packed)) <= _MAX_BYTES:
            return gzip.decompress(packed)
    except EOFError as error:
        raise BadInputError(f"{path} is cut off; {_HINT}") from error
    except (OSError, zlib.error) as error:
        raise BadInputError(
            f"{path} is damaged: bytes of it were changed or appended; {_HINT}"
        ) from error
    raise BadInputError(
        f"{path} unpacks to more than {_MAX_BYTES >> 20} MiB, the most that a trace may have; give "
        "another one, or record fewer prompts"
    )


def _packed(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
            chunks = iter(lambda: file.read(_CHUNK_BYTES), b"") if magic == _MAGIC else ()
            # A pipe may never end.
            rest = b"".join(islice(chunks, _MAX_BYTES // _CHUNK_BYTES))
    except OSError as error:
        raise BadInputError(
            f"{path} cannot be read as a trace ({error.strerror}); give a file that spectui trace "
            "wrote"
        ) from error
    if not magic:
        raise BadInputError(f"{path} is empty; {_HINT}")
    if magic != _MAGIC:
        raise BadInputError(f"{path} is no trace of spectui's (it is not gzipped); {_HINT}")
    return magic + rest


def _unpacked_size(packed: bytes) -> int:
    """Count without keeping anything, and no further than there is a need."""
    size = 0
    with gzip.open(BytesIO(packed)) as file:
        while size <= _MAX_BYTES and (chunk := file.read(_CHUNK_BYTES)):
            size += len(chunk)
    return size
