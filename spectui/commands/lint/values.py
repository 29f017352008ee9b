"""What is said of values of llama-server's options that it refuses or misreads."""

from collections.abc import Iterator
from difflib import get_close_matches

from spectui.commands.command import ServerCommand
from spectui.commands.items import Item
from spectui.commands.lint.finding import (
    Finding,
    error,
    warning,
)
from spectui.commands.reader import Reader
from spectui.commands.rewriting import counted, switched, worded
from spectui.commands.stages import loads_draft
from spectui.commands.values import Values, values_of
from spectui.options.dialect import Dialect

_INSTEAD = {"split-mode": "layer", **dict.fromkeys(("cache-type-k", "cache-type-v"), "q8_0")}
"""Nearest equivalents of values of ik_llama.cpp; a draft's caches have the same."""
_MEANT = {"yes": "on", "y": "on", "no": "off", "n": "off"}
_ALIKE = 0.8
"""Similarity of two words, from 0 to 1, above which one may be meant by the other."""
_IN_TOKENS = (
    *("ctx-size", "ctx-size-draft", "batch-size", "ubatch-size", "predict", "keep", "fit-ctx"),
    *("cache-reuse", "yarn-orig-ctx", "kv-unified-per-slot"),
)
_FACTORS = {
    **{key: {"k": 1 << 10, "m": 1 << 20} for key in _IN_TOKENS},
    **{key: {"m": 1, "g": 1 << 10} for key in ("cache-ram", "fit-target")},
}
"""Multipliers of letters behind a number, by the option's unit: tokens, or MiB."""


def values_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on invalid values."""
    for at, item in _read(command, reader):
        if _is_miscounted(item, reader):
            yield _miscounted(at, item, reader)
            continue
        if not _is_idle(item, command, reader):
            yield from _item_value(at, item, reader)
        yield from _switched(at, item, reader)
    yield from misread_rule(command, reader)


def misread_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on values of which the reader takes a part."""
    for at, item in _read(command, reader):
        is_told = _is_miscounted(item, reader) or _is_idle(item, command, reader)
        values = None if is_told else values_of(item.flag, reader.dialect)
        if values is None:
            continue
        for value in _looked_at(item, values):
            read = values.read(value)
            if read is not None and read != value.rstrip():
                yield _misread(at, item, value, read)


def _looked_at(item: Item, values: Values) -> tuple[str, ...]:
    """The values that the reader looks at."""
    return item.values[-1:] if values.only_last else item.values


def _read(command: ServerCommand, reader: Reader) -> Iterator[tuple[int, Item]]:
    """Yield the items whose values the reader reads, but for those with a rule of their own."""
    for at, item in enumerate(command.items):
        is_unread = item.variable is not None and reader.reads(item.variable) is False
        if item.values and item.name != "spec-type" and not is_unread:
            yield at, item


def _is_idle(item: Item, command: ServerCommand, reader: Reader) -> bool:
    """Whether the reader does not look at a value that it would refuse elsewhere."""
    is_ik = reader.dialect is Dialect.IK
    if item.name == "chat-template":
        # With Jinja any text is a template, and current builds have it on.
        jinja = [not one.is_negation for _at, one in command.all("jinja")]
        return (jinja or [not is_ik])[-1] and bool(item.value or not is_ik)
    return (
        is_ik
        and item.name in {"cache-type-k-draft", "cache-type-v-draft"}
        and not loads_draft(command)
    )


def _is_miscounted(item: Item, reader: Reader) -> bool:
    """Whether an option has one value where the reader takes two, or two in place of one."""
    count = None if item.server is None else item.server.counts.get(reader.dialect)
    return count in {1, 2} and len(item.values) in {1, 2} and count != len(item.values)


def _miscounted(at: int, item: Item, reader: Reader) -> Finding:
    words = (item.flag, *counted(item, reader))
    takes = "one value" if len(words) == 2 else "two values"  # noqa: PLR2004 - a flag and its value
    return error(
        (at, item),
        f"{reader.name} takes {takes} behind {item.flag}",
        "other builds count otherwise, and it stops at what it does not read",
        fix=words if len(words) != 1 + len(item.values) else None,
    )


def _item_value(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    values = values_of(item.flag, reader.dialect)
    if values is None:
        return
    for value in _looked_at(item, values):
        if values.read(value) is None:
            yield _refused(at, item, value, values, reader)


def _refused(at: int, item: Item, value: str, values: Values, reader: Reader) -> Finding:
    instead, is_meant = _instead(item, value, values)
    words: tuple[str, ...] | None = None if instead is None else (item.flag, instead)
    own = worded(item, reader)
    if own != item.words:
        words, is_meant = own, True
    return error(
        (at, item),
        f"{reader.name} knows no {item.flag} {value}",
        f"it takes {values.what}, and stops at anything else{_in_ik(item, value, reader)}",
        write=words,
        fix=words if is_meant else None,
    )


def _in_ik(item: Item, value: str, reader: Reader) -> str:
    """Hint at ik_llama.cpp, where that takes the value."""
    theirs = values_of(item.flag, Dialect.IK)
    is_taken = theirs is not None and theirs.read(value) is not None
    return "; ik_llama.cpp takes it (--dialect ik)" if reader.is_current and is_taken else ""


def _instead(item: Item, value: str, values: Values) -> tuple[str | None, bool]:
    """A replacement value, and whether it is certainly the intended one."""
    meant = meant_by(value, values.words)
    if meant is not None:
        return meant, True
    alike = next(iter(get_close_matches(value, values.words, 1, _ALIKE)), None)
    # A near value is another one: its author chooses.
    return alike or _INSTEAD.get(item.name.removesuffix("-draft")), False


def meant_by(value: str, words: tuple[str, ...]) -> str | None:
    """The valid word that the value is another spelling of; None if there is none."""
    spelled = _MEANT.get(value.casefold(), value.casefold())
    others = {spelled, spelled.replace("_", "-"), spelled.replace("-", "_")}
    return next((word for word in words if word in others), None)


def _misread(at: int, item: Item, value: str, read: str) -> Finding:
    whole = _spelled_out(item.name, value, read)
    return warning(
        (at, item),
        f"{item.flag} {value} is read as {read}",
        "the server takes the number that it begins with, and forgets the rest",
        write=None if whole is None else (item.flag, whole),
    )


def _spelled_out(name: str, value: str, read: str) -> str | None:
    """The number that was probably meant; None if unknown."""
    rest = value.removeprefix(read)
    factor = _FACTORS.get(name, {}).get(rest.casefold())
    if factor is not None and read.isdigit():
        return str(int(read) * factor)
    digits = rest[1:]
    if rest[:1] == "_" and digits.replace("_", "").isdigit():
        return f"{read}{digits.replace('_', '')}"
    return f"{read}.{digits}" if rest[:1] == "," and digits.isdigit() and read == "0" else None


def _switched(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find a value of ik_llama.cpp behind a switch that takes none."""
    words = switched(item, reader)
    if words is None:
        return
    yield error(
        (at, item),
        f"{reader.name} takes no {item.value} behind {item.flag}",
        "it is a switch, and the server stops at a word by itself",
        fix=words,
    )
