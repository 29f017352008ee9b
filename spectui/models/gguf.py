"""A model's GGUF files, read header by header, without loading a weight."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Self

from spectui.errors import BadInputError
from spectui.files import open_file
from spectui.gguf_names import series_of
from spectui.models.counts import check_overrides
from spectui.models.header import MAGIC, GgufFile, read_header
from spectui.options.setup import KvOverride

_HINT = "give the path of a GGUF model"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """A file as it is now: equal as long as it need not be read again."""

    path: Path
    inode: int
    size_bytes: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Look at the file.

        Raises:
            OSError: it is missing, or cannot be looked at.
        """
        status = path.stat()
        return cls(
            path=path,
            inode=status.st_ino,
            size_bytes=status.st_size,
            changed_ns=status.st_mtime_ns,
        )


def read_gguf(path: Path) -> GgufFile:
    """Read a model's headers, those of all shards of a split one.

    Raises:
        BadInputError: a file is missing or no usable GGUF.
    """
    first, *others = map(_header, shards(path))
    tensors = chain(first.tensors, *(other.tensors for other in others))
    return replace(first, tensors=tuple(tensors))


def weights_bytes(path: Path) -> int | None:
    """Bytes of a model's tensors, from its headers alone; None where they cannot be read."""
    try:
        return read_gguf(path).weights_bytes
    except BadInputError:
        return None


def check_is_gguf(path: Path) -> None:
    """Refuse what the first bytes show to be no model.

    Raises:
        BadInputError: missing, no file, unreadable, empty, or not a GGUF.
    """
    try:
        if not path.exists():
            raise BadInputError(f"{path}: no such file; {_HINT}")
        if path.is_dir():
            raise BadInputError(
                f"{path} is a folder; give one of its models, which spectui models scan "
                f"{shlex.quote(str(path))} lists"
            )
        if not path.is_file():
            raise BadInputError(f"{path} is not a file; {_HINT}")
        with open_file(path) as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise _unreadable(path, error) from error
    if not magic:
        raise BadInputError(f"{path} is empty; download it again")
    if magic != MAGIC:
        raise BadInputError(f"{path} is not a GGUF file (it starts with {_shown(magic)}); {_HINT}")


def _shown(beginning: bytes) -> str:
    """Text where it is plain, else hexadecimal numbers."""
    text = beginning.decode("ascii", "replace")
    return f'"{text}"' if text.isascii() and text.isprintable() else f"bytes {beginning.hex(' ')}"


def check_file(path: Path, overrides: Sequence[KvOverride] = ()) -> None:
    """Refuse what is obviously no model before llama.cpp sees it.

    Args:
        path: the file.
        overrides: overrides of its metadata.

    Raises:
        BadInputError: as ``check_is_gguf``, or its header is broken.
        UsageError: with ``overrides`` it makes no model.
    """
    check_overrides(path, _header(path).counts, overrides)


def vocabulary(path: Path) -> list[bytes]:
    """Texts of a model's tokens, by id; none where the file has no list of them.

    Raises:
        BadInputError: the file is no usable GGUF.
    """
    tokens: list[bytes] = []
    try:
        read_header(path, tokens.append)
    except OSError as error:
        raise _unreadable(path, error) from error
    return tokens


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


def _header(path: Path) -> GgufFile:
    check_is_gguf(path)
    try:
        return _read(FileIdentity.of(path))
    except OSError as error:
        raise _unreadable(path, error) from error


@lru_cache(maxsize=16)
def _read(file: FileIdentity) -> GgufFile:
    """Several look at a file before it is loaded, and a vocabulary takes a tenth of a second."""
    return read_header(file.path)


def _unreadable(path: Path, error: OSError) -> BadInputError:
    return BadInputError(f"{path} cannot be read ({error.strerror}); {_HINT}")
