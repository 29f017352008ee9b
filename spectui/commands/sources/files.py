"""Reads files that hold commands: bounded text, one entry of several."""

from collections.abc import Iterable, Mapping, Sequence
from errno import EFBIG
from pathlib import Path
from typing import Any

from spectui.errors import BadInputError
from spectui.files import read_file

MOST_BYTES = 1 << 20
"""Maximum number of bytes of a file with a command: a larger one is a model, or something else."""
Tree = Mapping[str, Any]

_MOST_REPLACED = 100_000
_MOST_SHOWN = 8


def text_of_file(path: Path) -> str:
    """Text of a regular file of at most ``MOST_BYTES``.

    Raises:
        BadInputError: it cannot be read, is a device or a pipe, too large, or no text.
    """
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        why = "it is too large" if error.errno == EFBIG else error.strerror
        raise BadInputError(
            f"{path} cannot be read ({why}); give a file that holds a command"
        ) from error
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise BadInputError(f"{path} is no text; give a file that holds a command")
    return text


class Replacement:
    """Bounds the size of substituted variables, which may refer to each other."""

    def __init__(self) -> None:
        """Start with nothing substituted."""
        self._left = _MOST_REPLACED

    def of(self, text: str) -> str:
        """Return the text, after counting it.

        Raises:
            BadInputError: it was too much in all.
        """
        self._left -= len(text) + 1
        if self._left < 0:
            raise BadInputError("the variables stand for too much text; give a shorter command")
        return text


class SeveralError(BadInputError):
    """A file has several commands, and none was named."""

    def __init__(self, names: Sequence[str], message: str) -> None:
        """Take their names, as in ``FILE:NAME``, and the message."""
        super().__init__(message)
        self.names = tuple(names)


def chosen(names: Iterable[str], wanted: str | None, path: Path | None, what: str) -> str:
    """The name of the requested entry, as in ``FILE:NAME``, or of the only one.

    Args:
        names: names of entries that run llama-server.
        wanted: the name behind the file's name.
        path: path of the file; None for what is typed, of which none can be named.
        what: the entries are.

    Raises:
        BadInputError: there is none of that name, none at all, or several and none was named.
    """
    found = list(names)
    if wanted in found or (wanted is None and len(found) == 1):
        return wanted or found[0]
    more = len(found) - _MOST_SHOWN
    listed = ", ".join(found[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
    if wanted is not None or not found:
        which = f"{what} {wanted}" if wanted else what
        has = f"it has {listed}" if found else "give another file"
        raise BadInputError(f"{path} has no {which} that runs llama-server; {has}")
    if path is None:
        raise SeveralError(
            [], f"{len(found)} {what}s may start llama-server ({listed}); give one of them alone"
        )
    raise SeveralError(
        found,
        f"{path} has {len(found)} {what}s that run llama-server; give one of them as {path}:NAME, "
        f"with {listed}",
    )
