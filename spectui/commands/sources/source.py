"""Finds the program and the arguments among a command's words, and resolves its paths."""

import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from spectui.commands.command import ASSIGNMENT, ServerCommand, Start
from spectui.commands.home import is_at_home, path_of, text_of, with_paths_read
from spectui.commands.items import FILE_LISTS, Item, divide, is_ignored, items_of_variable
from spectui.commands.programs import file_name, names_server, place_of_program
from spectui.commands.server_options import NEGATION, PREFIX, option_of_variable
from spectui.commands.sources.files import Replacement
from spectui.errors import BadInputError

LLAMA_CPP = re.compile(r"llama[._-]?(cpp|server)")
"""Pattern in the names of container images, and of programs that were renamed."""
CONTAINERS = frozenset({"docker", "docker-compose", "podman"})
NO_SERVER = (
    "the command has no arguments, or none of its parts starts a llama-server; give one such as "
    "llama-server -m FILE"
)
LLAMA_PREFIXES = (
    *("LLAMA_", "GGML_", "MTMD_", "HF_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "GPU_"),
    *("MUSA_", "SYCL_", "ONEAPI_", "ZE_", "VK_", "OMP_", "GOMP_", "KMP_"),
)
"""Prefixes of variables that llama-server, its backends and their libraries read."""
PROCESS = "pid:"
"""Prefix of a process's number, in place of a command."""
SESSION_VARIABLES = frozenset(
    {"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "LOGNAME", "TERM", "_"}
)
"""Variables of the session rather than of the command."""
_WRAPPERS = frozenset({"env", "exec"})
"""Words that do nothing but start the command behind them."""
_UNIFIED = frozenset({"llama", "llama.exe"})
"""The program that starts the server if ``serve`` follows."""
_FILE_VARIABLES = frozenset(
    {"LD_LIBRARY_PATH", "LLAMA_CACHE", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}
)
"""Variables that hold a path."""

Change = Callable[[str], str]


def command_of(words: Sequence[str], variables: Mapping[str, str]) -> ServerCommand:
    """Find program and arguments among a command's words.

    Args:
        words: words of one command, without what ``assigned`` takes off.
        variables: variables that the program gets, by name.

    Raises:
        BadInputError: a container is started, another program or none; or the variable of a switch
            has a value that is not a switch's.
    """
    start = check_program(words)
    options = {
        name: one
        for name, value in variables.items()
        if (one := option_of_variable(name)) and not is_ignored(name, value)
    }
    # Variables are read in the order of the server's list (``common_params_parse_ex``), and the
    # negation first (``common_arg::get_value_from_env``).
    counting = (
        item
        for name, option in sorted(options.items(), key=lambda one: one[1].place)
        if options.get(f"{NEGATION}{name.removeprefix(PREFIX)}") is not option
        for item in items_of_variable(name, variables[name])
    )
    items = (*counting, *divide(words[start:]))
    return replace(
        ServerCommand.of(map(with_paths_read, items)),
        start=Start(
            environment=tuple(
                (name, path_of(value)) for name, value in variables.items() if name not in options
            ),
            program=tuple(map(path_of, words[:start])) or Start().program,
        ),
    )


def assigned(words: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    """Variables that words set for the command behind them, as of ``env``, and that command."""
    variables: dict[str, str] = {}
    for at, word in enumerate(words):
        match = ASSIGNMENT.fullmatch(word)
        has_options = "".join(words[at + 1 : at + 2]).startswith("-")
        if match is not None:
            variables[match[1]] = match[2]
        elif word not in _WRAPPERS or has_options:
            return variables, words[at:]
    return variables, ()


def check_program(words: Sequence[str]) -> int:
    """Index of the first word after the program; the program may be left out.

    Raises:
        BadInputError: a container is started, or another program.
    """
    bare = takewhile(lambda word: not word.startswith("-"), words)
    if any(file_name(word) in CONTAINERS for word in bare):
        raise BadInputError(
            "the command starts a container in a way that spectui does not know; give "
            "llama-server's own part of it, with paths as they are on this machine"
        )
    place = place_of_program(words)
    if place is not None:
        return place + 1
    if not words or (words[0].startswith("-") and words[0] != "-"):
        return 0
    if file_name(words[0]) in _UNIFIED and list(words[1:2]) == ["serve"]:
        return 2
    if LLAMA_CPP.search(file_name(words[0])):
        return 1
    named = (word for word in words if re.fullmatch(r"llama-[\w-]+(\.exe)?", file_name(word)))
    program = text_of(next(named, words[0]))
    if names_server((program,)):
        raise BadInputError(
            f"{text_of(words[0])!r} stands in front of llama-server, and is no program that is "
            "known to start others; leave out what stands there"
        )
    raise BadInputError(
        f"the command starts {program}, which is no llama-server; give a "
        "command such as llama-server -m FILE, a file that holds one, or pid:NUMBER"
    )


def resolved_from(command: ServerCommand, folder: str) -> ServerCommand:
    """The command with its relative paths resolved from ``folder``."""

    def moved(path: str) -> str:
        return path if is_at_home(path) else os.path.join(folder, path.removeprefix("./"))  # noqa: PTH118 - text stays as it is

    return with_paths(command, moved)


def with_paths(command: ServerCommand, change: Change) -> ServerCommand:
    """The command with all paths replaced: its program's, its variables' and its options'.

    Raises:
        BadInputError: the paths get too long.
    """
    start, bounded = command.start, Replacement()

    def changed(path: str) -> str:
        return bounded.of(change(path))

    return replace(
        command,
        items=tuple(_with_paths(item, changed) for item in command.items),
        start=Start(
            program=tuple(_moved_word(word, changed) for word in start.program),
            environment=tuple((n, _moved_value(n, v, changed)) for n, v in start.environment),
        ),
    )


def absolute(item: Item) -> Item:
    """The item with its paths resolved from the working folder."""
    return _with_paths(item, os.path.abspath)


def _with_paths(item: Item, change: Change) -> Item:
    if not item.values or not item.is_path or (item.variable is not None and not item.value):
        return item
    first, *others = item.values
    is_list = item.server is not None and item.server.long_flag in FILE_LISTS
    moved = ",".join(map(change, first.split(","))) if is_list else change(first)
    return item.with_values((moved, *others))


def _moved_word(word: str, change: Change) -> str:
    """A word before the arguments: a variable, or a program given by path."""
    match = ASSIGNMENT.fullmatch(word)
    if match is not None:
        return f"{match[1]}={_moved_value(match[1], match[2], change)}"
    is_program = word.startswith(("./", "../", "~/")) or (names_server((word,)) and "/" in word)
    return change(word) if is_program else word


def _moved_value(name: str, value: str, change: Change) -> str:
    return change(value) if name in _FILE_VARIABLES and value else value
