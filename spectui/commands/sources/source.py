"""One command that starts llama-server: its program, variables and arguments, and their paths."""

import dataclasses
import os.path
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from spectui.commands.items import Given, divide
from spectui.commands.server_options import NEGATION, PREFIX, Arity, option_of_variable
from spectui.commands.sources.files import ASSIGNMENT, Replacement
from spectui.errors import BadInputError
from spectui.options.catalogue import BY_VARIABLE

_SERVE = ("serve",)
"""Words after a program that holds the server among others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The way a program is started, independent of its arguments."""

    environment: tuple[tuple[str, str], ...] = ()
    """Variables that the command sets, without those that stand for options."""
    program: tuple[str, ...] = ("llama-server",)
    """Words that start the program, including wrappers."""

    @property
    def wrappers(self) -> tuple[str, ...]:
        """Words before the program, such as ``numactl`` and its options."""
        return self.program[: -2 if self.program[-1:] == _SERVE else -1]

    def running(self, program: str | None) -> "Start":
        """This start with another program; None keeps the program."""
        return self if program is None else replace(self, program=(*self.wrappers, program))


INI = "ini"
LLAMA_SWAP = "llama-swap"
COMPOSE = "compose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file's entry for one server, without its command."""

    format: str
    """Kind of the file: one of the three above."""
    name: str | None
    """Name that clients use; None if it has none."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Other settings of the entry, without those that an export writes itself."""
    around: Mapping[str, object] = field(default_factory=dict)
    """Parts of the file beside the entry that it may refer to."""
    ahead: tuple[str, ...] = ()
    """Words before llama-server's arguments in a container's command."""
    variables: frozenset[str] = frozenset()
    """Names of its variables; the settings hold all of these that are kept."""
    notes: tuple[str, ...] = ()
    """Remarks for readers of the export."""


