"""Rewrites a whole command for its reader; what the reader takes stays unchanged, in its place."""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import is_of_stage, own_options, to_ik_stages
from spectui.commands.finding import Edits
from spectui.commands.items import DASHES, FLASH_ATTENTION, Item, divide, words_of
from spectui.commands.reader import Accepted, Reader
from spectui.commands.renames import IK_KINDS, LENGTHS, RENAMES, load_mode
from spectui.commands.server_options import (
    PREFIX,
    Arity,
    drawn_from,
    every_flag,
    server_option,
)
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.dialect import Dialect
from spectui.options.drafters import MODEL_KIND, DraftSimple, numbers_of
from spectui.options.placement import LOAD_MODE, LOAD_MODES
from spectui.options.setup import FlashAttention

_ATTACHED = re.compile(r"(-[A-Za-z]+)(-?\d.*)")
_LOADING = ("no-mmap", "mmap", "mlock", "direct-io", "no-direct-io")
"""Switches that ``--load-mode`` replaced."""
_IK_FLAGS = {one.ik[-1]: one.flags[0] for one in numbers_of(DraftSimple)}
"""Options of ik_llama.cpp before its ``--spec-type`` took settings."""
_ALIKE = 0.9
"""Similarity of two names, from 0 to 1, above which one is a typo of the other."""


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


def as_meant(command: ServerCommand) -> ServerCommand:
    """The command with misspelled options under their names, each in its place."""
    return replace(command, items=tuple(map(_as_meant, command.items)))


def _as_meant(item: Item) -> Item:
    is_known = item.server is not None or item.option is not None
    words = None if is_known else meant_by(item)
    meant = tuple(divide(words or ()))
    return meant[0] if len(meant) == 1 else item


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
    for flags in (reader.flags, every_flag() - reader.flags):
        for flag in get_close_matches(bare, sorted(flags), 1, _ALIKE):
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
    alike = get_close_matches(name, sorted(reader.variables), 1, _ALIKE)
    return next((one for one in (*named, *alike) if one in reader.variables), None)


def instead_of(item: Item, command: ServerCommand, reader: Reader) -> tuple[str, ...] | None:
    """Equivalent words; none of them if the flag has no effect any more; None if unknown."""
    has_own = reader.is_current and item.name in LENGTHS and command.kinds
    other = None if has_own else _other_spelling(item, reader)
    if other is not None:
        return (other, *item.values)
    if item.server is None and item.option is None:
        return meant_by(item)
    if reader.is_current and not (item.name == LOAD_MODE.name and not reader.takes(item.flag)):
        return _current(item, command)
    return () if reader.dialect is Dialect.IK and is_of_stage(item) else _modes(item, reader)


def merged(item: Item, command: ServerCommand, reader: Reader) -> Edits:
    """Edits that replace several items by one option; empty if the item stands alone."""
    if reader.is_current and item.name in _LOADING:
        given = list(command.all(*_LOADING, LOAD_MODE.name))
        if len(given) > 1:
            mode = _load_mode([one for _at, one in given])
            return {at: mode if at == given[0][0] else () for at, _one in given}
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
    if item.name in {*_LOADING, LOAD_MODE.name}:
        given = [one for _at, one in command.all(*_LOADING, LOAD_MODE.name)] or [item]
        return _load_mode(given) if item.name == given[0].name else ()
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


def _load_mode(given: Sequence[Item]) -> tuple[str, ...]:
    """One option in place of the switches that it replaced, and of itself; none without effect.

    Of ``--mmap`` and ``--no-mmap`` the last counts; ``--direct-io`` reads the file whatever they
    say, and no mode has it beside ``--mlock``.
    """
    names = [name for one in given for name in _switches(one)]
    direct = [name for name in names if name in {"direct-io", "no-direct-io"}]
    mapped = [name for name in names if name in {"mmap", "no-mmap"}]
    is_direct = direct[-1:] == ["direct-io"]
    is_read = is_direct or mapped[-1:] == ["no-mmap"]
    if "mlock" in names:
        mode = load_mode(("mlock", "no-mmap") if is_read else ("mlock",))
    elif is_direct:
        mode = load_mode(("direct-io",))
    else:
        mode = load_mode(("no-mmap",)) if is_read else "".join(mapped[-1:])
    return (LOAD_MODE.long_flag, mode) if mode else ()


def _switches(item: Item) -> tuple[str, ...]:
    """The switches that an option for loading stands for."""
    if item.name != LOAD_MODE.name:
        return (item.name,)
    return LOAD_MODES.get(item.value) or ((item.value,) if item.value == "mmap" else ())


def _modes(item: Item, reader: Reader) -> tuple[str, ...]:
    switches = LOAD_MODES.get(item.value, ()) if item.name == LOAD_MODE.name else ()
    return tuple(flag for name in switches if reader.takes(flag := f"--{name}"))


def spelled(items: Iterable[Item], accepted: Accepted) -> tuple[Item, ...]:
    """The options under names that a binary takes.

    Raises:
        BadInputError: it has no name for one of them.
    """
    own = ServerCommand(items=tuple(items))
    return tuple(one for item in own.items for one in divide(_spelled(item, own, accepted)))


def _spelled(item: Item, command: ServerCommand, accepted: Accepted) -> tuple[str, ...]:
    if item.name == "flash-attn" and item.spelling in accepted.bare:
        return _switched(item, accepted)
    if item.name == "spec-type" and item.values:
        return _drafting(item, accepted)
    if item.spelling in accepted.flags:
        return (item.flag, *item.values)
    words = instead_of(item, command, Reader(dialect=accepted.dialect, accepted=accepted))
    if not words:
        raise _untaken(item.flag, accepted)
    return words


def _untaken(what: str, accepted: Accepted) -> BadInputError:
    return BadInputError(
        f"{accepted.program} does not take {what}; leave it out, or give another --server-bin"
    )


def _drafting(item: Item, accepted: Accepted) -> tuple[str, ...]:
    """The drafter kinds; nothing where the draft model alone selects them."""
    flag, value = item.spelling, item.value
    drafter, _, settings = value.partition(":")
    if flag not in accepted.flags and settings and drafter == "draft":
        pairs = (setting.partition("=") for setting in settings.split(","))
        words = [w for key, _, text in pairs for w in (_IK_FLAGS[key], text)]
        return words_of(spelled(divide(words), accepted))
    if flag not in accepted.flags and value != MODEL_KIND:
        raise _untaken(f"{flag} {value}", accepted)
    if flag in accepted.flags and (settings or not accepted.drafters):
        return (flag, value)
    # Builds whose list lacks it draft with a draft model wherever one is given.
    named = [one for one in value.split(",") if one in accepted.drafters or one != MODEL_KIND]
    return (flag, ",".join(_drafter(one, accepted) for one in named)) if named else ()


def _drafter(name: str, accepted: Accepted) -> str:
    for known in (name, IK_KINDS.get(name, name)):
        if known in accepted.drafters:
            return known
    raise _untaken(f"--spec-type {name}", accepted)


def _switched(item: Item, accepted: Accepted) -> tuple[str, ...]:
    """``-fa`` for builds before autumn 2025, which have it as a switch that is off."""
    wanted = FLASH_ATTENTION.get(item.values[0]) if item.values else "on"
    if wanted == FlashAttention.AUTO:
        raise BadInputError(
            f"{item.flag} takes no value in {accepted.program}, which cannot choose by itself; "
            "measure with -fa on or -fa off"
        )
    return (item.flag,) if wanted == FlashAttention.ON else ()
