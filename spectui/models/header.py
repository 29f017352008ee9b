"""Reads the header of one GGUF file, without loading anything."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from spectui.errors import BadInputError
from spectui.files import open_file

Scalar = int | float | str | bool
OnToken = Callable[[bytes], None]
Read = Callable[[int], bytes]
"""Reads a file on, more or fewer bytes than are asked for; none at the end."""

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
"""Versions with counts of 64 bits; other files, big-endian ones among them, are not judged."""
_STRING, _ARRAY = 8, 9
_VALUES = {
    kind: struct.Struct(f"<{letter}")
    for kind, letter in (*enumerate("BbHhIif?"), *enumerate("Qqd", start=10))
}
"""Single values, by ``enum gguf_type``."""
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_ARCHITECTURE_KEY, _SHOWN = "general.architecture", 40
TOKENS_KEY = "tokenizer.ggml.tokens"
_CHUNK_BYTES = 1 << 20
_ENDS = "the file ends within it"

MAX_BYTES = 1 << 27
"""Limit of a header. The largest vocabularies, of 260,000 tokens and 500,000 merges, take 20 MB."""
_MAX_ENTRIES = 1 << 21
"""Values, texts in lists and tensors together, far above any model's. Of values and tensors alone
there are dozens and thousands; llama.cpp looks tensors up one by one."""
_MAX_VALUES, _MAX_TENSORS = 1 << 13, 1 << 14
_MAX_KEY_BYTES = (1 << 16) - 1
"""Limit set by the format."""
_MAX_TEXT_BYTES = 1 << 20
"""Limit of a kept text: chat templates take some kilobytes."""
_MAX_NAME_BYTES = 63
"""Limit of a tensor's name: ``GGML_MAX_NAME`` less the byte that ends it."""
_MAX_DIMS = 4
"""``GGML_MAX_DIMS``."""
_TENSORS = tuple(struct.Struct(f"<{n}QIQ") for n in range(_MAX_DIMS + 1))
"""Fields behind a tensor's name, by number of dimensions: dimensions, type, offset."""
_LARGE_VOCABULARY, _MOST_VOCABULARIES = 10_000, 8
_vocabularies: dict[int, bytes] = {}
"""The last lists of texts that were skipped, by their lengths: models of one family have the same
ones, and comparing megabytes takes a hundredth of the time of skipping text by text."""
_BLOCKS = (
    (1, "0 F32 4, 1 F16 2, 24 I8 1, 25 I16 2, 26 I32 4, 27 I64 8"),
    (1, "28 F64 8, 30 BF16 2"),
    (32, "2 Q4_0 18, 3 Q4_1 20, 6 Q5_0 22, 7 Q5_1 24, 8 Q8_0 34, 9 Q8_1 36"),
    (32, "20 IQ4_NL 18, 39 MXFP4 17"),
    (64, "40 NVFP4 36, 42 Q2_0 18"),
    (128, "41 Q1_0 18"),
    (256, "10 Q2_K 84, 11 Q3_K 110, 12 Q4_K 144, 13 Q5_K 176, 14 Q6_K 210, 15 Q8_K 292"),
    (256, "16 IQ2_XXS 66, 17 IQ2_XS 74, 18 IQ3_XXS 98, 19 IQ1_S 50, 21 IQ3_S 110, 22 IQ2_S 82"),
    (256, "23 IQ4_XS 136, 29 IQ1_M 56, 34 TQ1_0 54, 35 TQ2_0 66"),
)
"""Elements of a block; by ``enum ggml_type`` the names and the bytes of blocks of so many."""
TENSOR_BLOCKS = {
    int(kind): (n_elements, int(n_bytes))
    for n_elements, types in _BLOCKS
    for kind, _name, n_bytes in map(str.split, types.split(", "))
}
"""Elements and bytes of a block, by ``enum ggml_type``: all that this llama.cpp has."""
TENSOR_TYPES = {
    name.lower(): int(kind)
    for _n_elements, types in _BLOCKS
    for kind, name, _n_bytes in map(str.split, types.split(", "))
}
"""``enum ggml_type``, which files fix, by the names that options have for the types of caches."""


