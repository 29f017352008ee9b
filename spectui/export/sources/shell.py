"""Finds a llama-server command in what a person types into a shell, or keeps in a script."""

import os
import os.path
from collections.abc import Mapping, Sequence

from spectui.errors import BadInputError
from spectui.export.server_options import PREFIX
from spectui.export.sources.docker import docker_run
from spectui.export.sources.mounts import outside
from spectui.export.sources.shell_words import shell_commands
from spectui.export.sources.source import ASSIGNMENT, Source, names_server, source_of

_SETTING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_ASIDE = frozenset(
    {"set", "cd", "pushd", "source", ".", "ulimit", "umask", "shopt", "trap", "echo", "printf"}
    | {"module", "conda", "sleep", "mkdir", "unset", "alias", "exit"}
)
"""Commands that scripts have beside the one that matters."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})


def shell_source(text: str) -> Source:
    """Read a shell command or a script of one command, with what it sets before.

    Raises:
        BadInputError: unbalanced quotes, more than one command, a container, a command within the
            command, or a variable that is not set.
    """
    assigned: dict[str, str] = {}
    folder = None
    found: list[Sequence[str]] = []
    for words in shell_commands(text, assigned):
        settings = _settings(words)
        if settings is not None:
            assigned |= settings
        elif words[0] == "cd" and len(words) > 1:
            folder = os.path.expanduser(words[1])  # noqa: PTH111 - a path for os.path.join
        elif words[0] not in _ASIDE:
            found.append(words)
    source = unwrapped(_home(_only(found, assigned)), assigned)
    return source if folder is None else source.below(folder)


def unwrapped(words: Sequence[str], variables: Mapping[str, str]) -> Source:
    """A command that is no text any more, out of the shell or container that may run it.

    Raises:
        BadInputError: as ``shell_source``.
    """
    if len(words) > 2 and os.path.basename(words[0]) in _SHELLS and words[1].startswith("-"):  # noqa: PLR2004, PTH119 - sh -c TEXT
        inner = shell_source(words[2])
        own = {name: v for name, v in variables.items() if name.startswith(PREFIX)}
        return source_of((*inner.prelude, *inner.words), own | dict(inner.variables))
    container = docker_run(words)
    if container is None:
        return source_of(words, variables)
    # What surrounds it stays outside.
    return outside(unwrapped(container.words, container.environment), container.mounts)


def _only(found: Sequence[Sequence[str]], assigned: Mapping[str, str]) -> Sequence[str]:
    """The command that starts the server; none where variables alone are set."""
    named = [words for words in found if names_server(words)]
    candidates = named or found
    if len(candidates) > 1:
        first = " ".join(candidates[0])[:40]
        raise BadInputError(
            f"there are {len(candidates)} commands, of which one is {first!r}; give the part that "
            f"starts llama-server alone"
        )
    if not candidates and not any(name.startswith(PREFIX) for name in assigned):
        return ()
    return candidates[0] if candidates else ()


def _settings(words: Sequence[str]) -> dict[str, str] | None:
    """What a command that only sets variables sets; None for any other."""
    is_keyword = words[0] in _SETTING
    matches = [ASSIGNMENT.fullmatch(word) for word in words]
    if not is_keyword and not all(matches):
        return None
    return {match[1]: match[2] for match in matches if match is not None}


def _home(words: Sequence[str]) -> list[str]:
    return [os.path.expanduser(w) if w.startswith("~/") else w for w in words]  # noqa: PTH111 - not only paths
