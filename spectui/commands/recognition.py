"""Recognises for which dialect a command was written."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from spectui.commands.command import ServerCommand
from spectui.commands.items import Item
from spectui.commands.renames import KNOWN_TO_IK, NONE
from spectui.commands.server_options import Arity
from spectui.options.dialect import Dialect
from spectui.options.drafters import NGRAM_KINDS

_FORK = re.compile(r"ik[_-]llama")
"""Part of the names of ik_llama.cpp's folders and images."""
_PLAIN = re.compile(r"llama[._-]cpp/")
"""Part of the names of llama.cpp's folders."""
_MOST_SHOWN = 3
_OTHERS = frozenset(Dialect) - {Dialect.IK}
_KINDS = frozenset(KNOWN_TO_IK) - {NONE, *NGRAM_KINDS}
"""Kinds that ``--spec-type`` names in ik_llama.cpp alone."""
_CACHES = ("cache-type-k", "cache-type-v", "cache-type-k-draft", "cache-type-v-draft")
_IK_WORDS = {
    "split-mode": ("graph", "attn"),
    **dict.fromkeys(_CACHES, ("q6_0", "q8_kv")),
}
"""Values that only ik_llama.cpp takes."""
_OTHER_WORDS = {
    "split-mode": ("row", "tensor"),
    "flash-attn": ("true", "false", "enabled", "disabled"),
    **dict.fromkeys(("gpu-layers", "gpu-layers-draft"), ("auto", "all")),
}
"""Values that only llama.cpp takes."""


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect of a command, and why."""

    dialect: Dialect
    reason: str
    is_open: bool = False
    """Whether nothing tells, so that it may be of any."""


def recognise(command: ServerCommand) -> Recognised:
    """The dialect that a command is written in.

    The program's folder decides, where it says whose it is. Else more options and values that only
    ik_llama.cpp takes than such that it lacks do. Commands for llama.cpp before spring 2026 count
    as llama.cpp's: they are held against what is built today.
    """
    folder = next(filter(_FORK.search, _places(command)), None)
    if folder is not None:
        return Recognised(dialect=Dialect.IK, reason=f"its program is {folder}")
    folder = next(filter(_PLAIN.search, _places(command)), None)
    if folder is not None:
        return Recognised(dialect=Dialect.LLAMA_CPP, reason=f"its program is {folder}")
    own = list(dict.fromkeys(filter(None, map(_only_in_ik, command.items))))
    missing = {item.flag: item.text for item in command.items if _is_missing_in_ik(item)}
    others = list(missing.values())
    if len(own) > len(others):
        return Recognised(dialect=Dialect.IK, reason=f"only ik_llama.cpp has {_shown(own)}")
    reason = "nothing in it says that it is for ik_llama.cpp"
    if own:
        reason = f"only llama.cpp has {_shown(others)}, though only ik_llama.cpp has {_shown(own)}"
    return Recognised(dialect=Dialect.LLAMA_CPP, reason=reason, is_open=not others)


def _shown(signs: Sequence[str]) -> str:
    more = f" and {len(signs) - _MOST_SHOWN} more" if len(signs) > _MOST_SHOWN else ""
    return f"{', '.join(signs[:_MOST_SHOWN])}{more}"


def _places(command: ServerCommand) -> Iterator[str]:
    """Yield the words that may name the program's folder, and images of containers."""
    inner = command if command.inside is None else command.inside
    yield from (*command.prelude, *inner.prelude)
    for entry in command.entries:
        yield str(entry.settings.get("image", ""))


def _only_in_ik(item: Item) -> str | None:
    """The option as only ik_llama.cpp takes it; None where others do too, or nobody does."""
    server, flag = item.server, item.spelling
    if server is None:
        return None
    if item.name == "spec-type":
        return item.text if ":" in item.value or item.value in _KINDS else None
    # It also takes what llama.cpp's other programs do.
    if server.is_harmless and server.known_to(flag) == {Dialect.IK}:
        return item.flag
    is_word = item.value.lower() in _IK_WORDS.get(item.name, ())
    return item.text if is_word or _is_word_of(item, frozenset({Dialect.IK})) else None


def _is_missing_in_ik(item: Item) -> bool:
    server = item.server
    if item.name == "spec-type":
        kinds = item.value.split(",")
        return ":" not in item.value and any(kind.startswith("draft-") for kind in kinds)
    if server is None:
        return False
    if Dialect.IK not in server.known_to(item.spelling):
        return True
    is_word = item.value.lower() in _OTHER_WORDS.get(item.name, ())
    return is_word or _is_word_of(item, _OTHERS)


def _is_word_of(item: Item, dialects: frozenset[Dialect]) -> bool:
    """Whether only some dialects take a word behind an option that others have as a switch."""
    server = item.server
    if server is None or server.arity is not Arity.MAYBE or not item.values:
        return False
    known = server.known_to(item.spelling)
    takes = {one for one in known if server.counts.get(one)}
    return bool(takes) and takes <= dialects and takes != known
