"""Finds the one command that starts llama-server in a shell command or a script."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.commands.command import ServerCommand
from spectui.commands.finding import note
from spectui.commands.home import path_of
from spectui.commands.programs import is_server_today, names_server
from spectui.commands.sources.containers import runs_container, started
from spectui.commands.sources.files import PLACEHOLDER, chosen
from spectui.commands.sources.pasted import MOST_CHARACTERS
from spectui.commands.sources.shell_script import Flow, ancestors
from spectui.commands.sources.shell_words import Script, words_of
from spectui.commands.sources.source import CONTAINERS, NO_SERVER, resolved_from
from spectui.errors import BadInputError

if TYPE_CHECKING:
    from tree_sitter import Node

_ASIDE = frozenset(
    {":", "true", "echo", "printf", "mkdir", "sleep", "ulimit", "umask", "trap", "shopt", "wait"}
    | {"false", "test", "[", "module", "conda", "systemctl", "service", "exit", "return", "logout"}
    | {"chmod", "chown", "rm", "mv", "cp", "ln", "install", "cat", "tee", "ls", "which", "type"}
    | {"kill", "pkill", "killall", "pgrep", "grep", "tail", "break", "continue", "journalctl"}
    | {"cd", "set", "git", "cmake", "make", "ninja", "apt", "apt-get", "dnf", "pacman", "brew"}
)
"""Commands beside the server's start in scripts, or that only mention a program."""
_ASSUMING = frozenset({"sudo", "doas"})
_CALLER = re.compile(r"\$\{?@")


def read_shell(text: str, script: Path | None, wanted: str | None) -> ServerCommand:
    """Read a shell command, or a script of one that starts llama-server.

    Args:
        text: typed, or out of a file. Variables alone stand for llama-server with these.
        script: the file that it stands in; None for what is typed.
        wanted: the line on which the command starts, of several; None for the only one.

    Raises:
        BadInputError: it holds several such commands, is larger than a command can be, or a
            construct decides what is run.
    """
    if len(text) > MOST_CHARACTERS:
        raise BadInputError("the text is too large; give the command that starts llama-server")
    flow = Flow(Script(text, str(script or "")))
    found = _starting(flow)
    lines = [str(node.start_point.row + 1) for node, _words in found]
    node, words = found[lines.index(chosen(lines, wanted, script, "command"))]
    flow.check(node)
    name = words_of(node.children)[0]
    folder = flow.expander.below("", name)
    server = started(words, flow.variables(name, flow.own(node)), folder)
    _check_beside(flow.script, node)
    if _CALLER.search(flow.script.source(node)):
        why = "what the caller of the script gives it besides is not known"
        remark = note('"$@"', '"$@" stands for nothing here', why)
        server = replace(server, remarks=(*server.remarks, remark))
    # A container has its own folder.
    is_inside = server.inside is not None or not folder
    return server if is_inside else resolved_from(server, path_of(folder))


def _starting(flow: Flow) -> list[tuple["Node", list[str]]]:
    """The commands that start llama-server, with their words; without any, those that may do so.

    Raises:
        BadInputError: their words are known at run time only, or there is none.
    """
    found: list[tuple[Node, list[str]]] = []
    unread: BadInputError | None = None
    is_list = bool(flow.commands) and flow.script.source(flow.commands[0]).startswith("-")
    for node in flow.commands:
        if flow.script.source(node).startswith("-") and not is_list:
            raise flow.script.refusal(
                node,
                "it begins with an option, but no backslash ends the line before, or that is a "
                "remark, so that the command ends there for a shell",
                "put a backslash there, and no remarks between",
            )
        try:
            words = flow.expander.words(words_of(node.children))
        except BadInputError as error:
            words = flow.script.source(node).split()
            if is_list or (names_server(words) and not _is_aside(words)):
                flow.check(node)
                raise
            unread = error
            continue
        if not words or _is_aside(words) or _is_of_function(flow, node, words):
            continue
        before = node.prev_sibling
        if is_list and found and (before is None or before.type != ";"):
            # No line of a list of arguments is a command.
            found[-1][1].extend(words)
        else:
            found.append((node, words))
    if not found:
        raise unread or BadInputError(NO_SERVER)
    named = [one for one in found if names_server(one[1]) and CONTAINERS.isdisjoint(one[1])]
    return named or [one for one in found if runs_container(one[1])] or found


def _is_of_function(flow: Flow, node: "Node", words: Sequence[str]) -> bool:
    """Whether a command calls a function or stands in one, where no server may be started."""
    is_in_one = any(one.type == "function_definition" for one in ancestors(node))
    is_of_function = is_in_one or words[0] in flow.functions
    if is_of_function and (names_server(words) or any(map(is_server_today, words))):
        raise flow.script.refusal(node, "a function starts llama-server")
    return is_of_function


def _is_aside(words: Sequence[str]) -> bool:
    """Whether a command is a side step of the script, not the server's start."""
    first, *others = words
    if first in _ASSUMING and others:
        first = others[0]
    is_asking = first == "command" and others[:1] in (["-v"], ["-V"])
    return is_asking or first in _ASIDE or (first == "exec" and not others)


def _check_beside(script: Script, node: "Node") -> None:
    """Refuse redirections, pipes and signs beside a command that give it more words.

    Raises:
        BadInputError: there is such a one, or one that is not a shell's.
    """
    for whole, around in pairwise(ancestors(node)):
        sign = whole.next_sibling
        if sign is not None and sign.type in {";", "&"} and whole.type != "compound_statement":
            _check_end(script, sign)
        for one in around.children_by_field_name("redirect"):
            has_more = len(one.children_by_field_name("destination")) > 1
            if has_more or PLACEHOLDER.match(script.text, one.start_byte):
                raise script.foreign(one.start_byte)
        if around.type == "pipeline" and around.children[0] != whole:
            raise script.refusal(around, "what stands in front of a pipe gives it more words")


def _check_end(script: Script, sign: "Node") -> None:
    at = sign.start_byte
    around = f"{script.text[at - 1 : at]}{script.text[at + 1 : at + 2]}"
    if len(around.strip()) > 1:
        raise script.refusal(
            sign,
            f"{sign.type!r} in the midst of a word ends the command for a shell",
            "put the word in quotes, or blanks around the sign",
        )
