"""Rules for names: of the program, of flags and variables that the reader does not take."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from spectui.commands import rewriting
from spectui.commands.command import ServerCommand
from spectui.commands.drafting import is_of_stage
from spectui.commands.finding import Edits, Finding, Severity, Topic, about, error, note, warning
from spectui.commands.home import shell_line
from spectui.commands.items import DASHES, FLASH_ATTENTION, Item
from spectui.commands.measured import is_adding
from spectui.commands.programs import SERVER, as_server, program_of, started_by
from spectui.commands.reader import Reader
from spectui.commands.renames import RULES_TODAY
from spectui.commands.server_options import PREFIX, Arity, drawn_from
from spectui.commands.takeover import names_model, prints_and_ends
from spectui.format import named
from spectui.options.dialect import Dialect
from spectui.options.drafters import NgramSimple, number_of

_ON_IN_IK = ("1", "true")
"""Values of a switch's variable that ik_llama.cpp takes for on."""
_STOPPING = frozenset({"LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_DRAFT_MIN"})
"""Variables that builds since spring 2026 recognise only to refuse them."""


def program_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield what the program is, if it is not llama-server, and what it does without a model."""
    word = started_by(command)
    if word is not None:
        yield _of_program(word, command, reader)
    printing = prints_and_ends(command.items)
    if printing is not None:
        what = f"with {printing.flag} it prints and ends"
        yield note(printing.flag, what, "it starts no server, and loads no model")
    elif command.is_section or command.has_draft or names_model(command.items):
        # Beside a draft it is told by the rule for drafts.
        return
    elif reader.is_current:
        yield note(
            "-m",
            "no model is named, so that llama-server starts as a router",
            "it offers the models of its cache, loads each when a request names it, and gives it "
            "the options of this command",
        )
    else:
        why = f"{reader.name} loads one when it starts, and stops where it finds none"
        yield warning("-m", "no model is named", why, write=("-m", "FILE"))


def own_options(command: ServerCommand, reader: Reader) -> frozenset[int]:
    """Places of the options of another program than llama-server that only such programs take."""
    word = started_by(command)
    if word is None or program_of(word) == SERVER:
        return frozenset()
    return frozenset(
        at
        for at, item in enumerate(command.items)
        if item.server is not None and item.server.programs and reader.takes(item.flag) is False
    )


def _of_program(word: str, command: ServerCommand, reader: Reader) -> Finding:
    program = program_of(word)
    what = f"this is a command of {program}"
    why = "it is read as one of llama-server, which has most of its options"
    own = [command.items[at].flag for at in sorted(own_options(command, reader))]
    if own:
        why += f", and lacks {', '.join(own)}: left out"
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
                fix=item.separate,
            )
        elif not item.flag.startswith("-"):
            words = rewriting.meant_by(item) if item.flag[:1] in DASHES else None
            yield error(
                (at, item),
                f"{item.flag!r} belongs to no option",
                f"{reader.name} takes no words by themselves, and stops{_odd(item)}",
                fix=words or None,
            )
        elif reader.takes(item.flag):
            yield from _without_value(at, item, reader)
        elif reader.takes(item.flag) is None:
            yield _unknown(at, item, command, reader)
        else:
            yield _refused(at, item, command, reader)
    yield from _unknown_variables(command, reader)


def _unknown_variables(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on variables that look like options, and that no server is known to read."""
    for name, value in command.start.environment:
        if not name.startswith(PREFIX) or reader.reads(name):
            continue
        what, why = f"{reader.name} does not read {name}", "it ignores it"
        if reader.reads(name) is None:
            what = f"spectui does not know {name}"
            why = f"{_known_builds(reader)}; a newer build may read it, any other ignores it"
        meant = rewriting.likely_variable(name, reader)
        did = "" if meant is None else f"; did you mean {meant}={shlex.quote(value)}?"
        yield warning(name, what, f"{why} without a word{did}", topic=Topic.MISREAD)


