"""Finds a llama-server command in what a person types into a shell, or keeps in a script."""

import dataclasses
import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spectui.errors import BadInputError
from spectui.export.server_options import PREFIX
from spectui.export.sources.container import Container
from spectui.export.sources.docker import docker_run
from spectui.export.sources.mounts import outside
from spectui.export.sources.shell_command import ShellCommand
from spectui.export.sources.shell_patterns import expanded
from spectui.export.sources.shell_variables import ShellVariables
from spectui.export.sources.shell_words import shell_commands
from spectui.export.sources.source import ASSIGNMENT, CONTAINERS, Source, names_server, source_of

_SETTING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_ASIDE = frozenset(
    {"set", "source", ".", "ulimit", "umask", "shopt", "trap", "echo", "printf", "module", "conda"}
    | {"sleep", "mkdir", "unset", "alias", "exit", "return", "wait", ":", "test", "[", "[[", "(("}
    | {"case", "true", "false", "shift", "break", "continue", "popd", "chmod", "chown", "rm", "mv"}
    | {"cp", "ln", "install", "cat", "tee", "ls", "which", "command", "type", "kill", "pkill"}
    | {"killall", "pgrep", "grep", "tail", "systemctl", "service", "journalctl"}
)
"""Commands that scripts have beside the one that matters, or that speak of a program."""
_ASSUMING = frozenset({"sudo", "doas"})
"""What stands before such a command."""
_READING = frozenset({"for", "select", "read", "getopts", "mapfile", "readarray"})
"""Commands that set variables to what only running them would tell."""
_READ_BESIDES = ("OPTARG", "OPTIND", "REPLY")
_MOVING = frozenset({"cd", "pushd"})
_BACK = "-"
_SEPARATING = re.compile(r"[\s'\"=;|&()]+")
_REMARK = re.compile(r"(?m)^[ \t]*#.*$")
_ALL = frozenset({"-a", "allexport"})
"""What makes a shell export all that it sets."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A command that may be the one, and what is known where it stands."""

    command: ShellCommand
    reaching: Mapping[str, str]
    """Variables that it sees."""
    folder: str | None


def shell_source(
    text: str, variables: Mapping[str, str] | None = None, *, script: Path | None = None
) -> Source:
    """Read a shell command or a script of one command, with what it sets before.

    Args:
        text: typed, or out of a file.
        variables: what is set already, besides the environment.
        script: the file that it stands in; None for what is typed.

    Raises:
        BadInputError: unbalanced quotes, more than one command, a container, a command within the
            command, or a variable that is not set.
    """
    known = ShellVariables(variables or {})
    read = list(_found(text, known, script))
    one = _only([found for found in read if found is not None])
    if one is None and read and names_server(_SEPARATING.split(_REMARK.sub("", text))):
        raise BadInputError(
            "it names llama-server, but none of its commands starts one; give the command that does"
        )
    if one is None:
        # A file of assignments alone is an environment.
        return unwrapped((), known.values)
    words = tuple(expanded(one.command.parts, one.folder))
    return _in_folder(unwrapped(words, one.reaching, one.folder), one.folder)


def _found(text: str, known: ShellVariables, script: Path | None) -> Iterator[_Found | None]:
    """Yield the commands that may be meant, and None for others; keep what those set."""
    exported = dict.fromkeys(known.values)
    exports_all = False
    for command in shell_commands(text, known, script=script):
        words = command.words
        first = next((w for w in words if not ASSIGNMENT.fullmatch(w)), "")
        settings = _settings(words)
        exports_all = exports_all or (first == "set" and not _ALL.isdisjoint(words[1:]))
        if settings is not None:
            for name, value in settings.items():
                known.assign(name, value if command.trouble is None else None)
            is_export = exports_all or first == "export"
            names = (*settings, *words[1:]) if is_export else filter(_is_read, settings)
            exported |= dict.fromkeys(names)
        elif first in _READING:
            for name in (*words[1:], *_READ_BESIDES):
                known.assign(name, None)
        elif first in _MOVING:
            known.move(_folder(command))
        elif first == "popd":
            known.move(None)
        elif _is_aside(words):
            yield None
        else:
            yield _Found(command=command, reaching=known.of(exported), folder=known.folder)


def _folder(command: ShellCommand) -> str | None:
    """Where a ``cd`` goes; None for what is not known."""
    places = [word for word in command.words[1:] if not word.startswith("-") or word == _BACK]
    if command.trouble is not None or len(places) > 1 or _BACK in places:
        return None
    return os.path.expanduser(places[0] if places else "~")  # noqa: PTH111 - as a shell does


def _in_folder(source: Source, folder: str | None) -> Source:
    """With paths from where the script has gone; a container has its own.

    Raises:
        BadInputError: nobody knows where, and a path depends on it.
    """
    if folder is not None:
        return source.below(folder) if folder and not source.is_contained else source
    if source.below("/") != source:
        raise BadInputError(
            "the script goes to a folder that only running it would tell; give its paths in full"
        )
    return source


def _is_aside(words: Sequence[str]) -> bool:
    at = int(words[0] in _ASSUMING)
    return words[at : at + 1] == () or words[at] in _ASIDE


def unwrapped(
    words: Sequence[str], variables: Mapping[str, str], folder: str | None = None
) -> Source:
    """A command that is no text any more, out of the shell or container that may run it.

    Args:
        words: of the command.
        variables: what reaches it from around it.
        folder: where a container's relative folders start; None for here.

    Raises:
        BadInputError: as ``shell_source``.
    """
    shell = _shell(words)
    if shell is not None:
        inner = shell_source(words[shell + 2], variables)
        outer = (*words[:shell], *inner.prelude, *inner.words)
        source = source_of(outer, dict((*inner.environment, *inner.variables)))
        return dataclasses.replace(source, inside=inner.inside, entries=inner.entries)
    container = docker_run(words, Path.cwd() / (folder or ""))
    if container is None:
        return source_of(words, variables)
    # What surrounds it stays outside.
    return outside(inside(container), container.mounts)


def inside(container: Container) -> Source:
    """What a container runs, as it is written there.

    Raises:
        BadInputError: as ``shell_source``.
    """
    source = unwrapped(container.words, container.environment)
    return dataclasses.replace(source, entries=(container.entry(source.prelude),))


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


def _only(found: Sequence[_Found]) -> _Found | None:
    """The command that starts the server; None where variables alone are set.

    Raises:
        BadInputError: there are several, or the shell would have to do more than start it.
    """
    named = [one for one in found if names_server(one.command.words)]
    candidates = named or found
    if len(candidates) > 1:
        first = " ".join(candidates[0].command.words)[:40]
        raise BadInputError(
            f"there are {len(candidates)} commands, of which one is {first!r}; give the part that "
            f"starts llama-server alone"
        )
    if not candidates:
        return None
    [one] = candidates
    if one.command.trouble is not None:
        raise one.command.trouble
    return one


def _settings(words: Sequence[str]) -> dict[str, str] | None:
    """What a command that only sets variables sets; None for any other."""
    is_keyword = words[0] in _SETTING
    matches = [ASSIGNMENT.fullmatch(word) for word in words]
    if not is_keyword and not all(matches):
        return None
    return {match[1]: match[2] for match in matches if match is not None}
