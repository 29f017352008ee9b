"""The llama-server of this machine, which judges commands that it would read."""

from itertools import islice

from spectui.cli.output import complain
from spectui.commands.command import ServerCommand
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.errors import ServerError
from spectui.format import printable
from spectui.llama.search import find_servers
from spectui.options.dialect import Dialect

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

    It is one of the user's own: the program that a command names is never started. A container has
    one of its own.
    """
    if command.inside is not None:
        return None
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


def warn_of_refusals(command: ServerCommand) -> None:
    """Report what the llama-server of this machine refuses of a command that is taken over.

    Options that it has under other names are taken over by those.
    """
    reader = found_reader(command)
    if reader is None or reader.judge is None:
        return
    renamed = [n for n, item in enumerate(command.items) if reader.takes(item.flag) is False]
    for finding in reader.judge(command, renamed):
        complain(printable(f"note: {reader.build} refuses it: {finding.what}: {finding.why}"))
    warn_of_silence(reader)


def warn_of_silence(reader: Reader) -> None:
    """Report that a llama-server did not answer, so that its refusals are not known."""
    if reader.judge is not None and reader.judge.silence is not None:
        complain(printable(f"note: values were not checked: {reader.judge.silence}"))
