"""Detects the kind of a source by its content rather than its name."""

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import psutil

from spectui.commands.command import ServerCommand
from spectui.commands.items import divide
from spectui.commands.sources.compose import read_compose
from spectui.commands.sources.files import text_of_file, yaml_tree
from spectui.commands.sources.routers import ini_sections, read_ini, read_swap
from spectui.commands.sources.shell import read_shell
from spectui.commands.sources.source import OF_LLAMA, PROGRAMS, below, command_of, names_server
from spectui.commands.sources.systemd import is_unit, read_unit
from spectui.errors import BadInputError

_KIND = "pid:"
_MOST_WORDS = 10_000
"""Maximum number of words of a command."""
_FILE = re.compile(
    r"\S+\.(sh|bash|bat|cmd|ps1|service|ya?ml|ini|conf|cfg|env|args|txt|json)(:\S+)?"
)
"""Text that is meant as a file even if there is none."""
_SCRIPT = "#!"
_QUOTED = re.compile(r"'.*'|\".*\"")


def _is_process(text: str) -> bool:
    """Whether the text names a process: ``pid:NUMBER``, or ``pid:`` for the only one."""
    return text.startswith(_KIND) and len(text.split()) == 1


def _read_process(text: str) -> ServerCommand:
    """Read ``pid:NUMBER``, or ``pid:`` for the only running llama-server.

    Raises:
        BadInputError: there is no such process, it is no llama-server, none or several run, or its
            environment may not be read.
    """
    number = text.removeprefix(_KIND)
    if number and not (number.isascii() and number.isdigit()):
        raise BadInputError(f"{text} names no process; write pid: and its number, or pid: alone")
    pid = int(number) if number else _only()
    try:
        process = psutil.Process(pid)
        words, folder, environment = process.cmdline(), process.cwd(), process.environ()
    except (psutil.NoSuchProcess, OverflowError, ValueError) as error:
        raise BadInputError(
            f"there is no process {pid}; give the number of a llama-server that runs"
        ) from error
    except psutil.AccessDenied as error:
        raise BadInputError(
            f"the environment of process {pid} may not be read; run spectui as the user that "
            f"started it"
        ) from error
    if not names_server(words[:1]) and not names_server(words):
        program = words[0] if words else "a part of the kernel"
        raise BadInputError(
            f"process {pid} is no llama-server but {program}; give the number of one"
        )
    variables = {name: v for name, v in environment.items() if name.startswith(OF_LLAMA)}
    return below(command_of(words, variables), folder)


def _only() -> int:
    found = {
        process.pid: " ".join(process.info["cmdline"] or ())
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] in PROGRAMS or names_server((process.info["cmdline"] or ())[:1])
    }
    if not found:
        raise BadInputError(
            "no llama-server runs on this machine; start one, or give its command instead of pid:"
        )
    if len(found) > 1:
        listed = ", ".join(f"pid:{pid}" for pid in sorted(found))
        raise BadInputError(f"{len(found)} llama-servers run; give one of them: {listed}")
    return next(iter(found))


def read_command(text: str) -> ServerCommand:
    """Read a command, ``pid:NUMBER``, a file, or ``FILE:NAME`` for one of several in it.

    Its secrets are hidden.

    Raises:
        BadInputError: it cannot be read, or names no single command.
    """
    try:
        command = _read(text)
    except RecursionError as error:
        raise BadInputError("the command starts itself without an end; give a plain one") from error
    if len(command.arguments) > _MOST_WORDS:
        raise BadInputError("the command has too many words; give a shorter one")
    return command.discreet()


def _read(text: str) -> ServerCommand:
    if _is_process(text):
        return _read_process(text)
    found = _file_and_name(text)
    if found is None:
        if text == "-":
            raise BadInputError("- is no command; give one, or a file that holds one")
        if stat.S_ISDIR(mode := _mode(text)):
            raise BadInputError(f"{text} is a folder; give a command, or a file that holds one")
        if mode and not stat.S_ISREG(mode):
            raise BadInputError(f"{text} is no regular file; give a command, or a file of one")
        if _FILE.fullmatch(text):
            raise BadInputError(f"{text} does not exist; give a command, or a file that holds one")
        return read_shell(text)
    path, wanted = found
    return _of_file(text_of_file(path), path, wanted)


def _of_file(text: str, path: Path, wanted: str | None) -> ServerCommand:
    if is_unit(text):
        return read_unit(text, path, wanted)
    # A script may hold the text of another file.
    is_script = text.startswith(_SCRIPT)
    tree = None if is_script else yaml_tree(text, path)
    if tree is not None and isinstance(tree.get("services"), dict):
        return read_compose(tree, path, wanted)
    if tree is not None:
        return read_swap(tree, path, wanted)
    sections = None if is_script else ini_sections(text)
    if sections is not None:
        return read_ini(sections, path, wanted)
    if wanted is not None:
        raise BadInputError(
            f"{path} is read as a script, which has no part called {wanted}; give {path} alone, or "
            "one of its commands"
        )
    document = _json_tree(text)
    if document is not None:
        return _read_json(document, path)
    return _read_arguments(text) or read_shell(text, script=path)


def _file_and_name(text: str) -> tuple[Path, str | None] | None:
    """The file and the requested entry; None if there is no such file."""
    if stat.S_ISREG(_mode(text)):
        # The program alone is a command, as bad as it is.
        return None if Path(text).name in PROGRAMS else (Path(text).expanduser(), None)
    for at in (match.start() for match in re.finditer(":", text)):
        if text[at + 1 :] and stat.S_ISREG(_mode(text[:at])):
            return Path(text[:at]).expanduser(), text[at + 1 :]
    return None


def _mode(text: str) -> int:
    """The mode of the file that a text names; 0 if it names none."""
    try:
        return 0 if not text or "\n" in text else Path(text).expanduser().stat().st_mode
    except (OSError, ValueError, RuntimeError):
        return 0


def _json_tree(text: str) -> dict[str, Any] | None:
    """The parsed JSON document; None if the text is none."""
    try:
        tree = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _read_json(tree: dict[str, Any], path: Path) -> ServerCommand:
    """The command in a document of ``spectui export`` or ``spectui tune``.

    Raises:
        BadInputError: it is another document.
    """
    arguments = tree.get("arguments", tree.get("flags"))
    program, environment = tree.get("program", ["llama-server"]), tree.get("environment", {})
    if not (_are_texts(arguments) and _are_texts(program) and isinstance(environment, dict)):
        raise BadInputError(
            f"{path} is JSON without a list of arguments; give what spectui export --format json "
            "wrote, or the command itself"
        )
    return replace(
        ServerCommand.of(divide(arguments)),
        prelude=tuple(program),
        environment=tuple((str(name), str(value)) for name, value in environment.items()),
    )


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _read_arguments(text: str) -> ServerCommand | None:
    """Arguments of a file that holds one per line; None for any other file.

    A line of a shell script holds an option with its value, which is no option's name.
    """
    lines = text.removesuffix("\n").split("\n")
    if (
        not lines[0].startswith("-")
        or len(lines) > _MOST_WORDS
        or any(map(_QUOTED.fullmatch, lines))
    ):
        return None
    try:
        items = tuple(divide(lines))
    except BadInputError:
        return None
    return ServerCommand.of(items) if all(item.server is not None for item in items) else None
