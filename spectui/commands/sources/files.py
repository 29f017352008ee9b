"""Reads files that hold commands, chooses one entry of several, and names text that is not read."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spectui.errors import BadInputError
from spectui.files import read_file, unreadable
from spectui.format import first_of

MOST_BYTES = 1 << 20
"""Maximum number of bytes of a file with a command: a larger one is a model, or something else."""
Tree = Mapping[str, Any]

_MOST_REPLACED = 100_000
_MOST_SHOWN = 8
INSTEAD = (
    "spectui does not interpret that; give the plain command, or pid:NUMBER of the running server"
)
_IN_ITS_PLACE = "put there what it stands for"
_UNREAD_FILES = {
    "a systemd unit": r"\A(?:[ \t]*(?:[#;][^\n]*)?\n)*[ \t]*(?:\[(?:Unit|Service)\]|ExecStart *=)",
    "a Kubernetes file": r"(?m)^kind[ \t]*:[ \t]*[A-Z]",
    "a Dockerfile": r"\A(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:FROM|ARG|ENV|CMD|ENTRYPOINT)[ \t]",
    "a script for a shell of Windows": (
        r"(?im)^[ \t]*(?:@echo[ \t]+off\b|set[ \t]+\"?\w+=|\$(?:env:)?\w+[ \t]*=)"
    ),
    "JSON": r"\A\s*(?:\[\s*\"[^\"\n]*\"\s*[,\]]|\{\s*\")",
}
"""Files that hold commands and are not read."""
_LONGEST_EXCERPT = 60
PLACEHOLDER = re.compile(r"<(?:[A-Za-z][^<>\n;&|]*[^\s<>0-9&;|]|[A-Za-z][\w.-]*)>")
_FOREIGN = (
    (rf"\[[A-Z][A-Z0-9_ -]*\]|{PLACEHOLDER.pattern}", f"a placeholder; {_IN_ITS_PLACE}"),
    (
        r"%\w+%|\$env:\w*|\\[A-Za-z0-9][^ \t\n]*",
        "for a shell of Windows; write \\ at the ends of lines, and quotes around paths",
    ),
    (r"['\"]", "a quote without its end; close it"),
    (
        r"\$?\(\([^()\n]*(?:\)\))?|\$\([^()\n]*\)?|`[^`\n]*`?|\$\{[^}\n]*\}?|\$[\w@*#?!-]",
        "what only a shell knows",
    ),
    (
        r"[<>]+(?:\([^()\n]*\)?|[^ \t\n;&|<>]*)|[^ \t\n;&|<>]+|.?",
        "for the shell (if not, put it in quotes)",
    ),
)
"""Patterns of text that stands for something else to a shell, with descriptions."""


def text_of_file(path: Path) -> str:
    """Text of a regular file of at most ``MOST_BYTES``.

    Raises:
        BadInputError: it cannot be read, is a device or a pipe, too large, or no text.
    """
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise unreadable(path, error, "give a file that holds a command") from error
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
        path: path of the file; None for typed text, whose entries have no names.
        what: noun for an entry, such as ``service``.

    Raises:
        BadInputError: there is none of that name, none at all, or several and none was named.
    """
    found = list(names)
    if wanted in found or (wanted is None and len(found) == 1):
        return wanted or found[0]
    listed = first_of(found, _MOST_SHOWN)
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


def check_file(text: str, name: str = "it") -> None:
    """Refuse a text of a kind that spectui does not read.

    Raises:
        BadInputError: it is of such a kind; names other ways to give the command.
    """
    for what, pattern in _UNREAD_FILES.items():
        if re.search(pattern, text) is not None:
            raise BadInputError(
                f"{name} is {what}, which spectui does not read; give the plain command, or "
                "pid:NUMBER of the running server"
            )


def why_foreign(text: str, at: int) -> tuple[str, str]:
    """Describe the text at an index that only a shell can evaluate; and what to do about it."""
    # Compiled here, since few commands are refused.
    patterns = ((re.compile(pattern, re.IGNORECASE), what) for pattern, what in _FOREIGN)
    found = ((pattern.match(text, at), what) for pattern, what in patterns)
    excerpt, meaning = next((m[0], what) for m, what in found if m is not None)
    what, _, remedy = meaning.partition("; ")
    return f"{excerpt_of(excerpt)} is {what}", remedy or INSTEAD


def excerpt_of(text: str) -> str:
    """An excerpt of the command for a message."""
    text = text.strip()
    return repr(text if len(text) <= _LONGEST_EXCERPT else f"{text[:_LONGEST_EXCERPT]}…")