class TensorInfo(NamedTuple):
    """One tensor of a file. A tuple: a folder of models has hundreds of thousands."""

    name: str
    size_bytes: int
    n_elements: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile:
    """Metadata and tensors of a file, or of all shards of a model."""

    metadata: Mapping[str, Scalar]
    """Single values only; of a model those of the first shard, which holds the model's."""
    array_lengths: Mapping[str, int]
    """Lengths of metadata lists, such as the vocabulary."""
    tensors: tuple[TensorInfo, ...]

    @property
    def weights_bytes(self) -> int:
        """Bytes of all tensors: equal to ``llama_model_size`` once the model is loaded."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def arch(self) -> str:
        """``general.architecture``."""
        return self.text(_ARCHITECTURE_KEY) or "unknown"

    @property
    def mtp_layers(self) -> int:
        """Layers for multi-token prediction that the file says it has."""
        return self.number("nextn_predict_layers")

    def text(self, key: str) -> str:
        """Text of a key, empty where the model lacks it."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int = 0) -> int:
        """Number of a key of the architecture's own, 0 where it has something else there."""
        value = self.metadata.get(f"{self.arch}.{key}", default)
        return value if isinstance(value, int) and value > 0 else 0


class BrokenError(Exception):
    """The header cannot be that of a model."""


def read_header(path: Path, on_token: OnToken | None = None) -> GgufFile:
    """Read the header of a file on disk; as ``parse_header``.

    Raises:
        BadInputError: as ``parse_header``.
        OSError: the file cannot be read.
    """
    with open_file(path) as file:
        return parse_header(file.read, path.stat().st_size, str(path), on_token)


def parse_header(
    read: Read, size_bytes: int, name: str, on_token: OnToken | None = None
) -> GgufFile:
    """Read a header; refuse one whose lengths lead out of the file, or beyond any model's.

    Llama.cpp trusts such lengths, and may take all memory, or never end. Other errors pass here,
    and a file of an unknown version has no entries: llama.cpp reports what is wrong with those.

    Args:
        read: reads the file from its beginning, as far as its header goes.
        size_bytes: bytes of the file.
        name: the file's name in errors.
        on_token: called with every text of the vocabulary, by id.

    Raises:
        BadInputError: the header is broken, or the file ends within it.
        OSError: the file cannot be read.
    """
    walk = _Walk(read, size_bytes, on_token)
    try:
        walk.parse()
    except BrokenError as error:
        raise BadInputError(
            f"{name} has a broken header ({error}); check that the download is complete"
        ) from error
    return GgufFile(
        metadata=walk.metadata,
        array_lengths=walk.array_lengths,
        tensors=tuple(walk.tensors),
    )


