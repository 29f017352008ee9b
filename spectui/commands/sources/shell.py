"""Finds the one command that starts llama-server in a shell command or a script.

Scripts of simple commands are understood: assignments, ``export``, ``cd``, ``set``, and commands
that change nothing for the server. All that decides or changes what is run is refused by its line.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.commands.finding import Finding
from spectui.commands.home import HOME, is_at_home, path_of, text_of
from spectui.commands.programs import names_server
from spectui.commands.server_options import PREFIX
from spectui.commands.sources.containers import Container, docker_run, outside
from spectui.commands.sources.files import Replacement, SeveralError
from spectui.commands.sources.pasted import MOST_CHARACTERS
from spectui.commands.sources.refusals import INSTEAD
from spectui.commands.sources.shell_text import Assignment, ShellCommand, ShellText, Value
from spectui.commands.sources.source import (
    CONTAINERS,
    before_arguments,
    below,
    check_program,
    command_of,
    left_out,
)
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.secret import hidden
from spectui.severity import Severity

_REFUSED = {
    **dict.fromkeys(("if", "then", "elif", "else", "fi", "case", "esac", "test"), "a condition"),
    **dict.fromkeys(("for", "while", "until", "select", "do", "done"), "a loop"),
    **dict.fromkeys(("break", "continue"), "a part of a loop"),
    **dict.fromkeys(("function", "return", "local", "shift"), "a part of a function"),
    **dict.fromkeys(("!", "{", "}", "coproc"), "a group of commands"),
    **dict.fromkeys(("source", "."), "another script, which may set anything"),
    **dict.fromkeys(("eval", "builtin", "command"), "a command in another's words"),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "let"), "input of the script"),
    **dict.fromkeys(("alias", "unalias", "unset", "enable"), "a change of names"),
    **dict.fromkeys(("pushd", "popd"), "a change of folders other than 'cd'"),
    **dict.fromkeys(("exit", "logout"), "an end of the script"),
}
"""Commands that decide or change what is run, with their descriptions."""
_SETTING = frozenset({"export", "readonly", "declare", "typeset"})
_SUCCEEDING = frozenset(
    {":", "true", "echo", "printf", "mkdir", "sleep", "ulimit", "umask", "trap"}
)
_ASIDE = _SUCCEEDING | frozenset(
    {"shopt", "wait", "false", "module", "conda", "systemctl", "service", "journalctl"}
    | {"chmod", "chown", "rm", "mv", "cp", "ln", "install", "cat", "tee", "ls", "which", "type"}
    | {"kill", "pkill", "killall", "pgrep", "grep", "tail"}
)
"""Commands beside the server's start in scripts, or that only mention a program."""
_ASSUMING = frozenset({"sudo", "doas"})
_HARMLESS = re.compile(r"[-+][euvxEm]*o?|errexit|nounset|pipefail|verbose|xtrace")
"""Options of ``set`` that only print, or end a script."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_TAKE_A_LINE = frozenset({"tmux", "screen", "su", "runuser", "script", "watch", "ssh", "xterm"})
"""Programs that hand a command in one word to a shell."""
_MOST_COMMANDS = 1000
_LONGEST_FOLDER = 4096
_TIMING = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A possible server command, with the shell's state at that point."""

    command: ShellCommand
    reaching: Mapping[str, str]
    """Variables that reach the command."""
    hidden: frozenset[str]
    """Variables of llama-server that are set but not exported."""
    folder: str


