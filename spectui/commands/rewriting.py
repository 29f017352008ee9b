"""Rewrites a whole command for its reader; what the reader takes stays unchanged, in its place."""

import re
import shlex
from collections.abc import Iterable
from itertools import takewhile

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import is_of_stage, own_options, to_ik_stages
from spectui.commands.finding import Edits
from spectui.commands.items import DASHES, Item, words_of
from spectui.commands.reader import Reader
from spectui.commands.renames import LENGTHS, RENAMES, load_mode
from spectui.commands.server_options import (
    PREFIX,
    Arity,
    drawn_from,
    every_flag,
    server_option,
)
from spectui.format import printable
from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.dialect import Dialect
from spectui.options.placement import LOAD_MODE, LOAD_MODES

_ATTACHED = re.compile(r"(-[A-Za-z]+)(-?\d.*)")
_LOADING = ("no-mmap", "mmap", "mlock")
"""Switches that ``--load-mode`` replaced."""


def meant_by(item: Item) -> tuple[str, ...] | None:
    """The intended words; none where the flag has no effect; None if the intention is unknown."""
    flag, values = item.flag, item.values
    if not flag.strip("-"):
        return values
    name, equals, value = flag.partition("=")
    if equals and name.startswith("-"):
        # No build reads a value so.
        return (name, value, *values)
    attached = _ATTACHED.fullmatch(flag)
    if attached is not None:
        option = server_option(attached[1])
        is_value = option is not None and option.arity_of(attached[1]) is Arity.ONE
        return (attached[1], attached[2], *values) if is_value else None
    bare = flag.lstrip(f"-{DASHES}")
    spellings = (f"--{bare}", f"-{bare}", f"--{bare.lower()}", f"-{bare.lower()}")
    for spelling in spellings:
        option = server_option(spelling)
        if option is not None:
            # Without its values it would be no option either.
            n_needed = {Arity.ONE: 1, Arity.TWO: 2}.get(option.arity_of(spelling), 0)
            return None if len(values) < n_needed else (spelling, *values)
    return None


def is_unknown(item: Item, reader: Reader) -> bool:
    """Whether no table has the option, so that only a newer build may take it."""
    return reader.takes(item.flag) is None and item.flag.startswith("-") and meant_by(item) is None


def passed_on(items: Iterable[Item], reader: Reader) -> tuple[str, ...]:
    """A note on options that no table has, and that are written unchanged; none without any."""
    words = words_of(item for item in items if is_unknown(item, reader))
    told = f"passed on unchanged, since {drawn_from(reader.dialect)} has no such option"
    return (printable(f"{told}: {shlex.join(words)}"),) if words else ()


def likely(item: Item, command: ServerCommand, reader: Reader) -> tuple[str, ...]:
    """The reader's words for an unknown option that is a plain typo; none where it is not."""
    bare = item.spelling
    if not bare.startswith("--"):
        return ()
    of_draft = _of_draft(bare, reader)
    if of_draft is not None:
        return (of_draft, *item.values)
    for flag in (*sorted(reader.flags), *sorted(every_flag() - reader.flags)):
        if _is_typo(bare, flag):
            meant = item.renamed(flag)
            words = meant.words if flag in reader.flags else instead_of(meant, command, reader)
            if words:
                return words
    return ()


def _of_draft(flag: str, reader: Reader) -> str | None:
    """The draft's own option, where ``flag`` is another option's name with a ``d`` behind it."""
    option = server_option(flag.removesuffix("d")) if flag.endswith("d") else None
    draft = None if option is None else server_option(f"{option.long_flag}-draft")
    # Short names of the draft's options end so.
    names = [one for one in draft.flags if one in reader.flags] if draft is not None else []
    return min(names, key=lambda one: (not one.endswith("d"), len(one)), default=None)


