"""Finds llama-server's own arguments in what a person types into a shell."""

import os.path
import re
import shlex
from itertools import takewhile
from pathlib import PurePath

from spectui.errors import BadInputError
from spectui.export.names import BY_VARIABLE, Option

_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\(?:\r\n|.)""", re.DOTALL)
_CONTINUED = re.compile(r"\\(\r?\n|.)", re.DOTALL)
_LEADING_COMMENTS = re.compile(r"\A(?:\s*#[^\n]*(?:\n|\Z))+")
_SHELL = re.compile(r"(?:^|\s)(?:[|&;]|\d*[<>])\S*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PROGRAMS = frozenset({"llama-server", "llama-server.exe"})
_CONTAINERS = frozenset({"docker", "docker-compose", "podman"})
_TRUE = frozenset({"on", "enabled", "true", "1"})


def server_arguments_of(text: str) -> list[str]:
    """What llama-server is told, variables before it included, in their order of effect.

    Raises:
        BadInputError: unbalanced quotes, more than one command, a container, or a ``LLAMA_ARG_``
            variable that spectui does not know.
    """
    return _arguments(_words(text))


def _words(text: str) -> list[str]:
    """Split as a shell does.

    Raises:
        BadInputError: unbalanced quotes, or more than one command.
    """
    text = _LEADING_COMMENTS.sub("", text, count=1)
    text = _QUOTED.sub(_joined, text)
    operator = _SHELL.search(_QUOTED.sub("_", text))
    if operator is not None:
        raise BadInputError(
            f"the command contains {operator[0].strip()!r}, which is for the shell; "
            f"give the part that starts llama-server alone"
        )
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInputError(
            f"the command cannot be read ({str(error).lower()}); check its quotes"
        ) from error
    return [os.path.expanduser(w) if w.startswith("~/") else w for w in words]  # noqa: PTH111 - not only paths


def _joined(quoted: re.Match[str]) -> str:
    """Quoted text without the line ends that a backslash hides; they hide nothing in ``'``."""
    if quoted[0].startswith("'"):
        return quoted[0]
    return _CONTINUED.sub(lambda m: "" if m[1] in {"\n", "\r\n"} else m[0], quoted[0])


def _arguments(words: list[str]) -> list[str]:
    """The arguments, after what the variables before them say.

    Raises:
        BadInputError: a container is started, or a variable is unknown.
    """
    bare = takewhile(lambda word: not word.startswith("-"), words)
    if any(PurePath(word).name in _CONTAINERS for word in bare):
        raise BadInputError(
            "the command starts a container; give llama-server's own part of it, with paths as "
            "they are on this machine"
        )
    start = _first_argument(words)
    # An argument wins over its variable, and the later of two arguments wins.
    return [*_variables(words[:start]), *words[start:]]


def _first_argument(words: list[str]) -> int:
    """Index of the first word after the program; the program may be left out."""
    named = [n for n, word in enumerate(words) if PurePath(word).name in _PROGRAMS]
    if named:
        return named[0] + 1
    is_prelude = (word == "env" or _ASSIGNMENT.fullmatch(word) is not None for word in words)
    first = next((n for n, prelude in enumerate(is_prelude) if not prelude), len(words))
    has_program = first < len(words) and not words[first].startswith("-")
    return first + has_program


def _variables(words: list[str]) -> list[str]:
    """``LLAMA_ARG_*`` assignments as arguments; other words there concern llama-server not.

    Raises:
        BadInputError: spectui does not know one.
    """
    arguments: list[str] = []
    for match in filter(None, map(_ASSIGNMENT.fullmatch, words)):
        variable, value = match.groups()
        option = BY_VARIABLE.get(variable)
        if option is not None:
            arguments += _assigned(option, variable, value)
        elif variable.startswith("LLAMA_ARG_"):
            raise BadInputError(
                f"spectui does not know the variable {variable}; give it as an option instead"
            )
    return arguments


def _assigned(option: Option, variable: str, value: str) -> list[str]:
    if not option.is_switch:
        return [option.long_flag, value]
    # llama-server looks only whether a LLAMA_ARG_NO_ variable is there.
    is_on = value in _TRUE or variable.startswith("LLAMA_ARG_NO_")
    return [option.long_flag] if is_on else []
