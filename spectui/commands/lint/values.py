"""Rules for values that builds count otherwise, and for sizes of which a server reads a part."""

import re
from collections.abc import Iterator

from spectui.commands.arguments import all_layers
from spectui.commands.command import LAYERS, ServerCommand
from spectui.commands.finding import Finding, Topic, error, warning
from spectui.commands.items import FLASH_ATTENTION, Item
from spectui.commands.reader import Reader
from spectui.commands.rewriting import counted, switched
from spectui.options.dialect import Dialect
from spectui.options.option import Decimal, Layers, Whole

_IN_TOKENS = (
    *("ctx-size", "ctx-size-draft", "batch-size", "ubatch-size", "predict", "keep", "fit-ctx"),
    *("cache-reuse", "yarn-orig-ctx", "kv-unified-per-slot"),
)
_FACTORS = {
    **{key: {"k": 1 << 10, "m": 1 << 20} for key in _IN_TOKENS},
    **{key: {"m": 1, "g": 1 << 10} for key in ("cache-ram", "fit-target")},
}
"""Multipliers of letters behind a number, by the option's unit: tokens, or MiB."""
_WORDS = frozenset(FLASH_ATTENTION) - {"on", "off", "auto", "1", "0", "-1"}
"""Words behind ``-fa`` that only llama.cpp takes."""
_NO_JINJA = "--no-jinja"
_JINJA_KNOWS = "chatml"
"""The only name that llama-server looks up with Jinja as well."""
_SIZE = re.compile(r"(\d+)([kmg]|(?:_\d+)+)", re.IGNORECASE)


def values_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on values that the reader's builds count or spell otherwise."""
    for at, item in _read(command, reader):
        words = switched(item, reader)
        if not item.value and _is_numeric(item):
            yield error(
                (at, item),
                f"{item.shown} is empty",
                "the server wants a number there, and stops",
                fix=(),
            )
        elif _is_miscounted(item, reader):
            yield _miscounted(at, item, reader)
        elif words is not None:
            yield error(
                (at, item),
                f"{reader.name} takes no {item.value} behind {item.flag}",
                "it is a switch, and the server stops at a word by itself",
                fix=words,
            )
        elif reader.dialect is Dialect.IK and item.name == "flash-attn" and item.value in _WORDS:
            yield error(
                (at, item),
                f"{reader.name} knows no {item.text}",
                "it takes on, off or auto",
                fix=(item.flag, FLASH_ATTENTION[item.value]),
            )
        elif reader.dialect is Dialect.IK and item.name in LAYERS and item.value.isalpha():
            # What is left to the server stays so, as its default.
            own = {"all": (item.flag, all_layers(reader.dialect)), "auto": ()}
            yield error(
                (at, item),
                f"{reader.name} knows no {item.text}",
                "it takes a number of layers, and stops at a word",
                fix=own.get(item.value),
            )
    yield from _misread(command, reader)
    if reader.dialect is Dialect.LLAMA_CPP:
        yield from _literal_template(command)


def _literal_template(command: ServerCommand) -> Iterator[Finding]:
    """Find the name of a template of llama.cpp's own, which Jinja takes for the whole prompt."""
    found, jinja = command.last("chat-template"), command.last("jinja")
    is_off = jinja is not None and jinja[1].spelling == _NO_JINJA
    if found is None or is_off or "{" in found[1].value or found[1].value in {"", _JINJA_KNOWS}:
        return
    yield warning(
        found,
        f"{found[1].text} makes every prompt the text {found[1].value!r}",
        "with Jinja, the default, the value is the template itself, and names of templates count "
        f"beside {_NO_JINJA} alone; without it the model's own template is taken",
        write=(),
    )


def _misread(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find sizes of which the reader takes the digits ahead."""
    for at, item in _read(command, reader):
        found = _SIZE.fullmatch(item.value) if item.name in _FACTORS else None
        if found is None:
            continue
        factor = _FACTORS[item.name].get(found[2].lower())
        whole = str(int(found[1]) * factor) if factor else item.value.replace("_", "")
        yield warning(
            (at, item),
            f"{item.flag} {item.value} is read as {found[1]}",
            "the server takes the number that it begins with, and forgets the rest",
            write=(item.flag, whole) if whole.isdigit() else None,
            topic=Topic.MISREAD,
        )


def _read(command: ServerCommand, reader: Reader) -> Iterator[tuple[int, Item]]:
    """Yield the items whose values the reader reads."""
    for at, item in enumerate(command.items):
        is_unread = item.variable is not None and reader.reads(item.variable) is False
        if item.values and not is_unread:
            yield at, item


def _is_numeric(item: Item) -> bool:
    return item.option is not None and isinstance(item.option.values, (Whole, Decimal, Layers))


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
