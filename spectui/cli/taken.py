"""The existing command of ``--from``: what is taken from it, and what is not measured."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spectui.cli.given import Given
from spectui.cli.output import complain
from spectui.commands.command import ServerCommand, Start
from spectui.commands.drafting import OLD_LENGTHS, old_lengths
from spectui.commands.home import own_path, places_at_home
from spectui.commands.measured import config_files, held_back, tuning_variables, unmeasured
from spectui.commands.sources.source import OF_LLAMA, with_all_paths
from spectui.commands.takeover import Takeover, counts_from_last, from_first
from spectui.errors import SpectuiError, UsageError
from spectui.options.setup import Setup
from spectui.options.speculation import Speculation
from spectui.secret import HIDDEN, is_secret

_SIZES = {"ctx-size": ("-c", "there it is what the model was trained for, if that fits")}
"""The flag, and llama-server's own choice."""


def set_variables_of(start: Start) -> tuple[str, ...]:
    """Set a command's variables, and report parts of its start that no measurement reproduces.

    Returns the names of the variables.
    """
    names = set_tuning_variables(start.environment)
    if start.wrappers:
        complain(f"measured without what starts the command: {shlex.join(start.wrappers)}")
    return names


def set_tuning_variables(environment: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Set what tunes the engine, its libraries and the servers that are started.

    It has to be done before llama.cpp is loaded, which reads it once. Returns the names.
    """
    given = tuple(environment)
    tuning = tuning_variables(given)
    os.environ.update(tuning)
    _warn_of_left_variables(
        name for name, _ in given if name.startswith(OF_LLAMA) and name not in tuning
    )
    return tuple(tuning)


def warn_of_container(command: ServerCommand) -> None:
    """Report the variables of a container, which are none of the host's."""
    if command.inside is not None:
        _warn_of_left_variables(
            name for name, _ in command.environment if name.startswith(OF_LLAMA)
        )


def with_experts_from_first(command: ServerCommand) -> ServerCommand:
    """A command with the experts in the layers that its own server keeps in RAM, and say so."""
    if not counts_from_last(command):
        return command
    from spectui.models.gguf import read_gguf

    number, path = command.value("n-cpu-moe"), command.value("model")
    try:
        names = () if path is None else [one.name for one in read_gguf(Path(path)).tensors]
    except (SpectuiError, ValueError):
        # What is wrong with the file is said where it is looked at as a model.
        return command
    complain(
        f"note: -ncmoe {number} is ik_llama.cpp's, which counts from the last layer: so does "
        "what is measured, as ik_llama.cpp on one GPU; with -sm layer it spreads them over several"
    )
    return from_first(command, names)


def with_home_of_here(command: ServerCommand) -> ServerCommand:
    """The command with this user's home folder in place of ``~``, which is reported."""
    if not places_at_home(command):
        return command
    complain(f"~ is taken for {own_path('~')}, the home folder here")
    return with_all_paths(command, own_path)


def warn_of_secrets(command: ServerCommand) -> None:
    """Report secrets of a command that is to be written: they have to be put in again."""
    if command.secrets:
        complain(
            f"note: {', '.join(command.secrets)} by its name holds a secret, which is written "
            f"as {HIDDEN}; put it in where llama-server is started"
        )


def _warn_of_left_variables(names: Iterable[str]) -> None:
    left = [name for name in names if not is_secret(name)]
    if left:
        complain(
            f"measured without {', '.join(left)}: of a command only variables that tune llama.cpp "
            "are set, of a container none; set them yourself where they are needed"
        )


def taken_setup(takeover: Takeover) -> Setup:
    """Setup of a command, with llama-server's own defaults where it is silent.

    Raises:
        BadInputError: an option has a value that it cannot have.
        UsageError: options contradict each other.
    """
    try:
        return takeover.settled.to_setup()
    except UsageError as error:
        raise UsageError(f"--from: {error}") from error


def warn_of_changed_defaults(speculation: Speculation, given: Mapping[str, object]) -> None:
    """Warn about drafting limits that a command leaves to server defaults that have changed."""
    numbers = speculation.own.numbers
    for name, old in OLD_LENGTHS.items():
        if name not in given:
            value = f"{numbers[name.replace('-', '_')]:g} (until spring 2026 it was {old})"
            complain(f"note: the command gives no --{name}: today's default is {value}")


def warn_of_old_names(command: ServerCommand) -> None:
    """Say which defaults of older builds a command is read with, since its names are theirs."""
    lengths = old_lengths(command)
    if lengths:
        told = ", ".join(f"--{name} {value}" for name, value in lengths.items())
        complain(
            f"the command has names of builds before spring 2026, and is read with their defaults: "
            f"{told}; spectui lint writes it for today's"
        )


def warn_of_unmeasured(
    given: Given, *, done: str = "measured", through_server: bool = False
) -> tuple[str, ...]:
    """Warn once about options that llama-server would have and the measurement does not apply.

    These are options of the ``--from`` command, and of llama.cpp's files of options. Returns what
    was said, for the document.

    Args:
        given: options of the command.
        done: to the command.
        through_server: whether a llama-server gets the command's own arguments.
    """
    told = [_of_file(file, done) for file in config_files(of_system=not through_server)]
    told += _of_command(given, done=done, through_server=through_server)
    for one in told:
        complain(f"note: {one}")
    return tuple(told)


def _of_file(file: Path, done: str) -> str:
    return (
        f"{done} without the options of {file}, which llama-servers since autumn 2026 take; give "
        "those that matter as options"
    )


def _of_command(given: Given, *, done: str, through_server: bool) -> tuple[str, ...]:
    """The sentence on parts of a taken command that are not applied; none where all are."""
    found = given.takeover
    if found is None:
        return ()
    own = held_back(found.extra) if through_server else (*found.elsewhere, *found.extra)
    without = tuple(unmeasured(own))
    parts = [f"without {', '.join(without)}"] if without else []
    parts += _chosen(found, given)
    return (f"the command is {done} {'; '.join(parts)}",) if parts else ()


def _chosen(found: Takeover, parsed: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on sizes that the command leaves to the server, with the values used here."""
    for name, (flag, own) in _SIZES.items():
        is_left = name in found.left or name not in found.options
        if is_left and name not in found.typed:
            size = parsed[name.replace("-", "_")]
            yield f"with {flag} {size}, which it leaves to the server ({own}; {flag} changes it)"