PROGRAMS = frozenset({"llama-server", "llama-server.exe"})
IMAGES = re.compile(r"llama[._-]?(cpp|server)")
"""Pattern in the names of container images."""
_OTHERS = re.compile(
    r"(python|pypy)[\d.]*|vllm|ollama|sglang|lmdeploy|node|java|nginx|caddy|(ba|da|z|fi)?sh|ssh"
)
"""Programs that take other options, or a script."""
CONTAINERS = frozenset({"docker", "docker-compose", "podman"})
OF_LLAMA = (
    *("LLAMA_", "GGML_", "MTMD_", "HF_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "GPU_"),
    *("MUSA_", "SYCL_", "ONEAPI_", "ZE_", "VK_", "OMP_", "GOMP_", "KMP_"),
)
"""Prefixes of variables that llama-server, its backends and their libraries read."""
_WRAPPERS = frozenset({"env", "exec"})
_OF_SHELLS = frozenset({"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "LOGNAME", "TERM", "_"})
"""Variables of the session rather than of the command."""
_UNIFIED = frozenset({"llama", "llama.exe"})
"""The program that starts the server if ``serve`` follows."""
_TRUE = frozenset({"on", "enabled", "true", "1"})
_FALSE = frozenset({"off", "disabled", "false", "0"})
_FILE_LISTS = frozenset({"--lora", "--control-vector", "--lora-scaled", "--control-vector-scaled"})
"""Options whose value is several paths; the last two have a number behind each."""
_FILE_VARIABLES = frozenset(
    {"LLAMA_CACHE", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_ARG_MODEL_DRAFT"}
)
"""Variables that hold a path but stand for no current option."""
_FOLDER_VARIABLES = frozenset({"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})
"""Variables that hold several folders."""
_SEPARATOR = ":"

Change = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One command that starts llama-server."""

    prelude: tuple[str, ...] = ("llama-server",)
    """Words before the arguments: the program, wrappers, and their variables."""
    variables: tuple[tuple[str, str], ...] = ()
    """``LLAMA_ARG_*`` with their values; arguments override them."""
    environment: tuple[tuple[str, str], ...] = ()
    """Other variables that reach the program from around the command."""
    words: tuple[str, ...] = ()
    """The arguments, unchanged."""
    inside: "Source | None" = None
    """The same command as seen inside its container; None without one. This source has the host's
    paths, as far as the host has the files."""
    entries: tuple[Entry, ...] = ()
    """The file entries that it was taken from, at most one of each kind; the outermost first."""

    @property
    def is_contained(self) -> bool:
        """Whether it was started in a container."""
        return self.inside is not None

    @property
    def start(self) -> tuple[str, ...]:
        """All words before the arguments, with variables as assignments."""
        return (*(f"{name}={value}" for name, value in self.environment), *self.prelude)

    @property
    def started(self) -> Start:
        """Variables of the command, and its program after any wrappers."""
        words = [word for word in self.start if word != "exec"]
        at = next((n for n, word in enumerate(words) if not ASSIGNMENT.fullmatch(word)), 0)
        if words[at : at + 1] == ["env"] and any(map(ASSIGNMENT.fullmatch, words[at + 1 : at + 2])):
            del words[at]
        ahead = list(takewhile(ASSIGNMENT.fullmatch, words))
        pairs = (word.partition("=") for word in ahead)
        return Start(
            environment=tuple((name, value) for name, _, value in pairs),
            program=tuple(words[len(ahead) :]),
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """Variables and arguments, in their order of effect.

        Raises:
            BadInputError: a variable is unknown, or its value is no switch's.
        """
        return (*(w for assigned in self.assigned() for w in assigned.words), *self.words)

    def assigned(self) -> Iterator["Assigned"]:
        """Yield the variables as arguments.

        Raises:
            BadInputError: a variable is unknown, or its value is no switch's.
        """
        for variable, value in self.variables:
            yield Assigned(variable=variable, words=_as_arguments(variable, value))

    def below(self, folder: str) -> "Source":
        """The source with its relative paths resolved from ``folder``."""

        def moved(path: str) -> str:
            return os.path.join(folder, path.removeprefix("./"))  # noqa: PTH118 - text stays as it is

        return dataclasses.replace(
            self.with_paths(moved),
            prelude=tuple(_below(word, moved) for word in self.prelude),
            environment=_changed_variables(self.environment, moved),
        )

    def with_paths(self, change: Change) -> "Source":
        """The source with the paths in its arguments and variables replaced.

        Raises:
            BadInputError: an option lacks its value, or the paths get too long.
        """
        bounded = Replacement()

        def changed(path: str) -> str:
            return bounded.of(change(path))

        words = (word for given in divide(self.words) for word in _changed(given, changed))
        return dataclasses.replace(
            self, words=tuple(words), variables=_changed_variables(self.variables, changed)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A variable as equivalent arguments; none for a switch that is left off."""

    variable: str
    words: tuple[str, ...]


def source_of(words: Sequence[str], variables: Mapping[str, str]) -> Source:
    """Find program and arguments among a command's words; variables before them are the command's.

    Args:
        words: words of one command, split.
        variables: variables that reach the program from outside the command, by name.

    Raises:
        BadInputError: a container is started, or another program.
    """
    bare = takewhile(lambda word: not word.startswith("-"), words)
    if any(_file_name(word) in CONTAINERS for word in bare):
        raise BadInputError(
            "the command starts a container in a way that spectui does not know; give "
            "llama-server's own part of it, with paths as they are on this machine"
        )
    start = _first_argument(words)
    program = _file_name(words[start - 1]) if start else ""
    if _OTHERS.fullmatch(program):
        raise BadInputError(f"the command starts {program}, which is no llama-server; give another")
    prelude = []
    own = {name: value for name, value in variables.items() if name.startswith(PREFIX)}
    for word in words[:start]:
        match = ASSIGNMENT.fullmatch(word)
        if match is not None and match[1].startswith(PREFIX):
            own[match[1]] = match[2]
        else:
            prelude.append(word)
    return Source(
        prelude=tuple(prelude) or Source().prelude,
        variables=tuple(own.items()),
        environment=tuple(
            (name, value)
            for name, value in variables.items()
            if name not in _OF_SHELLS and not name.startswith(PREFIX)
        ),
        words=tuple(words[start:]),
    )


def names_server(words: Sequence[str]) -> bool:
    """Whether one of a command's words is the program llama-server."""
    return any(_file_name(word) in PROGRAMS for word in words)


def _file_name(word: str) -> str:
    return word.rpartition("/")[2]


def runs_other(image: str) -> bool:
    """Whether a container's image contains a program with other options."""
    name = re.split(r"[:@-]", image.rpartition("/")[2], maxsplit=1)[0]
    return _OTHERS.fullmatch(name) is not None


def _first_argument(words: Sequence[str]) -> int:
    """Index of the first word after the program; the program may be left out."""
    named = [n for n, word in enumerate(words) if _file_name(word) in PROGRAMS]
    if named:
        return named[0] + 1
    unified = [n for n, word in enumerate(words) if _file_name(word) in _UNIFIED]
    if unified and list(words[unified[0] + 1 : unified[0] + 2]) == ["serve"]:
        return unified[0] + 2
    is_prelude = (word in _WRAPPERS or ASSIGNMENT.fullmatch(word) is not None for word in words)
    first = next((n for n, prelude in enumerate(is_prelude) if not prelude), len(words))
    has_program = first < len(words) and not words[first].startswith("-")
    return first + has_program


def _as_arguments(variable: str, value: str) -> tuple[str, ...]:
    option = option_of_variable(variable)
    if option is None:
        # What only builds before spring 2026 read.
        ours = BY_VARIABLE.get(variable)
        if ours is None:
            raise BadInputError(
                f"spectui does not know the variable {variable}; give it as an option instead"
            )
        if ours.is_switch:
            return (ours.long_flag,) if value in _TRUE else ()
        return (ours.long_flag, value)
    flag, off = option.long_flag, option.negation
    if off is not None and variable.startswith(NEGATION):
        # llama-server looks only whether it is there.
        return (off,)
    if off is None:
        if option.arity is Arity.NONE:
            return (flag,) if value in _TRUE or variable.startswith(NEGATION) else ()
        return (flag, value)
    if value not in _TRUE | _FALSE:
        raise BadInputError(f"{variable} is {value!r}; give it 1 or 0")
    return (flag,) if value in _TRUE else (off,)


def _below(word: str, moved: Change) -> str:
    """Resolve a word before the arguments: a variable, or a program given by path."""
    match = ASSIGNMENT.fullmatch(word)
    if match is not None:
        [(name, value)] = _changed_variables(((match[1], match[2]),), moved)
        return f"{name}={value}"
    is_program = word.startswith(("./", "../")) or (names_server((word,)) and "/" in word)
    return moved(word) if is_program else word


def _changed_variables(
    variables: Sequence[tuple[str, str]], change: Change
) -> tuple[tuple[str, str], ...]:
    return tuple((name, _changed_value(name, value, change)) for name, value in variables)


def _changed(given: Given, change: Change) -> Iterator[str]:
    server = given.server
    is_list = server is not None and server.long_flag in _FILE_LISTS
    if server is None or not given.values or not (server.is_file or is_list):
        yield from given.words
        return
    first, *others = given.values
    yield given.flag
    yield ",".join(map(change, first.split(","))) if is_list else change(first)
    yield from others


def _changed_value(name: str, value: str, change: Change) -> str:
    if name in _FOLDER_VARIABLES:
        return _SEPARATOR.join(map(change, value.split(_SEPARATOR)))
    option = option_of_variable(name)
    is_file = name in _FILE_VARIABLES or (option is not None and option.is_file)
    return change(value) if is_file and value else value