def _variable(at: int, item: Item, command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find a variable of an option that the reader does not read, or takes for off."""
    variable, is_ik = item.shown, reader.dialect is Dialect.IK
    severity = Severity.ERROR if variable in _STOPPING else Severity.WARNING
    what = f"{reader.name} does not read {variable}"
    words: tuple[str, ...] | None = item.words
    if reader.reads(variable) is not False:
        value = item.value if item.name == "flash-attn" else item.switched
        if not is_ik or FLASH_ATTENTION.get(value) != "on" or value in _ON_IN_IK:
            return
        # See get_env of ik_llama.cpp.
        severity, what = Severity.ERROR, f"{variable}={value} is off for {reader.name}"
        why = f"it takes {' and '.join(_ON_IN_IK)} alone for on"
        words = (f"{variable}=1",)
    elif is_ik:
        why = "it reads a few variables, and this one is not among them: give the option instead"
    else:
        does = "stop at it" if variable in _STOPPING else "ignore it without a word"
        why = f"it is of other builds, and those of {reader.name} {does}"
    if words is item.words and reader.takes(item.flag) is False:
        words = rewriting.instead_of(item, command, reader)
    # As an argument first: what that is called comes next.
    edits: Edits = {at: item.words}
    yield about(severity, (at, item), what, why, write=words or (), fix=edits, topic=Topic.MISREAD)


def _odd(item: Item) -> str:
    """Hint at a sign of web pages in a word, wherever the command was read from."""
    signs = (one for one in item.flag if not one.isascii() and not one.isalnum())
    return "".join(f"; it holds {named(one)}" for one in [*signs][:1])


def _unknown(at: int, item: Item, command: ServerCommand, reader: Reader) -> Finding:
    words = rewriting.instead_of(item, command, reader)
    if words is not None:
        what = f"{reader.name} does not know {item.flag}"
        return error((at, item), what, f"it stops at it{_odd(item)}", fix=words)
    alike = rewriting.likely(item, command, reader)
    return warning(
        (at, item),
        f"spectui does not know {item.flag}",
        f"{_known_builds(reader)}; a newer build may take it, any other stops at it (--server-bin "
        f"PATH asks your own){_odd(item)}{f'; did you mean {shell_line(alike)}?' if alike else ''}",
    )


def _known_builds(reader: Reader) -> str:
    return f"its list of options is that of {drawn_from(reader.dialect)}"


def _refused(at: int, item: Item, command: ServerCommand, reader: Reader) -> Finding:
    words = rewriting.instead_of(item, command, reader)
    shared = rewriting.merged(item, command, reader)
    edits = shared or ({} if words is None else {at: words})
    # What takes the place of several is told of each.
    words = next(filter(None, shared.values()), words)
    if words is None and item.server is None:
        words = rewriting.likely(item, command, reader) or None
    why = _why(item, reader)
    size_m = dict(pairwise(words or ())).get(number_of(NgramSimple, "size_m").flags[0])
    if item.name == "draft-max" and size_m not in {None, item.value}:
        why += f"; ngram-simple drops drafts shorter than the {size_m} tokens that it looks up"
    what = f"{reader.name} does not take {item.flag}"
    return error((at, item), what, why, write=words, fix=edits)


def _why(item: Item, reader: Reader) -> str:
    server, accepted = item.server, reader.accepted
    if server is None or accepted is not None:
        since = None if server is None else server.since.get(item.spelling)
        taken = "" if since is None else f"; {Dialect.LLAMA_CPP} takes it since {since}"
        is_removed = accepted is not None and item.spelling in accepted.removed
        which = "was removed" if is_removed else "it does not know"
        return f"it stops at an option that {which}{taken}"
    today = f"; {RULES_TODAY[item.name]}" if item.name in RULES_TODAY else ""
    until = server.until.get((reader.dialect, item.spelling))
    if reader.dialect is Dialect.IK and is_of_stage(item):
        since = "" if until is None else f" since {_day(until)}"
        return f"its place is behind --spec-type{since}, and it stops the server"
    if until is not None:
        return f"builds since {_day(until)} stop at it{today}"
    if server.programs:
        return f"it is an option of {server.programs[0]}, and stops the server"
    if server.taken.keys() == {Dialect.IK}:
        return "it is an option of ik_llama.cpp, and stops the server"
    if reader.dialect in server.taken:
        return "it knows the option by another name alone, and stops at this one"
    if reader.is_current:
        return f"it was removed, and stops the server{today}"
    builds = " and ".join(server.taken) or "no build today"
    return f"it is an option of {builds}, and stops the server"


def _day(until: str) -> str:
    """When an option went, by its table: a season, or a build or commit and a day."""
    commit, _, day = until.rpartition(" ")
    is_day = day[:4].isdigit() and "-" in day
    build = commit if re.fullmatch(r"b\d+", commit) else f"commit {commit}"
    return f"{day} ({build})" if is_day else until


def _without_value(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find an option that the reader takes, and not without a value."""
    server = item.server
    if item.n_missing:
        yield error(
            (at, item),
            f"{item.text} lacks its value",
            "the server takes the next word for it, or stops where there is none",
        )
    if server is None or item.values or not server.counts.get(reader.dialect):
        return
    if server.arity is Arity.UNTOLD:
        yield error((at, item), f"{item.flag} has no value", "it takes one or two, and stops")
    is_bare = item.flag in reader.bare or item.is_negation
    if server.arity is Arity.MAYBE and not is_bare:
        takes = {
            "flash-attn": "since autumn 2025 it takes on, off or auto",
            "fit": "here it takes on or off",
        }
        if reader.dialect is Dialect.IK:
            takes = {"flash-attn": "today it takes on, off or auto"}
        yield error(
            (at, item),
            f"{item.flag} has no value",
            f"{takes.get(item.name, 'here it takes one')}, and would take the next word for it",
            fix=(item.flag, "on"),
        )


def repeats_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield a finding for every option that a later one overrides."""
    last: dict[str, int] = {}
    for at, item in enumerate(command.items):
        before = last.get(item.name)
        # ik_llama.cpp reads its variables again behind the arguments.
        is_second = reader.dialect is Dialect.IK and item.variable is None
        if before is None or not (is_second and command.items[before].variable is not None):
            last[item.name] = at
    for at, item in enumerate(command.items):
        is_known = item.server is not None or item.option is not None
        if last[item.name] != at and is_known and not is_adding(item):
            yield _overruled(at, item, command.items[last[item.name]], reader)


def _overruled(at: int, item: Item, winner: Item, reader: Reader) -> Finding:
    by = "an argument" if item.variable is not None else "the last of them"
    by = by if winner.variable is None else "its variables before arguments"
    is_harmless = item.words == winner.words or item.variable is not None
    return about(
        Severity.NOTE if is_harmless else Severity.WARNING,
        (at, item),
        f"{item.shown} is given again as {winner.text}",
        f"{reader.name} takes {by}, so that this one does nothing",
        write=(),
        topic=Topic.OVERRULED,
    )
