"""TOML files that users write: read with a limit, and refused in a sentence."""

from collections.abc import Callable
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import TypeVar

import msgspec

from spectui.errors import BadInputError
from spectui.reading import SMALL_BYTES, read_file

_T = TypeVar("_T")


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
    try:
        content = read_file(path, SMALL_BYTES)
    except OSError as error:
        joint = " is" if error.errno in {EFBIG, EINVAL} else ":"
        raise BadInputError(f"{path}{joint} {error.strerror}; give {other}") from error
    try:
        return msgspec.toml.decode(content, type=kind)
    except msgspec.ValidationError as error:
        told = str(error).replace("Expected `array` of length >= 1", "an empty list")
        raise BadInputError(f"{path}: {told}; {advice(str(error))}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not valid TOML ({error}); correct it") from error
    except RecursionError as error:
        raise BadInputError(f"{path} is not valid TOML (nested too deep); correct it") from error
