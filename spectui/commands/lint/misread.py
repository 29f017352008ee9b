"""Rules for what a server takes without a word, and reads otherwise than it looks."""

import re
from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Topic, warning
from spectui.commands.home import is_named_so
from spectui.commands.items import Item
from spectui.commands.measured import is_ignored
from spectui.commands.reader import Reader
from spectui.options.dialect import Dialect
from spectui.options.option import Decimal, Layers, Whole

_IN_TOKENS = (
    *("ctx-size", "ctx-size-draft", "batch-size", "ubatch-size", "predict", "keep", "fit-ctx"),
    *("cache-reuse", "yarn-orig-ctx", "kv-unified-per-slot"),
)
_IN_MIB = ("cache-ram", "fit-target")
_FACTORS = {
    **{key: {"k": 1 << 10, "m": 1 << 20} for key in _IN_TOKENS},
    **{key: {"m": 1, "g": 1 << 10} for key in _IN_MIB},
}
"""Multipliers of letters behind a number, by the option's unit: tokens, or MiB."""
_LISTS = frozenset({"fit-target", "tensor-split"})
"""Options that take a number for each device."""
_WHOLE = frozenset(
    {*_FACTORS, "parallel", "threads-http", "timeout", "port", "repeat-last-n", "grp-attn-n"}
    | {"ctx-checkpoints", "checkpoint-min-step", "reasoning-budget", "image-min-tokens"}
    | {"image-max-tokens", "dry-allowed-length", "dry-penalty-last-n", "cache-ram-n-min"}
)
_DECIMAL = frozenset(
    {"tensor-split", "repeat-penalty", "presence-penalty", "frequency-penalty", "typical"}
    | {"top-nsigma", "xtc-probability", "xtc-threshold", "dry-multiplier", "dry-base"}
    | {"dynatemp-range", "dynatemp-exp", "rope-scale", "rope-freq-base", "rope-freq-scale"}
    | {"yarn-ext-factor", "yarn-attn-factor", "yarn-beta-slow", "yarn-beta-fast"}
    | {"spec-draft-p-split", "slot-prompt-similarity", "mirostat-lr", "mirostat-ent"}
)
"""Options with a number that spectui's own command line has not; of those it knows the values."""
_WHOLE_AHEAD = re.compile(r"\s*[-+]?\d+")
_DECIMAL_AHEAD = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
"""Part of a number that the server reads (``std::stoi``, ``std::stof``)."""
_GROUPED = re.compile(r"[-+]?\d{1,3}([,.'_\u2009\u00a0 ]\d{3})+|\d+(_\d+)+")
_WITH_COMMA = re.compile(r"[-+]?\d*,\d+")
_WITH_UNIT = re.compile(r"(\d+) ?([kmg])(i?b)?", re.IGNORECASE)
_NO_JINJA = "--no-jinja"
_JINJA_KNOWS = "chatml"
"""The only name that llama-server looks up with Jinja as well."""


def misread_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on what the reader misreads or ignores; what it refuses, it judges itself."""
    yield from _home(command)
    yield from _numbers(command, reader)
    yield from _idle_threads(command)
    if reader.dialect is Dialect.LLAMA_CPP:
        yield from _literal_template(command)


def _numbers(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find numbers of which the reader takes the digits ahead."""
    for at, item in enumerate(command.items):
        ahead = _ahead(item)
        is_unread = item.variable is not None and reader.reads(item.variable) is False
        if ahead is None or is_unread:
            continue
        parts = re.split(r"[,/]+", item.value) if item.name in _LISTS else [item.value]
        read = [found[0] for part in parts if (found := ahead.match(part)) is not None]
        # What begins with no number stops the server.
        if len(read) < len(parts) or read == parts:
            continue
        meant = [_meant(item.name, part, ahead) for part in parts]
        whole = None if None in meant else ",".join(filter(None, meant))
        yield warning(
            (at, item),
            f"{item.flag} {item.value} is read as {','.join(read)}",
            "the server takes the number that it begins with, and forgets the rest",
            write=None if whole is None else (item.flag, whole),
            topic=Topic.MISREAD,
        )


def _ahead(item: Item) -> re.Pattern[str] | None:
    """Pattern of the part of an option's number that the server reads; None without a number."""
    values = None if item.option is None else item.option.values
    if not item.values or item.value.isdigit():
        return None
    if item.name in _WHOLE or isinstance(values, Whole | Layers):
        return _WHOLE_AHEAD
    return _DECIMAL_AHEAD if item.name in _DECIMAL or isinstance(values, Decimal) else None


def _meant(name: str, text: str, ahead: re.Pattern[str]) -> str | None:
    """The number that a text stands for, as the server reads it; None where it is not clear."""
    if ahead.fullmatch(text):
        return text
    parts = re.split("[:;]", text)
    if name in _LISTS and all(map(ahead.fullmatch, parts)):
        return ",".join(parts)
    if ahead is _DECIMAL_AHEAD:
        return text.replace(",", ".") if _WITH_COMMA.fullmatch(text) else None
    if _GROUPED.fullmatch(text):
        return re.sub(r"[^-\d]", "", text)
    sized = _WITH_UNIT.fullmatch(text)
    factor = None if sized is None else _FACTORS.get(name, {}).get(sized[2].lower())
    return None if sized is None or factor is None else str(int(sized[1]) * factor)


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


def _home(command: ServerCommand) -> Iterator[Finding]:
    """Yield a finding for every path whose ``~`` no shell replaces."""
    for at, item in enumerate(command.items):
        if item.is_path and any(map(is_named_so, item.values)):
            yield warning(
                (at, item),
                f"{item.flag} {item.value} is in a folder called ~, and not in the home folder",
                "only a shell replaces ~, and not in quotes; the server looks for such a folder "
                "where it is started: write the whole path",
                topic=Topic.MISREAD,
            )


def _idle_threads(command: ServerCommand) -> Iterator[Finding]:
    """Find options of a draft's threads that llama-server reads and does not apply."""
    for at, item in enumerate(command.items):
        if is_ignored(item):
            why = "llama-server takes the number of a draft's threads (-td, -tbd), and no more"
            yield warning((at, item), f"{item.text} does nothing", why, write=())
