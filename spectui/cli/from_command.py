"""The command of ``--from``: its options and variables, what is not measured, who refuses it."""

import os
import shlex
from collections.abc import Iterable
from itertools import islice

from spectui.cli.given import Given
from spectui.cli.output import complain
from spectui.commands.command import ServerCommand, Start
from spectui.commands.home import own_path, places_at_home
from spectui.commands.measured import config_files, held_back, tuning_variables, unmeasured
from spectui.commands.programs import recognise
from spectui.commands.reader import Reader
from spectui.commands.rewriting import old_lengths
from spectui.commands.sources.reading import read_command
from spectui.commands.sources.source import LLAMA_PREFIXES, with_paths
from spectui.commands.takeover import Takeover, take_over
from spectui.errors import ServerError, UsageError
from spectui.format import printable
from spectui.llama.search import find_servers
from spectui.options.option import Dialect
from spectui.options.setup import Setup
from spectui.secret import HIDDEN, is_secret


def read_takeover(text: str, *, other_drafts: bool, through_server: bool) -> Takeover:
    """Read an existing command, set its variables, and report what of it is not measured so.

    Args:
        text: the command, or where it is.
        other_drafts: as ``take_over``.
        through_server: as ``take_over``.

    Raises:
        BadInputError: it cannot be read.
        UsageError: its options contradict each other.
    """
    command = with_home_of_here(read_command(text))
    found = take_over(command, other_drafts=other_drafts, through_server=through_server)
    set_variables_of(found.start)
    if command.inside is not None:
        # Variables of a container are none of the host's.
        names = (name for name, _ in command.start.environment if name.startswith(LLAMA_PREFIXES))
        _warn_of_left_variables(names)
    _warn_of_refusals(command)
    # What is set aside leaves no draft whose lengths would matter.
    if not found.elsewhere:
        _warn_of_old_names(command)
    return found


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
        name for name, _ in given if name.startswith(LLAMA_PREFIXES) and name not in tuning
    )
    return tuple(tuning)


def with_home_of_here(command: ServerCommand) -> ServerCommand:
    """The command with this user's home folder in place of ``~``, which is reported."""
    if not places_at_home(command):
        return command
    complain(f"~ is taken for {own_path('~')}, the home folder here")
    return with_paths(command, own_path)


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


def setup_of(takeover: Takeover) -> Setup:
    """Setup of a command, with llama-server's own defaults where it is silent.

    Raises:
        BadInputError: an option has a value that it cannot have.
        UsageError: options contradict each other.
    """
    try:
        return takeover.settled.to_setup()
    except UsageError as error:
        raise UsageError(f"--from: {error}") from error


def _warn_of_old_names(command: ServerCommand) -> None:
    """Say which defaults of older builds a command is read with, since its names are theirs."""
    lengths = old_lengths(command)
    if lengths:
        defaults = ", ".join(f"--{name} {value}" for name, value in lengths.items())
        complain(
            f"the command has names of builds before spring 2026, and is read with their defaults: "
            f"{defaults}; spectui lint writes it for today's"
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
    notes = [
        f"{done} without the options of {file}, which llama-servers since autumn 2026 take; give "
        "those that matter as options"
        for file in config_files(with_system=not through_server)
    ]
    notes += _command_notes(given, done=done, through_server=through_server)
    for one in notes:
        complain(f"note: {one}")
    return tuple(notes)


def _command_notes(given: Given, *, done: str, through_server: bool) -> tuple[str, ...]:
    """The sentence on parts of the command that are not applied; none where all are."""
    found = given.takeover
    if found is None:
        return ()
    own = held_back(found.extra) if through_server else (*found.elsewhere, *found.extra)
    without = tuple(unmeasured(own))
    parts = [f"without {', '.join(without)}"] if without else []
    is_left = "ctx-size" in found.left or "ctx-size" not in found.options
    if is_left and "ctx-size" not in found.typed:
        parts.append(
            f"with -c {given['ctx_size']}, which it leaves to the server (there it is what the "
            "model was trained for, if that fits; -c changes it)"
        )
    return (f"the command is {done} {'; '.join(parts)}",) if parts else ()


_MOST_ASKED = 8
"""Maximum number of llama-servers that are asked what they take."""


def given_reader(dialect: str | None, server_bin: str | None) -> Reader | None:
    """The llama-server that was named; None for the command's own.

    Raises:
        ServerError: the binary cannot be asked.
        UsageError: it has another dialect than the one asked for.
    """
    if server_bin is None:
        return None if dialect is None else Reader(dialect=Dialect(dialect))
    from spectui.server.binary import examine
    from spectui.server.judge import reader_of

    binary = examine(server_bin)
    if dialect is not None:
        binary.check_dialect(Dialect(dialect))
    return reader_of(binary)


def found_reader(command: ServerCommand) -> Reader | None:
    """The first llama-server of this machine that reads the command's dialect; None without one.

    It is one of the user's own: the program that a command names is never started, nor is a
    container, whose options are judged as those of any other command.
    """
    own = recognise(command)
    for path in islice(find_servers(), _MOST_ASKED):
        # They start processes.
        from spectui.server.binary import examine
        from spectui.server.judge import reader_of

        try:
            reader = reader_of(examine(str(path)))
        except ServerError:
            continue
        if own.is_open or (reader.dialect is Dialect.IK) == (own.dialect is Dialect.IK):
            return reader
    return None


def _warn_of_refusals(command: ServerCommand) -> None:
    """Report what the llama-server of this machine refuses of a command that is taken over.

    Options that it has under other names are taken over by those.
    """
    reader = found_reader(command)
    if reader is None or reader.judge is None:
        return
    renamed = [
        n for n, item in enumerate(command.items) if item.server and not reader.takes(item.flag)
    ]
    for finding in reader.judge(command, renamed):
        complain(printable(f"note: {reader.build} refuses it: {finding.what}: {finding.why}"))
    warn_of_silence(reader)


def warn_of_silence(reader: Reader) -> None:
    """Report that a llama-server did not answer, so that its refusals are not known."""
    if reader.judge is not None and reader.judge.silence is not None:
        complain(printable(f"note: values were not checked: {reader.judge.silence}"))
