"""Rules for the program: another than llama-server, and a server without a model."""

from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, note, warning
from spectui.commands.programs import SERVER, as_server, program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.takeover import names_model, prints_and_ends


def program_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield what the program is, if it is not llama-server, and what it does without a model."""
    word = started_by(command)
    if word is not None:
        yield _of_program(word, command, reader)
    # Beside a draft it is told by the rule for drafts.
    printing = prints_and_ends(command.items)
    if printing is not None:
        what = f"with {printing.flag} it prints and ends"
        yield note(printing.flag, what, "it starts no server, and loads no model")
    elif not (command.is_section or command.has_draft or names_model(command.items)):
        yield _without_model(reader)


def own_options(command: ServerCommand, reader: Reader) -> frozenset[int]:
    """Places of the options of another program than llama-server that only such programs take."""
    word = started_by(command)
    if word is None or program_of(word) == SERVER:
        return frozenset()
    servers = ((at, item.server) for at, item in enumerate(command.items))
    others = (at for at, server in servers if server is not None and server.programs)
    return frozenset(at for at in others if reader.takes(command.items[at].flag) is False)


def _of_program(word: str, command: ServerCommand, reader: Reader) -> Finding:
    program = program_of(word)
    is_server = program == SERVER
    what = f"this is a command of {program}"
    why = "it is read as one of llama-server, which has most of its options"
    own = [command.items[at].flag for at in sorted(own_options(command, reader))]
    if own:
        why += f", and lacks {', '.join(own)}: left out"
    if is_server:
        what = f"{word} is the name of llama-server until June 2024"
        why = "it is held against what llama-server takes today"
    return Finding(
        flag=word,
        severity=Severity.NOTE,
        what=what,
        why=why,
        replacement=as_server(command).start.program[-1],
    )


def _without_model(reader: Reader) -> Finding:
    if reader.is_current:
        return note(
            "-m",
            "no model is named, so that llama-server starts as a router",
            "it offers the models of its cache, loads each when a request names it, and gives it "
            "the options of this command",
        )
    why = f"{reader.name} loads one when it starts, and stops where it finds none"
    return warning("-m", "no model is named", why, write=("-m", "FILE"))
