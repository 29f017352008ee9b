"""Rules for flags and variables that the reader does not take, and options given more than once."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import is_of_stage, told_of_length
from spectui.commands.finding import Finding, Severity, Topic, about, error, warning
from spectui.commands.home import shell_line
from spectui.commands.items import DASHES, FLASH_ATTENTION, Item, divide
from spectui.commands.reader import Reader
from spectui.commands.renames import RENAMES
from spectui.commands.rewriting import (
    instead_of,
    likely,
    likely_variable,
    meant_by,
    merged,
)
from spectui.commands.server_options import PREFIX, Arity, drawn_from
from spectui.format import named
from spectui.options.dialect import Dialect
from spectui.options.drafters import NgramSimple, number_of

_SINCE = {
    "flash-attn": "since autumn 2025 it takes on, off or auto",
    "fit": "here it takes on or off",
}
"""Options that are switches in some builds."""
_IN_IK = {"flash-attn": "today it takes on, off or auto"}
"""Options of these that have values in today's ik_llama.cpp, too."""
_ON_IN_IK = ("1", "true")
"""Values of a switch's variable that ik_llama.cpp takes for on."""
_STOPPING = frozenset({"LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_DRAFT_MIN"})
"""Variables that builds since spring 2026 recognise only to refuse them."""
_ADDING = frozenset(
    {"override-tensor", "override-tensor-draft", "override-kv", "spec-type", "n-cpu-moe"}
    | {"n-cpu-ffn", "n-cpu-moe-draft", "lora", "lora-scaled", "control-vector", "logit-bias"}
    | {"control-vector-scaled", "dry-sequence-breaker", "reverse-prompt", "api-key", "alias"}
    | {"tags", "rpc", "spec-replace", "chat-template-kwargs", "spec-stage", "api-key-file"}
    | {"cpu-mask", "cpu-range", "cpu-mask-batch", "cpu-range-batch"}
    # auto leaves what on or off gave the chat template.
    | {"reasoning"}
)
"""Options that add to previous values."""
_BUILD = re.compile(r"b\d+")


def spelling_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on flags that the reader refuses, and on variables."""
    for at, item in enumerate(command.items):
        if item.variable is not None:
            yield from _variable(at, item, command, reader)
    for at, item in enumerate(command.items):
        if item.variable is not None:
            continue
        if item.values and len(item.words) == 1:
            yield _attached(at, item, reader)
        elif not item.flag.startswith("-"):
            yield _stray(at, item, reader)
        else:
            yield from _flag(at, item, command, reader)
    yield from _unknown_variables(command, reader)


def _unknown_variables(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on variables that look like options, and that no server is known to read."""
    for name, value in command.start.environment:
        if not name.startswith(PREFIX) or reader.reads(name):
            continue
        meant = likely_variable(name, reader)
        did = "" if meant is None else f"; did you mean {meant}={shlex.quote(value)}?"
        if reader.reads(name) is None:
            what = f"spectui does not know {name}"
            why = f"{_known_builds(reader)}; a newer build may read it, any other ignores it"
        else:
            what = f"{reader.name} does not read {name}"
            why = "it ignores it"
        yield warning(name, what, f"{why} without a word{did}", topic=Topic.MISREAD)


