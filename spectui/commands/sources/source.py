"""Finds the program and the arguments among a command's words, and moves its paths."""

import os.path
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from spectui.commands.command import ASSIGNMENT, ServerCommand
from spectui.commands.finding import Finding, note, warning
from spectui.commands.home import is_at_home, path_of, with_paths_read
from spectui.commands.items import (
    FILE_LISTS,
    PLACING,
    Item,
    divide,
    items_of_variable,
    placed,
    stands_for_option,
)
from spectui.commands.programs import (
    check_options_alike,
    file_name,
    names_server,
    place_of_program,
)
from spectui.commands.server_options import (
    FALSE,
    NEGATION,
    PREFIX,
    TRUE,
    Arity,
    option_of_variable,
)
from spectui.commands.sources.files import Replacement
from spectui.errors import BadInputError
from spectui.format import printable

IMAGES = re.compile(r"llama[._-]?(cpp|server)")
"""Pattern in the names of container images."""
_OTHERS = re.compile(
    r"(python|pypy)[\d.]*|vllm|ollama|sglang|lmdeploy|koboldcpp[\w-]*|mistralrs[\w-]*|llama-swap|"
    r"text-generation-webui|tabbyapi|node|java|nginx|caddy|redis|(ba|da|z|fi)?sh|ssh|"
    r"tmux|screen|su|runuser|script|watch|xterm"
)
"""Programs that take other options, a script, or a command in one word."""
CONTAINERS = frozenset({"docker", "docker-compose", "podman"})
OF_LLAMA = (
    *("LLAMA_", "GGML_", "MTMD_", "HF_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "GPU_"),
    *("MUSA_", "SYCL_", "ONEAPI_", "ZE_", "VK_", "OMP_", "GOMP_", "KMP_"),
)
"""Prefixes of variables that llama-server, its backends and their libraries read."""
PROCESS = "pid:"
"""Prefix of a process's number, in place of a command."""
_WRAPPERS = frozenset({"env", "exec"})
OF_SHELLS = frozenset({"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "LOGNAME", "TERM", "_"})
"""Variables of the session rather than of the command."""
_UNIFIED = frozenset({"llama", "llama.exe"})
"""The program that starts the server if ``serve`` follows."""
_FILE_VARIABLES = frozenset({"LLAMA_CACHE", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
"""Variables that hold a path."""
_FOLDER_VARIABLES = frozenset({"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
"""Variables that hold several folders."""
_SEPARATOR = ":"

Change = Callable[[str], str]


def command_of(words: Sequence[str], variables: Mapping[str, str]) -> ServerCommand:
    """Find program and arguments among a command's words; variables before them are the command's.

    Args:
        words: words of one command, split.
        variables: variables that reach the program from outside the command, by name.

    Raises:
        BadInputError: a container is started, another program or none; or a switch's variable
            has another value than a switch's.
    """
    start = check_program(words)
    prelude: list[str] = []
    own = {name: value for name, value in variables.items() if stands_for_option(name)}
    for word in words[:start]:
        match = ASSIGNMENT.fullmatch(word)
        if match is not None and stands_for_option(match[1]):
            own[match[1]] = match[2]
        else:
            prelude.append(word)
    has_options = any(word.startswith("-") for word in words)
    if words and not has_options and place_of_program(words) is None:
        raise BadInputError(
            f"{words[0]!r} is no file here, and no program of llama.cpp; give a command such as "
            "llama-server -m FILE, a file that holds one, or pid:NUMBER"
        )
    if not words and not own:
        raise BadInputError("the command has no arguments; give one such as llama-server -m FILE")
    counting = {name: value for name, value in own.items() if _negated(name) not in own}
    of_variables = (item for pair in counting.items() for item in items_of_variable(*pair))
    items = (*placed(of_variables, PLACING), *divide(words[start:]))
    return replace(
        ServerCommand.of(map(with_paths_read, items)),
        remarks=tuple(_remarks_on(own)),
        prelude=tuple(map(before_arguments, prelude)) or ServerCommand().prelude,
        environment=tuple(
            (name, _value_of(name, value))
            for name, value in variables.items()
            if name not in OF_SHELLS and name not in own
        ),
    )


def _negated(variable: str) -> str:
    """The variable that llama-server looks at first (``common_arg::get_value_from_env``)."""
    return f"{NEGATION}{variable.removeprefix(PREFIX)}"


def _remarks_on(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what llama-server does not heed of variables that stand for options."""
    for name, value in variables.items():
        option = option_of_variable(name)
        if (other := _negated(name)) in variables:
            why = f"llama-server looks at {other} first, whatever its value"
            yield warning(name, f"{name}={value} does not count", why, write=())
        elif (
            option is not None
            and option.arity is Arity.NONE
            and not name.startswith(NEGATION)
            and value not in TRUE | FALSE
        ):
            yield warning(
                name,
                f"{name}={value} switches nothing on",
                f"llama-server takes {', '.join(sorted(TRUE))} for on, and ignores the rest",
                write=(f"{name}=1",),
            )


def before_arguments(word: str) -> str:
    """A word before the arguments as it was read: a variable, a program, or a wrapper's option.

    Raises:
        BadInputError: a home folder stands where it cannot be kept.
    """
    assigned = ASSIGNMENT.fullmatch(word)
    if assigned is None:
        return path_of(word)
    return f"{assigned[1]}={_value_of(assigned[1], assigned[2])}"


def _value_of(name: str, value: str) -> str:
    if is_at_home(value) and name not in _FILE_VARIABLES | _FOLDER_VARIABLES:
        raise BadInputError(
            f"{name} is {value!r} in quotes, which is no home folder there and would be one where "
            "it is written; put there the folder that is meant"
        )
    return path_of(value)


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
    start = _first_argument(words)
    program = file_name(words[start - 1]) if start else ""
    if start:
        check_options_alike(words[start - 1])
    if _OTHERS.fullmatch(program.removesuffix(".exe")):
        raise BadInputError(f"the command starts {program}, which is no llama-server; give another")
    return start


def left_out(beside: str) -> Finding:
    """Remark on redirections, pipes and wrappers, which are no part of the server's command."""
    return note(
        beside,
        f"left out: {printable(beside)}",
        "it concerns how the server is started rather than its arguments, and is not written again",
    )


def runs_other(image: str) -> bool:
    """Whether a container's image contains a program with other options."""
    name = re.split(r"[:@-]", image.rpartition("/")[2], maxsplit=1)[0]
    return _OTHERS.fullmatch(name) is not None


def _first_argument(words: Sequence[str]) -> int:
    named = place_of_program(words)
    if named is not None:
        return named + 1
    unified = [n for n, word in enumerate(words) if file_name(word) in _UNIFIED]
    if unified and list(words[unified[0] + 1 : unified[0] + 2]) == ["serve"]:
        return unified[0] + 2
    is_prelude = (word in _WRAPPERS or ASSIGNMENT.fullmatch(word) is not None for word in words)
    first = next((n for n, prelude in enumerate(is_prelude) if not prelude), len(words))
    has_program = first < len(words) and not words[first].startswith("-")
    return first + has_program


def below(command: ServerCommand, folder: str) -> ServerCommand:
    """The command with its relative paths resolved from ``folder``."""

    def moved(path: str) -> str:
        return path if is_at_home(path) else os.path.join(folder, path.removeprefix("./"))  # noqa: PTH118 - text stays as it is

    return with_all_paths(command, moved)


def with_all_paths(command: ServerCommand, change: Change) -> ServerCommand:
    """The command with the paths of its program and variables replaced, too."""
    return replace(
        with_paths(command, change),
        prelude=tuple(_below(word, change) for word in command.prelude),
        environment=_changed_variables(command.environment, change),
    )


def with_paths(command: ServerCommand, change: Change) -> ServerCommand:
    """The command with the paths in its arguments and its options' variables replaced.

    Raises:
        BadInputError: the paths get too long.
    """
    bounded = Replacement()

    def changed(path: str) -> str:
        return bounded.of(change(path))

    return replace(command, items=tuple(_changed(item, changed) for item in command.items))


def absolute(item: Item) -> Item:
    """The item with its paths resolved from the working folder."""
    return _changed(item, os.path.abspath)


def _below(word: str, moved: Change) -> str:
    """Resolve a word before the arguments: a variable, or a program given by path."""
    match = ASSIGNMENT.fullmatch(word)
    if match is not None:
        [(name, value)] = _changed_variables(((match[1], match[2]),), moved)
        return f"{name}={value}"
    is_program = word.startswith(("./", "../", "~/")) or (names_server((word,)) and "/" in word)
    return moved(word) if is_program else word


def _changed_variables(
    variables: Sequence[tuple[str, str]], change: Change
) -> tuple[tuple[str, str], ...]:
    return tuple((name, _changed_value(name, value, change)) for name, value in variables)


def _changed(item: Item, change: Change) -> Item:
    if not item.values or not item.is_path or (item.variable is not None and not item.value):
        return item
    first, *others = item.values
    is_list = item.server is not None and item.server.long_flag in FILE_LISTS
    moved = ",".join(map(change, first.split(","))) if is_list else change(first)
    return item.with_values((moved, *others))


def _changed_value(name: str, value: str, change: Change) -> str:
    if name in _FOLDER_VARIABLES:
        return _SEPARATOR.join(map(change, value.split(_SEPARATOR)))
    return change(value) if name in _FILE_VARIABLES and value else value
