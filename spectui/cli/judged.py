"""The llama-server of this machine, which judges commands that it would read."""

from spectui.cli.output import complain
from spectui.commands.command import ServerCommand
from spectui.commands.reader import Reader
from spectui.commands.recognition import recognise
from spectui.errors import ServerError
from spectui.format import printable
from spectui.llama.search import find_server
from spectui.options.dialect import Dialect


def found_reader(command: ServerCommand) -> Reader | None:
    """The llama-server of this machine, if it reads the command's dialect; None without one.

    It is one of the user's own: the program that a command names is never started. A container has
    one of its own.
    """
    path = find_server() if command.inside is None else None
    if path is None:
        return None
    # They start processes.
    from spectui.server.binary import examine
    from spectui.server.judge import reader_of

    try:
        reader = reader_of(examine(str(path)))
    except ServerError:
        return None
    own = recognise(command)
    is_alike = (reader.dialect is Dialect.IK) == (own.dialect is Dialect.IK)
    return reader if is_alike or own.is_open else None


def mind_refusals(command: ServerCommand) -> None:
    """Report what the llama-server of this machine refuses of a command that is taken over.

    Options that it has under other names are taken over by those.
    """
    reader = found_reader(command)
    if reader is None or reader.judge is None:
        return
    renamed = [n for n, item in enumerate(command.items) if reader.takes(item.flag) is False]
    for finding in reader.judge(command, renamed):
        complain(printable(f"mind that {reader.build} refuses it: {finding.what}: {finding.why}"))