def _variable(at: int, item: Item, command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    variable = item.shown
    if reader.reads(variable) is not False:
        if reader.dialect is Dialect.IK:
            yield from _switched_off(at, item, reader)
        return
    if reader.dialect is Dialect.IK:
        why = "it reads a few variables, and this one is not among them: give the option instead"
    else:
        does = "stop at it" if variable in _STOPPING else "ignore it without a word"
        why = f"it is of other builds, and those of {reader.name} {does}"
    words: tuple[str, ...] | None = item.words
    if reader.takes(item.flag) is False:
        words = instead_of(item, command, reader)
    yield Finding(
        flag=variable,
        severity=Severity.ERROR if variable in _STOPPING else Severity.WARNING,
        what=f"{reader.name} does not read {variable}",
        why=why,
        replacement=shell_line(words or ()),
        # As an argument first: what that is called comes next.
        edits={at: item.words},
        at=at,
        topic=Topic.MISREAD,
    )


def _switched_off(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find a variable that is meant to switch something on, and does not (``get_env`` of ik's)."""
    value = item.value if item.name == "flash-attn" else item.switched
    if FLASH_ATTENTION.get(value) != "on" or value in _ON_IN_IK:
        return
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"{item.shown}={value} is off for {reader.name}",
        why=f"it takes {' and '.join(_ON_IN_IK)} alone for on",
        replacement=f"{item.shown}=1",
        edits={at: item.words},
        at=at,
        topic=Topic.MISREAD,
    )


def _attached(at: int, item: Item, reader: Reader) -> Finding:
    return error(
        (at, item),
        f"{reader.name} reads no {item.flag}=VALUE",
        "it looks for an option of that whole name, finds none, and stops",
        fix=item.separate,
    )


def _stray(at: int, item: Item, reader: Reader) -> Finding:
    words = meant_by(item) if item.flag[:1] in DASHES else None
    return error(
        (at, item),
        f"{item.flag!r} belongs to no option",
        f"{reader.name} takes no words by themselves, and stops{_odd(item)}",
        fix=words or None,
    )


def _odd(item: Item) -> str:
    """Hint at a sign of web pages in a word, wherever the command was read from."""
    signs = (one for one in item.flag if not one.isascii() and not one.isalnum())
    return "".join(f"; it holds {named(one)}" for one in [*signs][:1])


def _unknown(at: int, item: Item, command: ServerCommand, reader: Reader) -> Finding:
    words = _instead(item, command, reader)
    if words is not None:
        what = f"{reader.name} does not know {item.flag}"
        return error((at, item), what, f"it stops at it{_odd(item)}", fix=words)
    alike = likely(item, command, reader)
    return warning(
        (at, item),
        f"spectui does not know {item.flag}",
        f"{_known_builds(reader)}; a newer build may take it, any other stops at it (--server-bin "
        f"PATH asks your own){_odd(item)}{f'; did you mean {shell_line(alike)}?' if alike else ''}",
    )


def _instead(item: Item, command: ServerCommand, reader: Reader) -> tuple[str, ...] | None:
    """Words in place of an option that the reader does not take, in its own names.

    An option that no table has is the one that it spells otherwise.
    """
    if item.server is not None or item.option is not None:
        return instead_of(item, command, reader)
    words = meant_by(item)
    meant = () if words is None else tuple(divide(words))
    if len(meant) == 1 and reader.takes(meant[0].flag) is False:
        return instead_of(meant[0], command, reader)
    return words


def _known_builds(reader: Reader) -> str:
    return f"its list of options is that of {drawn_from(reader.dialect)}"


def _flag(at: int, item: Item, command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    flag = item.flag
    match reader.takes(flag):
        case True:
            yield from _without_value(at, item, reader)
        case None:
            yield _unknown(at, item, command, reader)
        case False:
            words = _instead(item, command, reader)
            shared = merged(item, command, reader)
            edits = shared or ({} if words is None else {at: words})
            # What takes the place of several is told of each.
            words = next(filter(None, shared.values()), words)
            if words is None and item.server is None:
                words = likely(item, command, reader) or None
            yield Finding(
                flag=flag,
                severity=Severity.ERROR,
                what=f"{reader.name} does not take {flag}",
                why="; ".join((_why(item, reader), *_longer(item, words))),
                replacement=None if words is None else shell_line(words),
                edits=edits,
                at=at,
            )


def _longer(item: Item, words: tuple[str, ...] | None) -> Iterator[str]:
    """Reason why a different length is written than the given one."""
    flag = number_of(NgramSimple, "size_m").flags[0]
    size_m = dict(pairwise(words or ())).get(flag)
    told = None if size_m is None else told_of_length(item.value, size_m)
    if item.name == "draft-max" and told is not None:
        yield told


def _why(item: Item, reader: Reader) -> str:
    server = item.server
    accepted = reader.accepted
    if server is None or accepted is not None:
        since = None if server is None else server.since.get(item.spelling)
        taken = "" if since is None else f"; {Dialect.LLAMA_CPP} takes it since {since}"
        is_removed = accepted is not None and item.spelling in accepted.removed
        which = "was removed" if is_removed else "it does not know"
        return f"it stops at an option that {which}{taken}"
    renamed = RENAMES.get(item.name)
    today = "" if renamed is None or renamed.now is None else f"; {renamed.now}"
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
    return (
        f"it is an option of {' and '.join(server.taken) or 'no build today'}, and stops the server"
    )


def _day(until: str) -> str:
    """When an option went, by its table: a season, or a build or commit and a day."""
    commit, _, day = until.rpartition(" ")
    is_day = day[:4].isdigit() and "-" in day
    build = commit if _BUILD.fullmatch(commit) else f"commit {commit}"
    return f"{day} ({build})" if is_day else until


def _without_value(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    server = item.server
    if item.n_missing:
        yield error(
            (at, item),
            f"{item.text} lacks its value",
            "the server takes the next word for it, or stops where there is none",
        )
    is_bare = server is not None and server.arity is Arity.MAYBE and not item.values
    takes = server is not None and bool(server.counts.get(reader.dialect))
    if server is not None and server.arity is Arity.UNTOLD and takes and not item.values:
        yield error((at, item), f"{item.flag} has no value", "it takes one or two, and stops")
    since = (_IN_IK if reader.dialect is Dialect.IK else _SINCE).get(item.name, "here it takes one")
    if is_bare and takes and item.flag not in reader.bare and not item.is_negation:
        yield error(
            (at, item),
            f"{item.flag} has no value",
            f"{since}, and would take the next word for it",
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
        winner = last[item.name]
        is_known = item.server is not None or item.option is not None
        if winner != at and is_known and item.name not in _ADDING:
            yield _overruled(at, item, command.items[winner], reader)


def _overruled(at: int, item: Item, winner: Item, reader: Reader) -> Finding:
    by = "an argument" if item.variable is not None else "the last of them"
    by = by if winner.variable is None else "its variables before arguments"
    same = item.words == winner.words and item.variable is None
    return about(
        Severity.NOTE if same or item.variable is not None else Severity.WARNING,
        (at, item),
        f"{item.shown} is given again as {winner.text}",
        f"{reader.name} takes {by}, so that this one does nothing",
        write=(),
        topic=Topic.OVERRULED,
    )
