"""The home folder in commands: ``~`` stays, since it depends on the user who starts the command.

A leading ``~`` in paths, programs and variables that were read is the home folder. It is refused
where a shell would not expand it. Only where spectui itself opens files, ``~`` is replaced by the
home folder of its user.
"""

import os.path
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from spectui.commands.items import Item, divide
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from spectui.commands.command import ServerCommand

_MARK = "\0"
HOME = f"{_MARK}~"
"""Stands for the home folder in words before ``divide``; NUL cannot be part of a word."""
_AT_HOME = re.compile(r"~(?=/|\Z)")


def is_at_home(path: str) -> bool:
    """Whether a path that was read begins with the home folder."""
    return _AT_HOME.match(path) is not None


def path_of(word: str) -> str:
    """The path in a word of a command.

    Raises:
        BadInputError: the home folder is not at its beginning, or ``~`` is not expanded there.
    """
    path = word.removeprefix(_MARK)
    if _MARK in path:
        raise _misplaced(word)
    if path == word and is_at_home(path):
        raise BadInputError(
            f"{path} is not in the home folder: only a shell replaces ~, and not in quotes; write "
            "the whole path, or leave out the quotes"
        )
    return path


def _misplaced(text: str) -> BadInputError:
    return BadInputError(
        f"{text_of(text)} has a home folder, which only a shell knows, where no path is known to "
        "belong; put there the folder that it stands for"
    )


def text_of(word: str) -> str:
    """A word as it stood in the command, for messages."""
    return word.replace(_MARK, "")


def with_paths_read(item: Item) -> Item:
    """The item with ``path_of`` applied to the paths among its values.

    Raises:
        BadInputError: the home folder is no path here.
    """
    if item.is_path and len(item.words) > 1:
        return item.with_values(tuple(map(path_of, item.values)))
    if any(_MARK in word for word in item.words):
        raise _misplaced(item.text)
    return item


def shell_word(path: str) -> str:
    """A path, a program or a variable's value as a word of a shell, which knows the home folder."""
    if not is_at_home(path):
        return shlex.quote(path)
    rest = path[2:]
    return f"{path[:2]}{shlex.quote(rest) if rest else ''}"


def shell_words(items: Iterable[Item]) -> Iterator[str]:
    """Yield the words of items, quoted for a shell."""
    for item in items:
        is_path = item.is_path and len(item.words) > 1
        yield shlex.quote(item.words[0])
        yield from map(shell_word if is_path else shlex.quote, item.words[1:])


def shell_line(words: Sequence[str]) -> str:
    """Arguments that were read as they are written for a shell."""
    return " ".join(shell_words(divide(words)))


def own_path(path: str) -> str:
    """A path as spectui opens it: with its user's home folder."""
    return os.path.expanduser(path) if is_at_home(path) else path  # noqa: PTH111 - text stays as it is


def places_at_home(command: "ServerCommand") -> tuple[str, ...]:
    """Paths, programs and variables of a command that begin with the home folder."""
    values = (value for item in command.items if item.is_path for value in item.values)
    words = (word.partition("=")[2] or word for word in command.ahead)
    return tuple(filter(is_at_home, (*values, *words)))
