"""Reads files that hold commands: bounded text, one entry of several."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    r"""Text of a regular file of at most ``MOST_BYTES``, with lines that end in ``\n``.

    Raises:
        BadInputError: it cannot be read, is a device or a pipe, too large, or no text.
    """
    try:
        content = read_file(path, MOST_BYTES)
    except OSError as error:
        if error.errno == EFBIG:
            raise BadInputError(
                f"{path} is too large to hold a command; give a file that holds one"
            ) from error
        raise BadInputError(
            f"{path} cannot be read ({error.strerror}); give a file that is there"
        ) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path} is no text; give a file that holds a command") from error
    if "\0" in text:
        raise BadInputError(f"{path} is no text; give a file that holds a command")
    return text.replace("\r\n", "\n")


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


def chosen(
    names: Iterable[str],
    wanted: str | None,
    path: Path | None,
    what: str,
    others: Collection[str] = (),
) -> str:
    """The name of the requested entry, as in ``FILE:NAME``, or of the only one.

    Args:
        names: names of entries that run llama-server.
        wanted: the name behind the file's name.
        path: path of the file; None for what is typed, of which none can be named.
        what: the entries are.
        others: names of all entries, of which one may run it without saying so.

    Raises:
        BadInputError: there is none of that name, none at all, or several and none was named.
    """
    found = list(names)
    if path is None and len(found) > 1:
        raise SeveralError(
            [],
            f"{len(found)} {what}s may start llama-server ({_listed(found)}); give one of them "
            "alone",
        )
    if wanted is not None:
        if wanted in found or wanted in others:
            return wanted
        has = f"; it has {_listed(found)}" if found else ""
        raise BadInputError(f"{path} has no {what} {wanted} that runs llama-server{has}")
    if not found and others:
        raise BadInputError(
            f"{path} has no {what} that is known to run llama-server; if one does, give it as "
            f"{path}:NAME, with {_listed(list(others))}"
        )
    if not found:
        raise BadInputError(f"{path} has no {what} that runs llama-server; give another file")
    if len(found) > 1:
        raise SeveralError(
            found,
            f"{path} has {len(found)} {what}s that run llama-server; give one of them as "
            f"{path}:NAME, with {_listed(found)}",
        )
    return found[0]


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_SHOWN
    shown = ", ".join(names[:_MOST_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