def likely_variable(name: str, reader: Reader) -> str | None:
    """The reader's variable of the option that a name spells, or of which it is a plain typo."""
    spelled = name.removeprefix(PREFIX).lower().replace("_", "-")
    options = (server_option(f"{dashes}{spelled}") for dashes in ("--", "-"))
    named = (one.variable for one in options if one is not None)
    alike = (one for one in sorted(reader.variables) if _is_typo(name, one))
    return next((one for one in (*named, *alike) if one in reader.variables), None)


def _is_typo(name: str, meant: str) -> bool:
    """Whether one letter is missing, too many or wrong, or two neighbours have changed places."""
    pairs = zip(name, meant, strict=False)
    start = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
    one, other = name[start:], meant[start:]
    swapped = one[1::-1] + one[2:]
    return name != meant and (
        other in {one[1:], swapped} or one == other[1:] or one[1:] == other[1:]
    )


def instead_of(item: Item, command: ServerCommand, reader: Reader) -> tuple[str, ...] | None:
    """Equivalent words; none of them if the flag has no effect any more; None if unknown."""
    has_own = reader.is_current and item.name in LENGTHS and command.kinds
    other = None if has_own else _other_spelling(item, reader)
    if other is not None:
        return (other, *item.values)
    if item.server is None and item.option is None:
        return meant_by(item)
    match reader.dialect:
        case Dialect.LLAMA_CPP:
            return _current(item, command)
        case Dialect.LEGACY:
            return _modes(item, reader)
        case Dialect.IK:
            return () if is_of_stage(item) else _modes(item, reader)


def merged(item: Item, command: ServerCommand, reader: Reader) -> Edits:
    """Edits that replace several items by one option; empty if the item stands alone."""
    if reader.is_current and item.name in _LOADING and command.has("mlock"):
        return {at: _load_mode(one, command) for at, one in command.all(*_LOADING)}
    if reader.dialect is Dialect.IK and is_of_stage(item):
        return to_ik_stages(command)
    return {}


def _other_spelling(item: Item, reader: Reader) -> str | None:
    option, server = item.option, item.server
    spellings: list[str] = []
    if server is not None:
        is_negation = item.spelling in server.negations
        spellings += server.negations if is_negation else server.flags
    spellings += () if option is None else option.flags
    return next((flag for flag in spellings if reader.takes(flag)), None)


def _current(item: Item, command: ServerCommand) -> tuple[str, ...]:
    """The item in llama.cpp's words since spring 2026."""
    is_ngrams = any(kind.startswith("ngram-") for kind in command.kinds)
    if item.name in SHARED_BY_NGRAMS or (
        # A length is a model's, if there is one or no other drafter.
        item.name in LENGTHS and is_ngrams and not command.drafts_with_model
    ):
        return own_words(item, command)
    if item.name in {*_LOADING, LOAD_MODE.name} and command.has("mlock"):
        return _load_mode(item, command)
    renamed = RENAMES.get(item.name)
    is_off = item.is_negation and item.name not in {"no-mmap", "no-flash-attn"}
    return () if renamed is None or is_off else renamed.today(item.values)


def own_words(item: Item, command: ServerCommand) -> tuple[str, ...]:
    """Options of the command's n-gram drafters that replace an option they once shared."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in command.kinds:
        own = own_options(kind, item.name, item.values, command.value)
        found |= {name: values for name, values in own.items() if not command.has(name)}
    return tuple(word for name, values in found.items() for word in (f"--{name}", *values))


def _load_mode(item: Item, command: ServerCommand) -> tuple[str, ...]:
    """One option in place of ``--mlock`` and of what stands beside it."""
    if item.name != "mlock":
        return ()
    is_read = command.has("no-mmap") or command.value(LOAD_MODE.name) == "none"
    return (LOAD_MODE.long_flag, load_mode(("mlock", "no-mmap") if is_read else ("mlock",)))


def _modes(item: Item, reader: Reader) -> tuple[str, ...]:
    switches = LOAD_MODES.get(item.value, ()) if item.name == LOAD_MODE.name else ()
    return tuple(flag for name in switches if reader.takes(flag := f"--{name}"))
