"""What can be said of a model's file without llama.cpp."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from spectui.config import KvOverride
from spectui.errors import BadInputError
from spectui.models.header import check_header
from spectui.models.overrides import check_overrides

_MAGIC = b"GGUF"
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


def check_is_gguf(path: Path) -> None:
    """Refuse what the first bytes show to be no model.

    Raises:
        BadInputError: missing, no file, unreadable, empty, or not a GGUF.
    """
    try:
        if not path.exists():
            raise BadInputError(f"{path}: no such file; {_HINT}")
        if not path.is_file():
            raise BadInputError(f"{path} is not a file; {_HINT}")
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise _unreadable(path, error) from error
    if not magic:
        raise BadInputError(f"{path} is empty; download it again")
    if magic != _MAGIC:
        raise BadInputError(f"{path} is not a GGUF file (it starts with {magic!r}); {_HINT}")


def check_file(path: Path, overrides: Sequence[KvOverride] = ()) -> None:
    """Refuse what is obviously no model before llama.cpp sees it.

    Args:
        path: the file.
        overrides: what is to be taken for its metadata.

    Raises:
        BadInputError: as ``check_is_gguf``, or its header is broken.
        UsageError: with ``overrides`` it makes no model.
    """
    check_is_gguf(path)
    try:
        numbers = _check_header(FileIdentity.of(path))
    except OSError as error:
        raise _unreadable(path, error) from error
    check_overrides(path, numbers, overrides)


@lru_cache(maxsize=16)
def _check_header(file: FileIdentity) -> Mapping[bytes, int]:
    """Several look at a file before it is loaded, and a vocabulary takes a tenth of a second."""
    return check_header(file.path)


def _unreadable(path: Path, error: OSError) -> BadInputError:
    return BadInputError(f"{path} cannot be read ({error.strerror}); {_HINT}")
