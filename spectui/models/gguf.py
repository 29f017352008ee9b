"""A model's GGUF files, read header by header, without loading a weight."""

import shlex
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from spectui.errors import BadInputError
from spectui.files import open_file, unreadable
from spectui.gguf_names import shard_names
from spectui.models.header import MAGIC, GgufFile, read_header

_HINT = "give the path of a GGUF model"


class FileIdentity(NamedTuple):
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
    check_is_gguf(path)
    first, *others = map(_shard_header, shards(path))
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
        BadInputError: missing, no file, unreadable, or not a GGUF.
    """
    try:
        if path.is_dir():
            raise BadInputError(
                f"{path} is a folder; give one of its models, which spectui models scan "
                f"{shlex.quote(str(path))} lists"
            )
        with open_file(path) as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise unreadable(path, error, _HINT) from error
    if magic != MAGIC:
        raise BadInputError(
            f"{path} is not a GGUF file (it starts with {magic.decode('latin-1')!a}); {_HINT}"
        )


def shards(path: Path) -> tuple[Path, ...]:
    """Return the files of a model in order: ``path``, or all of ``-00001-of-0000N.gguf``.

    Raises:
        BadInputError: a shard is missing.
    """
    parts = tuple(path.with_name(name) for name in shard_names(path.name))
    n_there = sum(part.exists() for part in parts)
    # A model without any of its files is reported where it is opened.
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


def _shard_header(path: Path) -> GgufFile:
    check_is_gguf(path)
    try:
        return _cached_header(FileIdentity.of(path))
    except OSError as error:
        raise unreadable(path, error, _HINT) from error


@lru_cache(maxsize=16)
def _cached_header(file: FileIdentity) -> GgufFile:
    """Cached: several callers read a file before a load, and a vocabulary takes 0.1 s."""
    return read_header(file.path)
