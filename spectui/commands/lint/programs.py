"""Rules for the program: another than llama-server, and a server without a model."""

from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding
from spectui.commands.items import Item
from spectui.commands.programs import SERVER, as_server, program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.takeover import names_model, prints_and_ends
from spectui.severity import Severity


def program_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield what the program is, if it is not llama-server, and what it does without a model."""
    word = started_by(command)
    if word is not None:
        yield _of_program(word, command)
    # Beside a draft it is told by the rule for drafts.
    printing = prints_and_ends(command.items)
    if printing is not None:
        yield _printing(printing)
    elif not (command.is_section or command.has_draft or names_model(command.items)):
        yield _without_model(reader)


def _printing(item: Item) -> Finding:
    return Finding(
        flag=item.flag,
        severity=Severity.NOTE,
        what=f"with {item.flag} it prints and ends",
        why="it starts no server, and loads no model",
    )


def _of_program(word: str, command: ServerCommand) -> Finding:
    program = program_of(word)
    is_server = program == SERVER
    return Finding(
        flag=word,
        severity=Severity.NOTE,
        what=f"{word} is the name of llama-server until June 2024"
        if is_server
        else f"this is a command of {program}",
        why="it is held against what llama-server takes today"
        if is_server
        else "it is read as one of llama-server, which has most of its options; what only "
        f"{program} takes is left out of it",
        replacement=as_server(command).start.program[-1],
    )


def _without_model(reader: Reader) -> Finding:
    if reader.is_current:
        return Finding(
            flag="-m",
            severity=Severity.NOTE,
            what="no model is named, so that llama-server starts as a router",
            why="it offers the models of its cache, loads each when a request names it, and gives "
            "it the options of this command",
        )
    return Finding(
        flag="-m",
        severity=Severity.WARNING,
        what="no model is named",
        why=f"{reader.name} loads one when it starts, and stops where it finds none",
        replacement="-m FILE",
    )
