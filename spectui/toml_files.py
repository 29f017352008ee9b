"""TOML files that users write: read with a limit, and refused in a sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from spectui.errors import BadInputError

_T = TypeVar("_T")
_MOST_BYTES = 1_000_000
"""Limit of a file: a hundred times the longest that is shipped."""


def read_toml(path: Path, kind: type[_T], *, other: str, advice: Callable[[str], str]) -> _T:
    """Read a file.

    Args:
        path: a regular file.
        kind: class of its contents.
        other: what to give in place of a file that cannot be read.
        advice: says what to do about a problem of the contents.

    Raises:
        BadInputError: missing, no regular file, no TOML, or it says what such files do not say.
    """
    # Opening a pipe would wait for its writer.
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path} is no regular file; give {other}")
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; give {other}") from error
    if len(content) > _MOST_BYTES:
        raise BadInputError(f"{path} is larger than 1 MB; give {other}")
    try:
        return msgspec.toml.decode(content, type=kind)
    except msgspec.ValidationError as error:
        told = str(error).replace("Expected `array` of length >= 1", "an empty list")
        raise BadInputError(f"{path}: {told}; {advice(str(error))}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not valid TOML ({error}); correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{path} is not valid TOML (nested too deep); correct it") from error