class _Walk:
    """Parses a header from front to back, and reads no more of the file than it needs."""

    def __init__(self, read: Read, size_bytes: int, on_token: OnToken | None) -> None:
        self.read, self.size_bytes, self.on_token = read, size_bytes, on_token
        self.data, self.at = bytearray(), 0
        self.entries_left = _MAX_ENTRIES
        self.metadata: dict[str, Scalar] = {}
        self.array_lengths: dict[str, int] = {}
        self.tensors: list[TensorInfo] = []

    def parse(self) -> None:
        """Parse the header."""
        if self._bytes(len(MAGIC)) != MAGIC or self._u32() not in _VERSIONS:
            return
        n_tensors, n_values = self._u64(), self._u64()
        self._values(n_values)
        self._tensors(n_tensors)

    def _values(self, n_values: int) -> None:
        """Take in the metadata."""
        self._count(n_values, _MAX_VALUES)
        for _ in range(n_values):
            key, kind = _c_text(self._key()), self._u32()
            # The first value is what llama.cpp finds.
            if kind in _VALUES:
                (value,) = self._unpack(_VALUES[kind])
                self.metadata.setdefault(key, value)
            elif kind == _STRING:
                self.metadata.setdefault(key, self._string(key))
            elif kind == _ARRAY:
                length = self._skip_array(has_tokens=key == TOKENS_KEY)
                self.array_lengths.setdefault(key, length)
            else:
                raise BrokenError(f"a value of type {kind}, which the format does not have")

    def _string(self, key: str) -> str:
        n = self._u64()
        end = self.at + n
        self._allow(end)
        raw = self._bytes(min(n, _MAX_TEXT_BYTES))
        self.at = end
        # Errors name the architecture in one line.
        if key == _ARCHITECTURE_KEY and not (name := raw.decode(errors="replace")).isprintable():
            raise BrokenError(f"its architecture is called {name[:_SHOWN]!r}")
        return _c_text(raw)

    def _tensors(self, n_tensors: int) -> None:
        """Take in the descriptions of the tensors."""
        self._count(n_tensors, _MAX_TENSORS)
        self.tensors = [self._tensor() for _ in range(n_tensors)]

    def _tensor(self) -> TensorInfo:
        n_bytes = self._u64()
        name_at = self.at
        self._skip(n_bytes)
        n_dims = self._u32()
        if n_dims > _MAX_DIMS:
            raise BrokenError(f"a tensor of {n_dims} dimensions")
        *dims, kind, _offset = self._unpack(_TENSORS[n_dims])
        name = _c_text(self.data[name_at : name_at + min(n_bytes, _MAX_NAME_BYTES)])
        n_elements = prod(dims)
        n_block, block_bytes = TENSOR_BLOCKS.get(kind, (0, 0))
        size_bytes = n_elements // max(n_block, 1) * block_bytes
        return TensorInfo(name, size_bytes, n_elements)

    def _skip_array(self, *, has_tokens: bool) -> int:
        """Go over a list; return its length."""
        kind, n = self._u32(), self._u64()
        if kind == _ARRAY:
            raise BrokenError("a list of lists, which the format allows and ggml does not")
        if kind in _VALUES:
            self._skip(n * _VALUES[kind].size)
            return n
        if kind != _STRING:
            raise BrokenError(f"a value of type {kind}, which the format does not have")
        self._count(n, _MAX_ENTRIES)
        if has_tokens and self.on_token is not None:
            for _ in range(n):
                self.on_token(self._bytes(self._u64()))
        else:
            self._skip_strings(n)
        return n

    def _skip_strings(self, n: int) -> None:
        start, known = self.at, _vocabularies.get(n, b"")
        if known and start + len(known) <= min(self.size_bytes, MAX_BYTES):
            self._need(self.at + len(known))
            if self.data.startswith(known, start):
                self.at += len(known)
                return
        self._skip_each(n)
        if n >= _LARGE_VOCABULARY:
            if len(_vocabularies) == _MOST_VOCABULARIES:
                _vocabularies.clear()
            _vocabularies[n] = bytes(self.data[start : self.at])

    def _skip_each(self, n: int) -> None:
        # Two vocabularies' worth of them per file: everything in local variables.
        unpack, at, end = _U64.unpack_from, self.at, len(self.data)
        for _ in range(n):
            if at + _U64.size > end:
                self._need(at + _U64.size)
                end = len(self.data)
            at += _U64.size + unpack(self.data, at)[0]
        self._skip(at - self.at)

    def _key(self) -> bytes:
        n = self._u64()
        if not 0 < n <= _MAX_KEY_BYTES:
            raise BrokenError(f"a key of {n} bytes")
        return self._bytes(n)

    def _u32(self) -> int:
        return int(self._unpack(_U32)[0])

    def _u64(self) -> int:
        return int(self._unpack(_U64)[0])

    def _unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        at = self.at
        self.at += form.size
        self._need(self.at)
        return form.unpack_from(self.data, at)

    def _bytes(self, n: int) -> bytes:
        self._need(self.at + n)
        self.at += n
        return bytes(self.data[self.at - n : self.at])

    def _skip(self, n_bytes: int) -> None:
        self.at += n_bytes
        self._allow(self.at)

    def _count(self, n: int, most: int) -> None:
        """Count ``n`` more announced entries; refuse more than ``most``, or than all may be."""
        self.entries_left -= n
        if n > most or self.entries_left < 0:
            raise BrokenError(f"it announces {n} entries, more than any model has")

    def _allow(self, end: int) -> None:
        if end > self.size_bytes:
            raise BrokenError(_ENDS)
        if end > MAX_BYTES:
            raise BrokenError(f"it takes more than {MAX_BYTES >> 20} MiB")

    def _need(self, end: int) -> None:
        """Read on until the first ``end`` bytes of the file are in ``data``."""
        if end > len(self.data):
            self._allow(end)
            while end > len(self.data):
                chunk = self.read(max(end - len(self.data), _CHUNK_BYTES))
                if not chunk:
                    raise BrokenError(_ENDS)
                self.data += chunk


def _c_text(raw: bytes | bytearray) -> str:
    """Decode a text as C reads it: to the first zero."""
    return raw.partition(b"\0")[0].decode("utf-8", "replace")
