"""Rules for names: of the program, of flags and variables that the reader does not take."""

from collections.abc import Iterator
from difflib import get_close_matches

from spectui.commands import rewriting
from spectui.commands.command import ServerCommand
from spectui.commands.drafting import is_of_stage
from spectui.commands.finding import Finding, Severity, about, error, note, warning
from spectui.commands.items import Item, is_ignored
from spectui.commands.programs import SERVER, as_server, program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.renames import RULES_TODAY
from spectui.commands.server_options import FALSE, PREFIX, TRUE, Arity, drawn_from, flags_of
from spectui.commands.takeover import names_model, prints_and_ends
from spectui.options.dialect import Dialect

_STOPPING = frozenset({"LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_DRAFT_MIN"})
"""Variables that builds since spring 2026 recognise only to refuse them."""
_ALIKE = 0.8
"""Similarity from which on an option may be what an unknown one means (``difflib``)."""


def program_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield what the program is, if it is not llama-server, and what it does without a model."""
    word = started_by(command)
    if word is not None:
        yield _of_program(word, command)
    printing = prints_and_ends(command.items)
    if printing is not None:
        what = f"with {printing.flag} it prints and ends"
        yield note(printing.flag, what, "it starts no server, and loads no model")
    elif not (command.is_section or names_model(command.items)):
        why = "llama-server starts as a router without one, which loads what a request names"
        if not reader.is_current:
            why = f"{reader.name} loads one when it starts, and stops where it finds none"
        yield note("-m", "no model is named", why)


def _of_program(word: str, command: ServerCommand) -> Finding:
    program = program_of(word)
    what = f"this is a command of {program}"
    why = "it is read as one of llama-server, which has most of its options"
    if program == SERVER:
        what = f"{word} is the name of llama-server until June 2024"
        why = "it is held against what llama-server takes today"
    start = as_server(command).start
    return Finding(
        flag=word, severity=Severity.NOTE, what=what, why=why, replacement=start.program[-1]
    )


def spelling_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on flags that the reader refuses, and on variables."""
    for at, item in enumerate(command.items):
        if item.variable is not None:
            yield from _variable(at, item, command, reader)
    for at, item in enumerate(command.items):
        if item.variable is not None:
            continue
        if item.values and len(item.words) == 1:
            yield error(
                (at, item),
                f"{reader.name} reads no {item.flag}=VALUE",
                "it looks for an option of that whole name, finds none, and stops",
                fix=None if item.separate == item.words else item.separate,
            )
        elif not item.flag.startswith("-"):
            yield error(
                (at, item),
                f"{item.flag!r} belongs to no option",
                f"{reader.name} takes no words by themselves, and stops",
            )
        elif reader.takes(item.flag):
            yield from _without_value(at, item, reader)
        elif reader.takes(item.flag) is None:
            yield _unknown(at, item, reader)
        else:
            yield _refused(at, item, command, reader)
    yield from _unknown_variables(command, reader)


def _unknown_variables(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on variables that look like options, and that no server is known to read."""
    for name, value in command.start.environment:
        if is_ignored(name, value):
            what, why = f"{reader.name} ignores {name}={value}", "it is for on, true, enabled or 1"
            yield warning(name, what, why, write=(f"{name}=1",), is_misread=True)
        elif name.startswith(PREFIX) and not reader.reads(name):
            known = _known_builds(reader)
            why = f"{known}; any build that does not know it ignores it without a word"
            yield warning(name, f"spectui does not know {name}", why, is_misread=True)


def _variable(at: int, item: Item, command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find a variable of an option that the reader does not read."""
    variable = item.shown
    if reader.reads(variable) is not False:
        return
    is_stopping = variable in _STOPPING
    does = "stop at it" if is_stopping else "ignore it without a word"
    why = f"it is of other builds, and those of {reader.name} {does}"
    words: tuple[str, ...] | None = item.words
    if reader.takes(item.flag) is False:
        words = rewriting.instead_of(item, command, reader)
    yield about(
        Severity.ERROR if is_stopping else Severity.WARNING,
        (at, item),
        f"{reader.name} does not read {variable}",
        why,
        write=words or (),
        # As an argument first: what that is called comes next.
        fix={at: item.words},
        is_misread=True,
    )


def _unknown(at: int, item: Item, reader: Reader) -> Finding:
    alike = get_close_matches(item.flag, sorted(flags_of(reader.dialect)), 1, _ALIKE)
    return warning(
        (at, item),
        f"spectui does not know {item.flag}",
        f"{_known_builds(reader)}; a newer build may take it, any other stops at it (--server-bin "
        f"PATH asks your own){f'; did you mean {alike[0]}?' if alike else ''}",
    )


def _known_builds(reader: Reader) -> str:
    return f"its list of options is that of {drawn_from(reader.dialect)}"


def _refused(at: int, item: Item, command: ServerCommand, reader: Reader) -> Finding:
    words = rewriting.instead_of(item, command, reader)
    shared = rewriting.merged(item, command, reader)
    edits = shared or ({} if words is None else {at: words})
    # What takes the place of several is told of each.
    words = next(filter(None, shared.values()), words)
    what = f"{reader.name} does not take {item.flag}"
    return error((at, item), what, _why(item, reader), write=words, fix=edits)


def _why(item: Item, reader: Reader) -> str:
    server = item.server
    if server is None or reader.accepted is not None:
        return "it stops at an option that it does not know"
    today = f"; {RULES_TODAY[item.name]}" if item.name in RULES_TODAY else ""
    until = server.until.get((reader.dialect, item.spelling))
    if reader.dialect is Dialect.IK and is_of_stage(item):
        since = "" if until is None else f" since {until}"
        return f"its place is behind --spec-type{since}, and it stops the server"
    if until is not None:
        return f"builds since {until} stop at it{today}"
    others = tuple(map(str, server.taken))
    whose = f"is an option of {' and '.join(others)}" if others else "was removed"
    return f"it {whose}, and stops the server{today}"


def _too_many(at: int, item: Item, n_taken: int, reader: Reader) -> Finding:
    """An error at an option of which another build takes more words."""
    off = None if item.server is None else item.server.negation
    flag = item.flag if n_taken or item.value in TRUE else off if item.value in FALSE else None
    # Numbers of lists of files stand behind a colon.
    words = flag and (flag, *([":".join(item.values)] * n_taken))
    what = f"{reader.name} takes {n_taken or 'no'} word{'s' * (n_taken != 1)} behind {item.flag}"
    return error((at, item), what, "it stops at any other", fix=words or None)


def _without_value(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find an option that the reader takes, and not without a value, or not with so many."""
    server = item.server
    if item.n_missing:
        yield error(
            (at, item),
            f"{item.text} lacks its value",
            "the server stops where the command ends without one",
        )
    n_taken = None if server is None else server.counts.get(reader.dialect)
    if n_taken is not None and len(item.values) > n_taken and reader.accepted is None:
        yield _too_many(at, item, n_taken, reader)
    if server is None or item.values or not n_taken:
        return
    is_bare = item.flag in reader.bare or item.is_negation
    if server.arity is Arity.MAYBE and not is_bare:
        takes = "on, off or auto today" if item.name == "flash-attn" else "one here"
        why = f"it takes {takes}, and would take the next word for it"
        yield error((at, item), f"{item.flag} has no value", why, fix=(item.flag, "on"))
