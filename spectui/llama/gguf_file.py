"""What a GGUF says of itself: metadata and tensors, without loading a weight.

Read by ggml's own C API, so that it is read as llama.cpp reads it.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from types import MappingProxyType
from typing import Self

from spectui.errors import BadInputError
from spectui.gguf_names import series_of
from spectui.llama.files import check_file
from spectui.llama.gguf_native import ARRAY, NUMBERS, STRING, InitParams, gguf_library
from spectui.llama.library import ensure_backend

Scalar = int | float | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor of a file."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile:
    """Metadata and tensors of a model, of all its shards."""

    metadata: Mapping[str, Scalar]
    """Of the first shard, which holds the model's; single values only."""
    array_lengths: Mapping[str, int]
    """Of the metadata that is lists, such as the vocabulary."""
    tensors: tuple[TensorInfo, ...]

    @property
    def weights_bytes(self) -> int:
        """Of all tensors, which is what ``llama_model_size`` says once the model is loaded."""
        return sum(tensor.size_bytes for tensor in self.tensors)


def read_gguf(path: Path) -> GgufFile:
    """Read a model's headers, those of all shards of a split one.

    Raises:
        BadInputError: a file is missing or no usable GGUF.
    """
    ensure_backend()  # it keeps ggml's messages off the terminal
    paths = shards(path)
    metadata: dict[str, Scalar] = {}
    array_lengths: dict[str, int] = {}
    tensors: list[TensorInfo] = []
    for shard in paths:
        with _Header(shard) as header:
            if shard == paths[0]:
                metadata = dict(header.scalars())
                array_lengths = dict(header.arrays())
            tensors += header.tensors()
    return GgufFile(
        metadata=MappingProxyType(metadata),
        array_lengths=MappingProxyType(array_lengths),
        tensors=tuple(tensors),
    )


def weights_bytes(path: Path) -> int | None:
    """Bytes of a model's tensors, from its headers alone; None where ggml cannot read them."""
    try:
        return read_gguf(path).weights_bytes
    except BadInputError:
        return None


def check_tokens(path: Path) -> None:
    """Refuse a damaged vocabulary, for which llama.cpp would end the process.

    It asserts that the tokens are strings (``gguf_get_arr_str``), and all different
    (``id_to_token.size() == token_to_id.size()``; it numbers those that are empty).

    Raises:
        BadInputError: they are not, or the file is no usable GGUF.
    """
    ensure_backend()  # it keeps ggml's messages off the terminal
    with _Header(path) as header:
        tokens = header.strings("tokenizer.ggml.tokens")
    if tokens is None or len(set(tokens)) != len(tokens):
        raise BadInputError(
            f"{path} is damaged: its tokens are no list of different texts; download it again"
        )


def shards(path: Path) -> tuple[Path, ...]:
    """Return the files of a model in order: ``path``, or all of ``-00001-of-0000N.gguf``.

    Raises:
        BadInputError: a shard is missing.
    """
    parts = tuple(path.with_name(name) for name in series_of(path.name).names)
    n_there = sum(part.exists() for part in parts)
    # Of a model that is missing altogether it is said so where it is opened.
    if 0 < n_there < len(parts):
        raise BadInputError(
            f"{path} is one of {len(parts)} parts, of which {n_there} can be found; "
            "download the missing ones"
        )
    return parts if n_there else (path,)


def file_size(path: Path) -> int:
    """Bytes of a model's file, all shards of a split one together.

    Raises:
        BadInputError: a shard is missing.
        OSError: the file is missing, or cannot be looked at.
    """
    return sum(part.stat().st_size for part in shards(path))


class _Header:
    """One open ``gguf_context``."""

    def __init__(self, path: Path) -> None:
        check_file(path)
        self._c = gguf_library()
        self._context = self._c.gguf_init_from_file(os.fsencode(path), InitParams(True, None))
        if not self._context:
            raise BadInputError(
                f"{path} has a broken header; check that the download is complete and that "
                "this llama.cpp knows the version of the format"
            )

    def scalars(self) -> Iterator[tuple[str, Scalar]]:
        """Yield keys and values that are no lists."""
        for index, key, kind in self._entries():
            if kind == STRING:
                yield key, _text(self._c.gguf_get_val_str(self._context, index))
            elif kind in NUMBERS:
                getter = getattr(self._c, f"gguf_get_val_{NUMBERS[kind][0]}")
                yield key, getter(self._context, index)

    def arrays(self) -> Iterator[tuple[str, int]]:
        """Yield keys and lengths of lists."""
        for index, key, kind in self._entries():
            if kind == ARRAY:
                yield key, self._c.gguf_get_arr_n(self._context, index)

    def strings(self, key: str) -> list[bytes] | None:
        """Return a list's strings but the empty ones; nothing without it, None if it has others."""
        c, context = self._c, self._context
        for index, name, kind in self._entries():
            if name == key:
                if kind != ARRAY or c.gguf_get_arr_type(context, index) != STRING:
                    return None
                ids = range(c.gguf_get_arr_n(context, index))
                found = map(c.gguf_get_arr_str, repeat(context), repeat(index), ids)
                return list(filter(None, found))
        return []

    def tensors(self) -> Iterator[TensorInfo]:
        """Yield the tensors in the order of the file."""
        for index in range(self._c.gguf_get_n_tensors(self._context)):
            yield TensorInfo(
                name=_text(self._c.gguf_get_tensor_name(self._context, index)),
                size_bytes=self._c.gguf_get_tensor_size(self._context, index),
            )

    def _entries(self) -> Iterator[tuple[int, str, int]]:
        for index in range(self._c.gguf_get_n_kv(self._context)):
            key = _text(self._c.gguf_get_key(self._context, index))
            yield index, key, self._c.gguf_get_kv_type(self._context, index)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._c.gguf_free(self._context)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
