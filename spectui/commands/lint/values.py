"""Rules for values that the reader refuses, or reads differently than they look."""

from collections.abc import Iterator
from difflib import get_close_matches

from spectui.commands.command import ServerCommand
from spectui.commands.items import Item
from spectui.commands.lint.finding import (
    Finding,
    error,
)
from spectui.commands.reader import Reader
from spectui.commands.rewriting import OFF
from spectui.commands.server_options import Arity
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
    for at, item in enumerate(command.items):
        if not item.values or item.name == "spec-type":
            continue
        yield from _value(at, item, reader)
        if reader.dialect is not Dialect.IK:
            yield from _switched(at, item, reader)
        if item.name in {"override-tensor", "override-tensor-draft"}:
            yield from _placement(at, item, reader)


def _value(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    values = values_of(item.flag)
    if values is None or (reader.dialect is Dialect.IK and not values.is_everywhere):
        return
    for value in item.values:
        read = values.read(value)
        if read is None:
            yield _refused(at, item, value, values, reader)
        elif read != value.rstrip():
            yield _misread(at, item, value, read)


def _refused(at: int, item: Item, value: str, values: Values, reader: Reader) -> Finding:
    instead, is_meant = _instead(item, value, values)
    words = None if instead is None else (item.flag, instead)
    return error(
        (at, item),
        f"{reader.name} knows no {item.flag} {value}",
        f"it takes {values.what}, and stops at anything else",
        write=words,
        fix=words if is_meant else None,
    )


def _instead(item: Item, value: str, values: Values) -> tuple[str | None, bool]:
    """A replacement value, and whether it is certainly the intended one."""
    meant = meant_by(value, values.words)
    if meant is not None:
        return meant, True
    alike = next(iter(get_close_matches(value, values.words, 1, _ALIKE)), None)
    known = _INSTEAD.get(item.name.removesuffix("-draft"))
    return (alike, False) if alike is not None else (known, known is not None)


def meant_by(value: str, words: tuple[str, ...]) -> str | None:
    """The valid word that the value is another spelling of; None if there is none."""
    spelled = _MEANT.get(value.casefold(), value.casefold())
    others = {spelled, spelled.replace("_", "-"), spelled.replace("-", "_")}
    return next((word for word in words if word in others), None)


def _misread(at: int, item: Item, value: str, read: str) -> Finding:
    whole = _spelled_out(item.name, value, read)
    return error(
        (at, item),
        f"{item.flag} {value} is read as {read}",
        "the server takes the number that it begins with, and forgets the rest",
        fix=None if whole is None else (item.flag, whole),
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
    server = item.server
    if server is None or server.arity is not Arity.MAYBE or not server.negations:
        return
    off = server.negation_of(item.flag)
    flag = (off or item.flag) if item.value in OFF else item.flag
    yield error(
        (at, item),
        f"{reader.name} takes no {item.value} behind {item.flag}",
        "it is a switch, and the server stops at a word by itself",
        fix=(flag,),
    )


def _placement(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    for part in item.value.split(","):
        pattern, separator, buffer = part.partition("=")
        if not (pattern and separator and buffer):
            yield error(
                (at, item),
                f"{item.flag} {part} is no PATTERN=BUFFER",
                f"{reader.name} splits at commas first, and stops at a part without '='",
            )
