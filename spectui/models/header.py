"""Walks the header of a GGUF file without loading anything: is it whole, is the file?

The file is not trusted. Every length in it is held against the file's size and against what real
models have, nothing recurses deeper than a few levels, and at most ``_MAX_BYTES`` are read.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from spectui.errors import BadInputError
from spectui.models.counts import BrokenError, check_counts

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
"""Whose counts have 64 bits; other files, big-endian ones among them, are not judged."""
_UINT32, _STRING, _ARRAY = 4, 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value, by its type."""
_ALIGNMENT_KEY, _ALIGNMENT = b"general.alignment", 32
_ARCHITECTURE_KEY, _SHOWN = b"general.architecture", 40
_CHUNK_BYTES = 1 << 22
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

_MAX_BYTES = 1 << 27
"""Of a header. The largest vocabularies, of 260,000 tokens and 500,000 merges, take 20 MB."""
_MAX_ENTRIES = 1 << 21
"""Values, texts in lists and tensors together, far above any model's. Of values and tensors alone
there are dozens and thousands; llama.cpp looks tensors up one by one."""
_MAX_VALUES, _MAX_TENSORS = 1 << 13, 1 << 14
_MAX_KEY_BYTES = (1 << 16) - 1
"""As the format has it."""
_MAX_DIMS = 4
"""``GGML_MAX_DIMS``."""
_MAX_DEPTH = 4
"""Of lists in lists, which the format allows and no model has."""


class _CutError(Exception):
    """The file ends within its header."""

    def __init__(self) -> None:
        super().__init__("the file ends within it")


def is_cut(path: Path) -> bool:
    """Tell whether a file ends before its last tensor begins, as an aborted download does.

    A header that cannot be made sense of is left to llama.cpp, which says more about it.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            walk = _Walk(file, path.stat().st_size)
            return walk.size_bytes <= walk.last_tensor_at()
    except _CutError:
        return True
    except BrokenError:
        return False


def check_header(path: Path) -> Mapping[bytes, int]:
    """Refuse a header whose lengths lead out of the file, or beyond anything that a model has.

    Llama.cpp believes more of it and may take all memory, or all time, for it; and it aborts on
    counts of layers and experts that cannot be. A version that is not known here passes: llama.cpp
    says what is wrong with it.

    Returns:
        Its metadata that are single unsigned numbers of 32 bits.

    Raises:
        BadInputError: the header is broken, or the file ends within it.
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            walk = _Walk(file, path.stat().st_size)
            walk.last_tensor_at()
            check_counts(walk.numbers)
            return walk.numbers
    except (BrokenError, _CutError) as error:
        raise BadInputError(
            f"{path} has a broken header ({error}); check that the download is complete"
        ) from error