class _Session:
    """Variables and folder of a shell between its commands."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.values: dict[str, Value] = dict(variables)
        self._folder = ""
        """Folder after ``cd``; empty if unchanged."""
        self._exported = set(variables)
        self._exports_all = False
        self._added = Replacement()

    def texts(self) -> dict[str, str]:
        """Variables that are no lists, without the folder."""
        values = {name: value for name, value in self.values.items() if isinstance(value, str)}
        return {name: value for name, value in values.items() if name != "PWD"}

    def candidate(self, command: ShellCommand) -> _Candidate:
        """The command with the session's present state."""
        texts = self.texts()
        return _Candidate(
            command=command,
            reaching={name: v for name, v in texts.items() if name in self._exported},
            hidden=frozenset(n for n in texts.keys() - self._exported if n.startswith(PREFIX)),
            folder=self._folder,
        )

    def take(self, command: ShellCommand) -> bool:
        """Apply a command of the shell itself; return whether it is one.

        Raises:
            BadInputError: it is one, but used in an unknown way.
        """
        if not command.words:
            for one in command.assignments:
                self._assign(one, command)
            return True
        first, *words = command.words
        if first not in {"cd", "set", *_SETTING}:
            return False
        if command.assignments:
            raise _refused(command, f"a variable is set for {first!r} alone")
        if first == "cd":
            self._go(words, command)
        elif first == "set":
            self._set(words, command)
        for word in words if first in _SETTING else ():
            name, equals, value = word.partition("=")
            if ASSIGNMENT.fullmatch(f"{name}=") is None:
                raise _refused(command, f"{word!r} is no plain assignment")
            if equals:
                self._assign(Assignment(name=name, value=value, adds=False), command)
            self._exported |= {name} if first == "export" else set()
        return True

    def _assign(self, one: Assignment, command: ShellCommand) -> None:
        before = self.values.get(one.name)
        if before is not None and isinstance(before, str) != isinstance(one.value, str):
            raise _refused(command, f"{one.name} is a text and a list")
        if not one.adds or before is None:
            self.values[one.name] = one.value
        elif isinstance(before, list):
            before.extend(one.value)
        else:
            self.values[one.name] = self._added.of(f"{before}{one.value}")
        self._exported |= {one.name} if self._exports_all else set()

    def _go(self, words: Sequence[str], command: ShellCommand) -> None:
        if len(words) != 1 or words[0].startswith("-") or "CDPATH" in self.values:
            raise _refused(command, "'cd' is known with one folder")
        to = words[0] if words[0].startswith(HOME) else os.path.join(self._folder, words[0])  # noqa: PTH118 - as a shell does
        self._folder = os.path.normpath(to)
        if len(self._folder) > _LONGEST_FOLDER:
            raise _refused(command, "the name of the folder is too long")
        is_at_home = self._folder.startswith(HOME)
        if to.startswith(HOME) and not is_at_home:
            raise _refused(command, "'cd' leads above the home folder, which only a shell knows")
        self.values["PWD"] = self._folder if is_at_home else os.path.abspath(self._folder)  # noqa: PTH100 - links stay

    def _set(self, words: Sequence[str], command: ShellCommand) -> None:
        match words:
            case [("-a" | "+a") as flag] | [("-o" | "+o") as flag, "allexport"]:
                self._exports_all = flag.startswith("-")
            case _ if not all(map(_HARMLESS.fullmatch, words)):
                raise _refused(command, "'set' may change what is run")


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
    session = _Session(variables or {})
    origin = "" if script is None else str(script)
    found = list(_candidates(text, session, origin))
    candidates = [one for one in found if one is not None]
    if not candidates and found:
        raise BadInputError(
            "it names llama-server, but none of its commands starts one; give the command that does"
        )
    if not candidates:
        # A file of assignments alone is an environment.
        return unwrapped((), session.texts())
    one = _only(candidates, origin, wanted)
    own = (f"{name}={value}" for name, value in _own_variables(one))
    server = unwrapped((*own, *one.command.words), one.reaching, one.folder)
    lost = map(_without_quotes, one.command.bare_patterns)
    left = map(left_out, filter(None, [" ".join(one.command.beside)]))
    torn = _torn(one.command.torn)
    server = replace(server, remarks=(*server.remarks, *torn, *lost, *left))
    # A container has its own folder.
    is_inside = server.inside is not None or not one.folder
    return server if is_inside else below(server, path_of(one.folder))


def _candidates(text: str, session: _Session, origin: str) -> Iterator[_Candidate | None]:
    """Yield commands that may start the server, and None for others that name it."""
    changed: ShellCommand | None = None
    """A change of the session within the present chain (``a && b``)."""
    doubtful: ShellCommand | None = None
    """A command that runs only if a previous one succeeded."""
    is_sure, has_server = True, False
    for n, command in enumerate(_connected(ShellText(text, session.values, origin))):
        if n == _MOST_COMMANDS:
            raise _refused(command, f"more than {_MOST_COMMANDS} commands stand before it")
        if session.take(command):
            if command.joint.startswith("|"):
                raise _refused(command, "what stands in front of a pipe changes nothing behind it")
            changed = command
            doubtful = doubtful if is_sure else command
        elif _is_aside(command):
            is_sure = is_sure and command.words[0] in _SUCCEEDING
            if names_server(command.words):
                yield None
        else:
            is_sure, has_server = False, has_server or names_server(command.words)
            yield session.candidate(command)
        if command.joint != "&&":
            lost = changed if command.joint == "&" else doubtful
            if lost is not None and not has_server:
                raise _refused(lost, "whether it takes effect depends on the commands beside it")
            changed, doubtful, is_sure, has_server = None, None, True, False


def _connected(text: ShellText) -> Iterator[ShellCommand]:
    """Yield the commands, each with what the shell makes of it beside running it."""
    piped: ShellCommand | None = None
    """The command whose output the present one reads."""
    for command in text.commands():
        if command.words[:1] == [_TIMING]:
            n_timing = 1 + (command.words[1:2] == ["-p"])
            command.beside.append(" ".join(command.words[:n_timing]))
            del command.words[:n_timing]
        if piped is not None:
            piped.beside += ["|", *map(shlex.quote, command.words), *command.beside]
        head = piped or command
        head.beside += ["&"] if command.joint == "&" else []
        piped = head if command.joint.startswith("|") else None
        yield command


def _is_aside(command: ShellCommand) -> bool:
    """Whether the command is a side step of the script, not the server's start.

    Raises:
        BadInputError: it decides or changes what is run.
    """
    first, *others = command.words
    meaning = _REFUSED.get(first)
    if meaning is not None:
        raise _refused(command, f"{first!r} is {meaning}")
    if first == "printf" and "-v" in others:
        raise _refused(command, "'printf -v' sets a variable")
    if first in _ASSUMING and others:
        first = others[0]
    return first in _ASIDE or (first == "exec" and not others)


