"""Rules for caches, contexts, slots and sliding windows beside drafts."""

from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.lint.finding import (
    Finding,
    error,
    note,
    warning,
)
from spectui.commands.reader import Reader
from spectui.commands.server_options import FALSE
from spectui.options.dialect import Dialect
from spectui.severity import Severity

_FULL_PRECISION = frozenset({"f32", "f16", "bf16"})
_HURTS = "a draft guesses worse with a quantised cache, and its cache is small"
_BY_DEFAULT = 4
"""Default number of slots in llama-server since winter 2025."""


def caches_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on caches and contexts."""
    if command.has_draft:
        yield from _draft_caches(command)
        yield from _inherited(command, reader)
        yield from _draft_context(command, reader)
    yield from _quantised_values(command)
    yield from _batches(command)


def _draft_caches(command: ServerCommand) -> Iterator[Finding]:
    for at, item in command.all("cache-type-k-draft", "cache-type-v-draft"):
        if item.value not in _FULL_PRECISION:
            words = (item.flag, "f16")
            yield warning((at, item), f"the draft's cache is {item.value}", _HURTS, fix=words)


def _inherited(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    if reader.dialect is Dialect.LLAMA_CPP:
        return
    for name, flag in (("cache-type-k", "-ctkd"), ("cache-type-v", "-ctvd")):
        found = command.last(name)
        if found is None or command.has(f"{name}-draft") or found[1].value in _FULL_PRECISION:
            continue
        yield Finding(
            flag=found[1].shown,
            severity=Severity.WARNING,
            what=f"the draft's cache is {found[1].value} as well",
            why=f"{reader.name} gives the draft the target's types unless told; {_HURTS}",
            replacement=f"{flag} f16",
            edits={None: (flag, "f16")},
            at=found[0],
        )


def _draft_context(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    found = command.last("ctx-size-draft")
    own, whole = command.number("ctx-size-draft"), command.number("ctx-size")
    if found is None or reader.takes(found[1].flag) is False:
        return
    if not own or (whole is not None and 0 < whole <= own):
        return
    yield warning(
        found,
        f"the draft remembers {own:.0f} tokens, and the target "
        f"{'more' if not whole else f'{whole:.0f}'}",
        "once a text is longer, the draft drafts nothing or without what came before",
        fix=(),
    )


def _quantised_values(command: ServerCommand) -> Iterator[Finding]:
    found = command.last("flash-attn", "no-flash-attn")
    cache = command.value("cache-type-v")
    if found is None or cache is None or cache in _FULL_PRECISION:
        return
    at, item = found
    if item.name == "no-flash-attn" or item.value in FALSE:
        yield error(
            (at, item),
            f"a V cache of {cache}, without flash attention",
            "llama.cpp computes with a quantised V cache in flash attention alone, and stops",
            fix=("-fa", "on"),
        )


def _batches(command: ServerCommand) -> Iterator[Finding]:
    found = command.last("ubatch-size")
    micro, batch = command.number("ubatch-size"), command.number("batch-size")
    if found is None or micro is None:
        return
    batch = 2048 if batch is None else batch
    if micro > batch > 0:
        at, item = found
        yield warning(
            (at, item),
            f"{item.shown} {micro:.0f}, but a batch has at most {batch:.0f} tokens",
            f"no more than {batch:.0f} tokens are computed at once",
            write=("-b", f"{micro:.0f}"),
        )


def serving_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on parallel slots and sliding windows beside drafts."""
    if not command.kinds and not command.drafts_with_model:
        return
    found, slots = command.last("parallel"), command.number("parallel")
    if found is None and reader.is_current:
        yield Finding(
            flag="-np",
            severity=Severity.NOTE,
            what=f"-np is not given, so that there are {_BY_DEFAULT} slots",
            why="drafts pay best for one user at a time; caches with a sliding window or a "
            "recurrent state are kept for every slot",
            replacement="-np 1",
        )
    elif found is not None and slots is not None and slots > 1:
        yield note(
            found,
            f"{slots:.0f} slots draft beside each other",
            "a batch then verifies the drafts of several users, which costs more than it does "
            "for one; spectui measures one user at a time",
            write=(found[1].flag, "1"),
        )
    window = command.last("swa-full")
    if window is not None:
        yield note(
            window,
            "layers with a sliding window remember the whole context",
            "drafts need no more than the window, and the whole takes several times the memory",
            write=(),
        )
