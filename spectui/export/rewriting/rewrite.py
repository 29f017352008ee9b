"""Rewrites a whole command for its reader; what the reader takes stays unchanged, in its place."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spectui.export.command import all_layers, first_experts
from spectui.export.rewriting.edits import Edit
from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.export.rewriting.renames import instead_of, together
from spectui.export.server_options import Arity
from spectui.export.words import FLASH_ATTENTION, divide
from spectui.options.dialect import Dialect

_LAYERS = frozenset({"gpu-layers", "gpu-layers-draft"})
_OFF = frozenset({"off", "disabled", "false", "0", "none"})
_ON = frozenset({"on", "enabled", "true", "1", "auto", "llamacpp"})
_WORDS = frozenset({"all", "auto"})
"""Values for layers that are words; older builds take numbers only."""
_DEFAULTS = frozenset(
    {("load-mode", "mmap"), ("load-mode", "auto"), ("mmap", "")}
    | {("gpu-layers", "auto"), ("gpu-layers-draft", "auto")}
)
"""Options that may be dropped silently, since they state the default."""
_MOST_ROUNDS = 500
"""Maximum number of rounds of rewriting: more than any command has options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The rewritten command, and the items that it had to drop."""

    command: Command
    dropped: tuple[Item, ...] = ()
    """Options that the reader does not have under any name."""


def rewritten(command: Command, reader: Reader, *, start: int = 0) -> Rewritten:
    """Rewrite every option in words that the reader takes.

    Unknown options stay, since only their own reader knows better.

    Args:
        command: command to rewrite.
        reader: llama-server that will read it.
        start: index of the first item that may change; those before it are in the reader's words.
    """
    command = replace(
        command, items=tuple(own for item in command.items for own in _detached(item))
    )
    dropped: list[Item] = []
    for _ in range(_MOST_ROUNDS):
        found = next(_changes(command, reader, start), None)
        if found is None:
            break
        item, edits = found
        if not any(edit.words for edit in edits) and (item.name, item.value) not in _DEFAULTS:
            dropped.append(item)
        command = command.edited(edits)
    return Rewritten(command=command, dropped=tuple(dropped))


def _detached(item: Item) -> tuple[Item, ...]:
    """Split ``--flag=value`` into separate words, the only form that llama-server reads."""
    words = item.given.separate
    if words == item.given.words:
        return (item,)
    return tuple(replace(item, given=given) for given in divide(words))


def _changes(
    command: Command, reader: Reader, start: int
) -> Iterator[tuple[Item, tuple[Edit, ...]]]:
    for at, item in enumerate(command.items[start:], start):
        words = _words(item, reader)
        if words != item.given.words:
            yield item, (Edit(at=at, words=words),)
        elif reader.takes(item.given.flag) is False:
            edits = _instead(at, item, command, reader)
            if edits:
                yield item, edits


def _instead(at: int, item: Item, command: Command, reader: Reader) -> tuple[Edit, ...]:
    edits = together(item, command, reader)
    words = instead_of(item, command, reader)
    if not edits and words is not None:
        edits = (Edit(at=at, words=words),)
    is_lost = not any(edit.words for edit in edits)
    # What a binary lacks of its dialect is not left out without a word, but refused later.
    is_refused = is_lost and replace(reader, accepted=None).takes(item.given.flag) is not False
    return () if is_refused else edits


def _words(item: Item, reader: Reader) -> tuple[str, ...]:
    """The option with a value that the reader takes."""
    flag, value = item.given.flag, item.value
    match item.name, reader.dialect:
        case "flash-attn", _ if not item.given.values or value in FLASH_ATTENTION:
            # In its value form: the bare one ended in autumn 2025.
            wanted = FLASH_ATTENTION[value or "on"]
            return item.given.words if value == wanted else (flag, wanted)
        case name, Dialect.LEGACY | Dialect.IK if name in _LAYERS and value in _WORDS:
            # What is left to the server stays so, as its default.
            return (flag, all_layers(reader.dialect)) if value == "all" else ()
        case "n-cpu-moe", Dialect.IK if value.isascii() and value.isdigit() and int(value):
            # It counts from the last layer, where llama.cpp counts from the first.
            override = first_experts(int(value))
            return ("-ot", f"{override.pattern}={override.buffer}")
        case _, Dialect.LLAMA_CPP | Dialect.LEGACY if value in _OFF | _ON and _is_switch(item):
            # Some builds of ik_llama.cpp take a value there.
            off = None if item.given.server is None else item.given.server.negation_of(flag)
            return (off if value in _OFF and off is not None else flag,)
    return item.given.words


def _is_switch(item: Item) -> bool:
    server = item.given.server
    return server is not None and server.arity is Arity.MAYBE and bool(server.negations)
