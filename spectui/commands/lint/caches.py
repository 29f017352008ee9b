"""Rules for caches of drafts, and for how many users are served."""

from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.finding import FULL_PRECISION, Finding, Topic, error, note, warning
from spectui.commands.reader import Reader
from spectui.commands.renames import BY_LAYERS
from spectui.commands.server_options import FALSE
from spectui.options.dialect import Dialect
from spectui.options.drafters import MTP_KIND

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


def _draft_caches(command: ServerCommand) -> Iterator[Finding]:
    if _is_mtp(command):
        # It hardly guesses worse.
        return
    for at, item in command.all("cache-type-k-draft", "cache-type-v-draft"):
        if item.value not in FULL_PRECISION:
            words = (item.flag, "f16")
            yield warning(
                (at, item),
                f"the draft's cache is {item.value}",
                _HURTS,
                write=words,
                topic=Topic.DRAFT_CACHE,
            )


def _is_mtp(command: ServerCommand) -> bool:
    """Whether the draft is a file of the target's MTP layers."""
    return command.draft_kind == MTP_KIND or not BY_LAYERS.isdisjoint(command.kinds)


def _inherited(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    if reader.dialect is Dialect.LLAMA_CPP or _is_mtp(command):
        return
    for name, flag in (("cache-type-k", "-ctkd"), ("cache-type-v", "-ctvd")):
        found = command.last(name)
        if found is None or command.has(f"{name}-draft") or found[1].value in FULL_PRECISION:
            continue
        yield warning(
            found,
            f"the draft's cache is {found[1].value} as well",
            f"{reader.name} gives the draft the target's types unless told; {_HURTS}",
            write=(flag, "f16"),
            topic=Topic.DRAFT_CACHE,
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
        write=(),
    )


def _quantised_values(command: ServerCommand) -> Iterator[Finding]:
    found = command.last("flash-attn", "no-flash-attn")
    caches = [command.value("cache-type-v")]
    if command.drafts_with_model:
        caches.append(command.value("cache-type-v-draft"))
    cache = next((one for one in caches if one is not None and one not in FULL_PRECISION), None)
    if found is None or cache is None:
        return
    at, item = found
    if item.name == "no-flash-attn" or item.value.lower() in FALSE:
        yield error(
            (at, item),
            f"a V cache of {cache}, without flash attention",
            "llama.cpp computes with a quantised V cache in flash attention alone, and stops",
            fix=("-fa", "on"),
            topic=Topic.CONTRADICTION,
        )


def serving_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on parallel slots and sliding windows beside drafts.

    Only the author knows how many users there are: slots have no words to write, and no correction
    or export changes them.
    """
    if not command.kinds and not command.drafts_with_model:
        return
    found, slots = command.last("parallel"), command.number("parallel")
    is_default = found is None or (slots is not None and slots < 0)
    if is_default and reader.is_current:
        is_told = "not given" if found is None else "-1"
        yield note(
            found or "-np",
            f"-np is {is_told}, so that there are {_BY_DEFAULT} slots",
            "drafts pay best for one user at a time; caches with a sliding window or a recurrent "
            "state are kept for every slot; add -np 1 if there is one user, which neither a "
            "correction nor export does for you",
        )
    elif found is not None and slots is not None and slots > 1:
        yield note(
            found,
            f"{slots:.0f} slots draft beside each other",
            "a batch then verifies the drafts of several users, which costs more than it does "
            "for one; -np 1 is for one user",
        )
    window = command.last("swa-full")
    if window is not None:
        yield note(
            window,
            "layers with a sliding window remember the whole context",
            "drafts need no more than the window, and the whole takes several times the memory",
            write=(),
        )
