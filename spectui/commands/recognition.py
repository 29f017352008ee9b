"""Recognises for which dialect a command was written."""

import re
from collections.abc import Iterator

import msgspec

from spectui.commands.command import ServerCommand
from spectui.commands.items import Item
from spectui.commands.renames import KNOWN_TO_IK, NONE
from spectui.options.option import Dialect
from spectui.options.drafters import NGRAM_KINDS

_FOLDERS = (
    (re.compile(r"ik[_-]llama"), Dialect.IK),
    (re.compile(r"llama[._-]cpp/"), Dialect.LLAMA_CPP),
)
"""Parts of the names of folders and images, with whose they are."""
_KINDS = frozenset(KNOWN_TO_IK) - {NONE, *NGRAM_KINDS}
"""Kinds that ``--spec-type`` names in ik_llama.cpp alone."""
_CACHES = ("cache-type-k", "cache-type-v", "cache-type-k-draft", "cache-type-v-draft")
_IK_WORDS = {
    "split-mode": ("graph", "attn"),
    **dict.fromkeys(_CACHES, ("q6_0", "q8_kv")),
}
"""Values that only ik_llama.cpp takes."""


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
    for pattern, dialect in _FOLDERS:
        folder = next(filter(pattern.search, _places(command)), None)
        if folder is not None:
            return Recognised(dialect=dialect, reason=f"its program is {folder}")
    signs = dict.fromkeys(filter(None, map(_sign, command.items)))
    own, others = (
        [text for dialect, text in signs if dialect is one]
        for one in (Dialect.IK, Dialect.LLAMA_CPP)
    )
    if len(own) > len(others):
        return Recognised(dialect=Dialect.IK, reason=f"only ik_llama.cpp has {', '.join(own)}")
    reason = "nothing in it says that it is for ik_llama.cpp"
    if own:
        reason = f"only llama.cpp has {', '.join(others)}"
    return Recognised(dialect=Dialect.LLAMA_CPP, reason=reason, is_open=not others)


def _places(command: ServerCommand) -> Iterator[str]:
    """Yield the words that may name the program's folder, and the image of its container."""
    inner = command if command.inside is None else command.inside
    yield from (*command.prelude, *inner.prelude, command.image)


def _sign(item: Item) -> tuple[Dialect, str] | None:
    """Who alone takes an option or its value, with its text; None where others do, or nobody."""
    server, value = item.server, item.value
    if item.name == "spec-type":
        if ":" in value or value in _KINDS:
            return Dialect.IK, item.text
        is_other = any(kind.startswith("draft-") for kind in value.split(","))
        return (Dialect.LLAMA_CPP, item.text) if is_other else None
    if server is None:
        return None
    known = server.known_to(item.spelling)
    # It also takes what llama.cpp's other programs do.
    if known == {Dialect.IK} and server.is_harmless:
        return Dialect.IK, item.flag
    if value.lower() in _IK_WORDS.get(item.name, ()):
        return Dialect.IK, item.text
    return (Dialect.LLAMA_CPP, item.text) if Dialect.IK not in known else None