@dataclass(slots=True)
class _Walk:
    """Goes from front to back, reading as far as it looks."""

    file: BinaryIO
    size_bytes: int
    data: bytes = b""
    at: int = 0
    entries_left: int = _MAX_ENTRIES
    numbers: dict[bytes, int] = field(default_factory=dict)
    """Metadata that are single unsigned numbers of 32 bits, as all counts are."""

    def last_tensor_at(self) -> int:
        """Return where the last tensor begins in the file; -1 without one, or where not known."""
        self._need(self.at + len(_MAGIC))
        if self.data[: len(_MAGIC)] != _MAGIC:
            return -1
        self.at = len(_MAGIC)
        if self._u32() not in _VERSIONS:
            return -1
        n_tensors, n_values = self._u64(), self._u64()
        self._values(n_values)
        alignment = self.numbers.get(_ALIGNMENT_KEY, _ALIGNMENT)
        self._count(n_tensors, _MAX_TENSORS)
        offsets = [self._tensor() for _ in range(n_tensors)]
        if not offsets or not alignment:
            return -1
        return -(-self.at // alignment) * alignment + max(offsets)

    def _values(self, n_values: int) -> None:
        """Go over the metadata."""
        self._count(n_values, _MAX_VALUES)
        for _ in range(n_values):
            key, kind = self._key(), self._u32()
            if kind == _UINT32:
                self.numbers[key] = self._u32()
            elif kind == _STRING and key == _ARCHITECTURE_KEY:
                self._check_architecture()
            else:
                self._skip_value(kind)

    def _check_architecture(self) -> None:
        """Refuse a name that could not be told in one line."""
        n = self._u64()
        self._skip(n)
        self._need(self.at)
        name = self.data[self.at - n : self.at].decode(errors="replace")
        if not name.isprintable():
            raise BrokenError(f"its architecture is called {name[:_SHOWN]!r}")

    def _tensor(self) -> int:
        """Go over a tensor's description; return where it begins behind the header."""
        self._skip_strings(1)
        n_dims = self._u32()
        if n_dims > _MAX_DIMS:
            raise BrokenError(f"a tensor of {n_dims} dimensions")
        self._skip(n_dims * _U64.size + _U32.size)  # dimensions, type
        return self._u64()

    def _skip_value(self, kind: int, depth: int = 0) -> None:
        if kind in _SIZES:
            self._skip(_SIZES[kind])
        elif kind == _STRING:
            self._skip_strings(1)
        elif kind == _ARRAY and depth < _MAX_DEPTH:
            self._skip_array(depth)
        elif kind == _ARRAY:
            raise BrokenError(f"lists are more than {_MAX_DEPTH} deep")
        else:
            raise BrokenError(f"a value of type {kind}, which the format does not have")

    def _skip_array(self, depth: int) -> None:
        kind, n = self._u32(), self._u64()
        if kind in _SIZES:
            self._skip(n * _SIZES[kind])
            return
        self._count(n, _MAX_ENTRIES)
        if kind == _STRING:
            self._skip_strings(n)
        else:
            for _ in range(n):
                self._skip_value(kind, depth + 1)

    def _skip_strings(self, n: int) -> None:
        # Two vocabularies' worth of them per file: everything in local variables.
        unpack, at, end = _U64.unpack_from, self.at, len(self.data)
        for _ in range(n):
            if at + _U64.size > end:
                self._need(at + _U64.size)
                end = len(self.data)
            at += _U64.size + unpack(self.data, at)[0]
        self.at = at
        self._skip(0)

    def _key(self) -> bytes:
        n = self._u64()
        if not 0 < n <= _MAX_KEY_BYTES:
            raise BrokenError(f"a key of {n} bytes")
        self._need(self.at + n)
        self.at += n
        return self.data[self.at - n : self.at]

    def _u32(self) -> int:
        self._need(self.at + _U32.size)
        (value,) = _U32.unpack_from(self.data, self.at)
        self.at += _U32.size
        return int(value)

    def _u64(self) -> int:
        self._need(self.at + _U64.size)
        (value,) = _U64.unpack_from(self.data, self.at)
        self.at += _U64.size
        return int(value)

    def _skip(self, n_bytes: int) -> None:
        self.at += n_bytes
        self._allow(self.at)

    def _count(self, n: int, most: int) -> None:
        """Note that ``n`` more entries are announced, of a kind of which there are ``most``."""
        self.entries_left -= n
        if n > most or self.entries_left < 0:
            raise BrokenError(f"it announces {n} entries, more than any model has")

    def _allow(self, end: int) -> None:
        if end > self.size_bytes:
            raise _CutError
        if end > _MAX_BYTES:
            raise BrokenError(f"it takes more than {_MAX_BYTES >> 20} MiB")

    def _need(self, end: int) -> None:
        """Have the first ``end`` bytes of the file at hand."""
        if end <= len(self.data):
            return
        self._allow(end)
        # Twice as much each time: a vocabulary takes megabytes.
        wanted = max(end - len(self.data), len(self.data), _CHUNK_BYTES)
        self.data += self.file.read(wanted)
        if end > len(self.data):
            raise _CutError
