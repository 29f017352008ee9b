"""Finds a llama-server command in what a person types into a shell, or keeps in a script."""

import dataclasses
import os.path
import re
from collections.abc import Mapping, Sequence

from spectui.errors import BadInputError
from spectui.export.server_options import PREFIX
from spectui.export.sources.docker import docker_run
from spectui.export.sources.mounts import outside
from spectui.export.sources.shell_words import ShellCommand, shell_commands
from spectui.export.sources.source import ASSIGNMENT, CONTAINERS, Source, names_server, source_of

_SETTING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_ASIDE = frozenset(
    {"set", "cd", "pushd", "source", ".", "ulimit", "umask", "shopt", "trap", "echo", "printf"}
    | {"module", "conda", "sleep", "mkdir", "unset", "alias", "exit", "wait", ":", "test", "["}
    | {"[[", "if", "for", "while", "until", "case", "select", "fi", "done", "esac", "}"}
)
"""Commands that scripts have beside the one that matters."""
_ALL = frozenset({"-a", "allexport"})
"""What makes a shell export all that it sets."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})


def shell_source(text: str, variables: Mapping[str, str] | None = None) -> Source:
    """Read a shell command or a script of one command, with what it sets before.

    Args:
        text: typed, or out of a file.
        variables: what is set already, besides the environment.

    Raises:
        BadInputError: unbalanced quotes, more than one command, a container, a command within the
            command, or a variable that is not set.
    """
    assigned: dict[str, str | None] = {**(variables or {})}
    exported = set(variables or {})
    exports_all = False
    folder = None
    found: list[ShellCommand] = []
    for command in shell_commands(text, assigned):
        words = command.words
        settings = _settings(words)
        exports_all = exports_all or (words[0] == "set" and not _ALL.isdisjoint(words[1:]))
        if settings is not None:
            is_unknown = command.is_conditional or command.trouble is not None
            assigned |= dict.fromkeys(settings, None) if is_unknown else settings
            exported |= {*settings, *words[1:]} if exports_all or words[0] == "export" else set()
        elif words[0] == "cd" and len(words) > 1:
            folder = words[1]
        elif words[0] not in _ASIDE:
            found.append(command)
    # A file of assignments alone is an environment.
    reaching = {
        name: value
        for name, value in assigned.items()
        if value is not None and (not found or name in exported or _is_read(name))
    }
    source = unwrapped(_only(found), reaching)
    return source if folder is None else source.below(folder)


def unwrapped(words: Sequence[str], variables: Mapping[str, str]) -> Source:
    """A command that is no text any more, out of the shell or container that may run it.

    Raises:
        BadInputError: as ``shell_source``.
    """
    shell = _shell(words)
    if shell is not None:
        inner = shell_source(words[shell + 2], variables)
        outer = (*words[:shell], *inner.prelude, *inner.words)
        source = source_of(outer, dict((*inner.environment, *inner.variables)))
        return dataclasses.replace(source, is_contained=inner.is_contained)
    container = docker_run(words)
    if container is None:
        return source_of(words, variables)
    # What surrounds it stays outside.
    return outside(unwrapped(container.words, container.environment), container.mounts)


def _is_read(variable: str) -> bool:
    """Whether llama-server reads it; who sets it means that, exported or not."""
    return variable.startswith(PREFIX)


def _shell(words: Sequence[str]) -> int | None:
    """Index of a shell that is given its commands as an argument, before any other program."""
    for n, word in enumerate(words[:-2]):
        if os.path.basename(word) in _SHELLS:  # noqa: PTH119 - text, not a path
            return n if re.fullmatch(r"-[a-z]*c", words[n + 1]) else None
        if names_server([word]) or os.path.basename(word) in CONTAINERS:  # noqa: PTH119 - as above
            return None
    return None


def _only(found: Sequence[ShellCommand]) -> Sequence[str]:
    """The command that starts the server; none where variables alone are set.

    Raises:
        BadInputError: there are several, or the shell would have to do more than start it.
    """
    named = [command for command in found if names_server(command.words)]
    candidates = named or found
    if len(candidates) > 1:
        first = " ".join(candidates[0].words)[:40]
        raise BadInputError(
            f"there are {len(candidates)} commands, of which one is {first!r}; give the part that "
            f"starts llama-server alone"
        )
    if not candidates:
        return ()
    [command] = candidates
    if command.trouble is not None:
        raise command.trouble
    return command.words


def _settings(words: Sequence[str]) -> dict[str, str] | None:
    """What a command that only sets variables sets; None for any other."""
    is_keyword = words[0] in _SETTING
    matches = [ASSIGNMENT.fullmatch(word) for word in words]
    if not is_keyword and not all(matches):
        return None
    return {match[1]: match[2] for match in matches if match is not None}