def _only(candidates: Sequence[_Candidate], origin: str, wanted: str | None) -> _Candidate:
    """Return the single command that starts the server.

    Raises:
        BadInputError: there are several, or its variables do not reach it.
    """
    named = [one for one in candidates if names_server(one.command.words)] or candidates
    lines = [one.command.place.rpartition(" ")[2] for one in named]
    if wanted is not None and wanted not in lines:
        raise BadInputError(
            f"{origin}: no command that starts llama-server begins on line {wanted}; "
            f"such lines are {', '.join(lines)}"
        )
    if wanted is None and len(named) > 1:
        which = f"as {origin}:LINE, with {', '.join(lines)}" if origin else "without the others"
        raise SeveralError(
            lines if origin else [],
            f"{named[0].command.place}: {len(named)} commands may start llama-server, on the lines "
            f"{', '.join(lines)}; give the one that is meant {which}",
        )
    one = named[0 if wanted is None else lines.index(wanted)]
    for before in candidates[: candidates.index(one)]:
        if before.command.words[0] == "exec":
            raise _refused(before.command, "'exec' ends the script")
    return one


def _own_variables(one: _Candidate) -> Iterator[tuple[str, str]]:
    """Variables that stand before the command.

    Raises:
        BadInputError: one is a list, or those of llama-server do not reach it.
    """
    hidden = one.hidden.difference(assigned.name for assigned in one.command.assignments)
    if hidden:
        raise BadInputError(
            f"{one.command.place}: {min(hidden)} is set before it, but not exported, so that the "
            "program does not get it; write export in front of it"
        )
    for assigned in one.command.assignments:
        if assigned.adds or isinstance(assigned.value, list):
            raise _refused(one.command, f"{assigned.name} is a list or an addition")
        yield assigned.name, assigned.value


def _without_quotes(pattern: str) -> Finding:
    """Remark on a tensor pattern that is taken with the backslashes that its author meant."""
    return Finding(
        flag="-ot",
        severity=Severity.WARNING,
        what=f"-ot {printable(pattern)} has no quotes",
        why="a shell takes the backslashes of it; it is read with them here",
        replacement=f"-ot {shlex.quote(pattern)}",
    )


def _torn(joints: Sequence[tuple[int, bool]]) -> Iterator[Finding]:
    """Yield a remark on the lines that a backslash does not join for a shell."""
    if not joints:
        return
    line, is_remark = joints[0]
    sign = "a remark" if is_remark else "a blank"
    more = f", and on {len(joints) - 1} more" if len(joints) > 1 else ""
    yield Finding(
        flag="\\",
        severity=Severity.ERROR,
        what=f"{sign} stands behind the backslash on line {line}{more}",
        why="only a backslash that ends its line joins it with the next; here the command ends for "
        "a shell, and what follows is another one",
        replacement="\\",
    )


def _refused(command: ShellCommand, what: str) -> BadInputError:
    return BadInputError(f"{command.place}: {what}; {INSTEAD}")


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
        inner = read_shell(words[shell + 2], {**variables, **own})
        prelude = (*map(before_arguments, before), *inner.prelude)
        check_program(prelude)
        return replace(inner, prelude=prelude)
    if _takes_a_line(words):
        inner = read_shell(words[-1])
        outer = [
            word if m is None else f"{m[1]}={hidden(m[1], m[2])}"
            for word, m in ((word, ASSIGNMENT.fullmatch(word)) for word in words[:-1])
        ]
        left = left_out(text_of(shlex.join(outer)))
        return replace(inner, remarks=(*inner.remarks, left))
    at = path_of(folder)
    container = docker_run(words, Path(at) if is_at_home(at) else Path.cwd() / at)
    if container is None:
        return command_of(words, variables)
    # What surrounds it stays outside.
    return outside(inside(container), container.mounts)


def inside(container: Container) -> ServerCommand:
    """The command that a container runs, as written in its definition.

    Raises:
        BadInputError: as ``read_shell``.
    """
    command = unwrapped(container.words, container.environment)
    return replace(command, entries=(container.entry(command.prelude),))


def _takes_a_line(words: Sequence[str]) -> bool:
    """Whether the last word is a command that another program hands to a shell."""
    names = (os.path.basename(word) for word in words[:-1])  # noqa: PTH119 - text, not a path
    is_line = bool(words) and names_server(words[-1].split()) and not names_server(words)
    return is_line and not _TAKE_A_LINE.isdisjoint(names)


def _shell(words: Sequence[str]) -> int | None:
    """Index of a shell's command-string argument, before any other program."""
    for n, word in enumerate(words[:-2]):
        if os.path.basename(word) in _SHELLS:  # noqa: PTH119 - text, not a path
            return n if re.fullmatch(r"-[a-z]*c", words[n + 1]) else None
        if names_server([word]) or os.path.basename(word) in CONTAINERS:  # noqa: PTH119 - as above
            return None
    return None
