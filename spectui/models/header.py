"""Whether a GGUF file is as long as its header says, found out without loading anything."""

import struct
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
"""Whose counts have 64 bits; other files, big-endian ones among them, are not judged."""
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value, by its type."""
_ALIGNMENT_KEY, _ALIGNMENT = b"general.alignment", 32
_CHUNK_BYTES = 1 << 22
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


def is_cut(path: Path) -> bool:
    """Tell whether a file ends before its last tensor begins, as an aborted download does.

    A header that cannot be made sense of is left to llama.cpp, which says more about it.

    Raises:
        OSError: the file cannot be read.
    """
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        data = file.read(_CHUNK_BYTES)
        while True:
            header = _Header(data)
            try:
                return size_bytes <= header.last_tensor_at()
            except (struct.error, OverflowError):
                # A vocabulary takes megabytes: the header goes on. A damaged one may promise more
                # than the file holds; a model of many gigabytes is not read for that.
                more = file.read(len(data)) if header.at <= size_bytes else b""
            except (_UnknownError, RecursionError):
                # The latter where lists are in lists without an end.
                return False
            if not more:
                return True
            data += more


class _UnknownError(Exception):
    """The header is of a kind that is not known here."""


@dataclass(slots=True)
class _Header:
    """Reads from front to back. Raises ``struct.error`` where the data ends.

    Where a length is beyond any file, it is an ``OverflowError``.
    """

    data: bytes
    at: int = 0

    def last_tensor_at(self) -> int:
        """Return where the last tensor begins in the file; -1 without a tensor."""
        if self.data[:4] != _MAGIC[: len(self.data)]:
            raise _UnknownError
        self.at = len(_MAGIC)
        if self._u32() not in _VERSIONS:
            raise _UnknownError
        n_tensors, n_values = self._u64(), self._u64()
        alignment = _ALIGNMENT
        for _ in range(n_values):
            key, at = self._string(), self.at
            self._skip(self._u32())
            if key == _ALIGNMENT_KEY:
                (alignment,) = _U32.unpack_from(self.data, at + _U32.size)
        offsets = [self._tensor() for _ in range(n_tensors)]
        if not offsets or not alignment:
            return -1
        return -(-self.at // alignment) * alignment + max(offsets)

    def _tensor(self) -> int:
        """Go over a tensor's description; return where it begins behind the header."""
        self._string()
        n_dims = self._u32()
        self.at += n_dims * _U64.size + _U32.size  # dimensions, type
        return self._u64()

    def _skip(self, kind: int) -> None:
        if kind == _STRING:
            self._string()
        elif kind == _ARRAY:
            of, n = self._u32(), self._u64()
            if of in _SIZES:
                self.at += n * _SIZES[of]
            else:
                for _ in range(n):
                    self._skip(of)
        elif kind in _SIZES:
            self.at += _SIZES[kind]
        else:
            raise _UnknownError

    def _string(self) -> bytes:
        n = self._u64()
        self.at += n
        return self.data[self.at - n : self.at]

    def _u32(self) -> int:
        (value,) = _U32.unpack_from(self.data, self.at)
        self.at += _U32.size
        return int(value)

    def _u64(self) -> int:
        (value,) = _U64.unpack_from(self.data, self.at)
        self.at += _U64.size
        return int(value)
