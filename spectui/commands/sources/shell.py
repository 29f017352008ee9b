"""Finds the one command that starts llama-server in a shell command or a script."""

import os.path
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.commands.finding import note
from spectui.commands.home import is_at_home, path_of
from spectui.commands.programs import SERVER, names_server
from spectui.commands.sources.containers import Container, docker_run, outside
from spectui.commands.sources.files import chosen
from spectui.commands.sources.pasted import MOST_CHARACTERS
from spectui.commands.sources.shell_script import Session
from spectui.commands.sources.shell_words import Environment, Script
from spectui.commands.sources.source import (
    CONTAINERS,
    before_arguments,
    below,
    check_program,
    command_of,
    left_out,
)
from spectui.errors import BadInputError

_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})


def read_shell(
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    script: Path | None = None,
    wanted: str | None = None,
) -> ServerCommand:
    """Read a shell command, or a script of one that starts llama-server.

    Args:
        text: typed, or out of a file.
        variables: what is exported already.
        script: the file that it stands in; None for what is typed.
        wanted: the line on which the command starts, of several; None for the only one.

    Raises:
        BadInputError: it holds several such commands, is larger than a command can be, or a
            construct decides what is run.
    """
    if len(text) > MOST_CHARACTERS:
        raise BadInputError("the command is too large; give one that a server can be given")
    environment = Environment(variables or {})
    environment |= {f"export {name}": "" for name in variables or {}}
    session = Session(Script(text, str(script or "")), environment)
    session.walk(session.script.root)
    if not session.candidates:
        raise session.unread or BadInputError(
            "it names llama-server, but none of its commands starts one; give the command that does"
            if SERVER in text
            else "the command has no arguments; give one such as llama-server -m FILE"
        )
    found = session.candidates
    named = [one for one in found if one.is_server] or found
    line = chosen([str(one.line) for one in named], wanted, script, "command")
    one = next(one for one in named if str(one.line) == line)
    server = unwrapped(one.words, one.variables, one.folder)
    beside = " ".join(filter(None, one.beside))
    remarks = [*server.remarks, *([left_out(beside)] if beside else [])]
    if one.takes_caller:
        what = '"$@" stands for nothing here'
        why = "what the caller of the script gives it besides is not known"
        remarks.append(note('"$@"', what, why))
    server = replace(server, remarks=tuple(remarks))
    # A container has its own folder.
    is_inside = server.inside is not None or not one.folder
    return server if is_inside else below(server, path_of(one.folder))


def unwrapped(
    words: Sequence[str], variables: Mapping[str, str], folder: str = ""
) -> ServerCommand:
    """The command that a shell or container started by these words would run.

    Args:
        words: words of the command.
        variables: variables that reach it from outside.
        folder: base of a container's relative folders; empty for the present one.

    Raises:
        BadInputError: as ``read_shell``.
    """
    shell = _shell(words)
    if shell is not None:
        own = {m[1]: m[2] for m in map(ASSIGNMENT.fullmatch, words[:shell]) if m is not None}
        before = (word for word in words[:shell] if ASSIGNMENT.fullmatch(word) is None)
        if len(words) > shell + 3:
            raise BadInputError(
                f"{words[shell]} gives its command more words; write them into the command"
            )
        inner = read_shell(words[shell + 2], {**variables, **own})
        prelude = (*map(before_arguments, before), *inner.prelude)
        check_program(prelude)
        return replace(inner, prelude=prelude)
    container = docker_run(words)
    if container is None:
        return command_of(words, variables)
    # What surrounds it stays outside.
    at = path_of(folder)
    return contained(container, Path(at) if is_at_home(at) else Path.cwd() / at)


def contained(container: Container, folder: Path) -> ServerCommand:
    """The command that a container runs, with the host's paths where it mounts them.

    Args:
        container: with its definition.
        folder: where its relative paths start.

    Raises:
        BadInputError: as ``read_shell``.
    """
    inner = unwrapped(container.words, container.environment)
    inner = replace(inner, entries=(container.entry(inner.prelude, folder),))
    return outside(inner, container.mounts, folder)


def _shell(words: Sequence[str]) -> int | None:
    """Index of a shell's command-string argument, before any other program."""
    for n, word in enumerate(words[:-2]):
        if os.path.basename(word) in _SHELLS:  # noqa: PTH119 - text, not a path
            return n if re.fullmatch(r"-[a-z]*c", words[n + 1]) else None
        if names_server([word]) or os.path.basename(word) in CONTAINERS:  # noqa: PTH119 - as above
            return None
    return None
