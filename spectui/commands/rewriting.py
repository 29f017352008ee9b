"""Rewrites options for their reader; what the reader takes stays unchanged, in its place."""

import shlex
from collections.abc import Iterable

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import is_of_stage, own_words, to_ik_stages
from spectui.commands.finding import Edits
from spectui.commands.items import Item, words_of
from spectui.commands.reader import Reader
from spectui.commands.renames import LENGTHS, LOADING, TODAY
from spectui.commands.server_options import drawn_from
from spectui.format import printable
from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.option import Dialect
from spectui.options.drafters import NGRAM_KINDS
from spectui.options.placement import LOAD_MODE, LOAD_MODES

_OF_LOADING = (*LOADING, LOAD_MODE.name)


def passed_on(items: Iterable[Item], reader: Reader) -> tuple[str, ...]:
    """A note on options that no table has, so that only a newer build may take them; or none."""
    words = words_of(
        item for item in items if reader.takes(item.flag) is None and item.flag.startswith("-")
    )
    told = f"passed on unchanged, since {drawn_from(reader.dialect)} has no such option"
    return (printable(f"{told}: {shlex.join(words)}"),) if words else ()


def instead_of(item: Item, command: ServerCommand, reader: Reader) -> tuple[str, ...] | None:
    """Equivalent words; none of them if the flag has no effect any more; None if unknown."""
    if item.server is None and item.option is None:
        return None
    if not (reader.is_current and item.name in LENGTHS and command.kinds):
        spellings = () if item.option is None else item.option.flags
        if item.server is not None:
            is_negation = item.spelling in item.server.negations
            own = item.server.negations if is_negation else item.server.flags
            spellings = (*own, *spellings)
        other = next(filter(reader.takes, spellings), None)
        if other is not None:
            return (other, *item.values)
    if item.name == LOAD_MODE.name and not reader.takes(item.flag):
        switches = (f"--{name}" for name in LOAD_MODES.get(item.value, ()))
        return tuple(filter(reader.takes, switches))
    return _current(item, command) if reader.is_current else ()


def _current(item: Item, command: ServerCommand) -> tuple[str, ...]:
    """The item in llama.cpp's words since spring 2026."""
    if is_of_ngrams(item, command):
        return own_words(item, command)
    if item.name in _OF_LOADING:
        given = [one for _at, one in command.all(*_OF_LOADING)] or [item]
        return _load_mode(given) if item.name == given[0].name else ()
    is_off = item.is_negation and item.name != "no-flash-attn"
    return (*TODAY[item.name], *item.values) if item.name in TODAY and not is_off else ()


def is_of_ngrams(item: Item, command: ServerCommand) -> bool:
    """Whether a former option gives a number of the command's n-gram drafters.

    A length is a model's, if there is one or no other drafter.
    """
    drafts_alone = not command.drafts_with_model and not set(NGRAM_KINDS).isdisjoint(command.kinds)
    return item.name in SHARED_BY_NGRAMS or (item.name in LENGTHS and drafts_alone)


def merged(item: Item, command: ServerCommand, reader: Reader) -> Edits:
    """Edits that replace several items by one option; empty if the item stands alone."""
    if reader.is_current and item.name in LOADING:
        given = list(command.all(*_OF_LOADING))
        if len(given) > 1:
            mode = _load_mode(one for _at, one in given)
            return {at: mode if at == given[0][0] else () for at, _one in given}
    if reader.dialect is Dialect.IK and is_of_stage(item):
        return to_ik_stages(command)
    return {}


def _load_mode(given: Iterable[Item]) -> tuple[str, ...]:
    """One option in place of the switches that it replaced, and of itself; none without effect.

    Of ``--mmap`` and ``--no-mmap`` the last counts; ``--direct-io`` reads the file whatever they
    say, and no mode has it beside ``--mlock``.
    """
    names: list[str] = []
    for one in given:
        is_mode = one.name == LOAD_MODE.name
        names += LOAD_MODES.get(one.value) or (one.value,) if is_mode else (one.name,)
    mapped = [name for name in names if name in {"mmap", "no-mmap"}][-1:]
    is_direct = [name for name in names if name.endswith("direct-io")][-1:] == ["direct-io"]
    is_read = is_direct or mapped == ["no-mmap"]
    if "mlock" in names:
        mode = "mlock" if is_read else "mmap+mlock"
    else:
        mode = "dio" if is_direct else "none" if is_read else "".join(mapped)
    return (LOAD_MODE.long_flag, mode) if mode else ()
