"""What a source says of one llama-server: how it is started, its variables, its arguments."""

import dataclasses
import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath

from spectui.errors import BadInputError
from spectui.export.names import BY_VARIABLE
from spectui.export.server_options import NEGATION, PREFIX, Arity, option_of_variable
from spectui.export.words import Given, divide

PROGRAMS = frozenset({"llama-server", "llama-server.exe"})
IMAGES = re.compile(r"llama[._-]?(cpp|server)")
"""What names of containers' images have in common."""
_OTHERS = re.compile(r"(python|pypy)[\d.]*|vllm|ollama|sglang|lmdeploy|node|java|nginx|caddy")
"""Programs that take other options, also where they serve models."""
CONTAINERS = frozenset({"docker", "docker-compose", "podman"})
OF_LLAMA = (
    *("LLAMA_", "GGML_", "MTMD_", "HF_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "GPU_"),
    *("MUSA_", "SYCL_", "ONEAPI_", "ZE_", "VK_", "OMP_", "GOMP_", "KMP_"),
)
"""What names of variables begin with that llama-server, its backends and their libraries read."""
_WRAPPERS = frozenset({"env", "exec"})
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_OF_SHELLS = frozenset({"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "LOGNAME", "TERM", "_"})
"""Variables that are of the session, not of the command."""
_UNIFIED = frozenset({"llama", "llama.exe"})
"""The program that starts the server if ``serve`` follows."""
_TRUE = frozenset({"on", "enabled", "true", "1"})
_FALSE = frozenset({"off", "disabled", "false", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One command that starts llama-server."""

    prelude: tuple[str, ...] = ("llama-server",)
    """What stands before the arguments: the program, wrappers, variables of theirs."""
    variables: tuple[tuple[str, str], ...] = ()
    """``LLAMA_ARG_*`` with their values; arguments win over them."""
    environment: tuple[tuple[str, str], ...] = ()
    """Other variables that reach the program from around the command."""
    words: tuple[str, ...] = ()
    """The arguments as they stand."""
    is_contained: bool = False
    """It was started in a container, of whose paths those of the host are told."""

    @property
    def start(self) -> tuple[str, ...]:
        """All that stands before the arguments, as a shell would have it."""
        return (*(f"{name}={value}" for name, value in self.environment), *self.prelude)

    @property
    def started(self) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        """Variables of the command, and its program behind what wraps it."""
        words = [word for word in self.start if word != "exec"]
        at = next((n for n, word in enumerate(words) if not ASSIGNMENT.fullmatch(word)), 0)
        if words[at : at + 1] == ["env"] and any(map(ASSIGNMENT.fullmatch, words[at + 1 : at + 2])):
            del words[at]
        ahead = list(takewhile(ASSIGNMENT.fullmatch, words))
        pairs = (word.partition("=") for word in ahead)
        return tuple((name, value) for name, _, value in pairs), tuple(words[len(ahead) :])

    @property
    def wrappers(self) -> tuple[str, ...]:
        """What stands before the program, as ``numactl`` does; without variables."""
        _environment, program = self.started
        return program[: -2 if program[-1:] == ("serve",) else -1]

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
        """The same where relative paths start at ``folder``."""
        moved = (_below(folder, given) for given in divide(self.words))
        variables = tuple((name, _file_below(folder, name, v)) for name, v in self.variables)
        return dataclasses.replace(
            self, words=tuple(w for words in moved for w in words), variables=variables
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A variable as the arguments that say the same; none for a switch that is left off."""

    variable: str
    words: tuple[str, ...]


def source_of(words: Sequence[str], variables: Mapping[str, str]) -> Source:
    """Find program and arguments among a command's words; variables before them are the command's.

    Args:
        words: of one command, split.
        variables: what reaches the program from around the command, by name.

    Raises:
        BadInputError: a container is started, or another program.
    """
    bare = takewhile(lambda word: not word.startswith("-"), words)
    if any(PurePath(word).name in CONTAINERS for word in bare):
        raise BadInputError(
            "the command starts a container in a way that spectui does not know; give "
            "llama-server's own part of it, with paths as they are on this machine"
        )
    start = _first_argument(words)
    program = PurePath(words[start - 1]).name if start else ""
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
    return any(PurePath(word).name in PROGRAMS for word in words)


def _first_argument(words: Sequence[str]) -> int:
    """Index of the first word after the program; the program may be left out."""
    named = [n for n, word in enumerate(words) if PurePath(word).name in PROGRAMS]
    if named:
        return named[0] + 1
    unified = [n for n, word in enumerate(words) if PurePath(word).name in _UNIFIED]
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


def _below(folder: str, given: Given) -> tuple[str, ...]:
    server = given.server
    if server is None or not server.is_file or len(given.values) != 1:
        return given.words
    return (given.flag, os.path.join(folder, given.values[0]))  # noqa: PTH118 - text stays as it is


def _file_below(folder: str, variable: str, value: str) -> str:
    option = option_of_variable(variable)
    is_file = option is not None and option.is_file
    return os.path.join(folder, value) if is_file else value  # noqa: PTH118 - as above
