"""Rules for numbers beside a draft: lengths, caches, places, slots, and misread values."""

import re
from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import NEW_LENGTHS, old_lengths, own_words
from spectui.commands.finding import Finding, error, note, warning
from spectui.commands.items import Item
from spectui.commands.reader import Reader
from spectui.commands.renames import BY_LAYERS, KINDS, MODEL_FLAGS
from spectui.options.dialect import Dialect
from spectui.options.drafters import MTP_KIND, ngram_of
from spectui.options.option import Decimal, Form, Whole

_LONG = 8
"""Draft length from which a finding reports drafting beside experts in RAM."""
_FULL_PRECISION = frozenset({"f32", "f16", "bf16"})
"""Types of a cache that is not quantised."""
_HURTS = "a draft guesses worse with a quantised cache, and its cache is small"
_SLOTS = 4
"""Default number of slots in llama-server since winter 2025."""
_SIZED = frozenset({"predict", "keep", "cache-ram"})
"""Options of whole numbers that spectui's own command line has not."""
_WHOLE = r"\s*[-+]?\d+"
_DECIMAL = r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
"""Pattern of the part of a number that the server reads (``std::stoi``, ``std::stof``)."""


def lengths_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on lengths that an old command leaves out, and whose defaults have changed."""
    lengths = old_lengths(command) if reader.is_current else {}
    for name, value in lengths.items():
        flag = MODEL_FLAGS[name]
        yield warning(
            flag,
            f"{flag} is not given",
            f"its default was {value} until spring 2026 and is {NEW_LENGTHS[name]} since; the "
            "command's other names are of before, so its author had the old value",
            fix=(flag, value),
        )


def ngrams_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on numbers that no drafter reads."""
    kinds = command.kinds
    # Which drafter another kind means, nobody knows yet.
    if not reader.is_current or not set(KINDS).issuperset(kinds):
        return
    for at, item in enumerate(command.items):
        own = ngram_of(item.name)
        if own is not None and own not in kinds:
            why = f"{own} is not in --spec-type"
            yield warning((at, item), f"nothing reads {item.shown}", why, write=())
    if kinds and all(kind.startswith("ngram-") for kind in kinds):
        for at, item in command.all(*MODEL_FLAGS):
            if reader.takes(item.flag) is not False:
                what = f"{', '.join(kinds)} does not read {item.shown}"
                why = "it is of draft models; n-gram drafters have lengths of their own"
                yield warning((at, item), what, why, write=own_words(item, command))


def misread_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on what the reader misreads or ignores; what it refuses, it judges itself."""
    for at, item in enumerate(command.items):
        if item.variable is None or reader.reads(item.variable) is not False:
            yield from _number(at, item)


def _number(at: int, item: Item) -> Iterator[Finding]:
    """Find a number of which the reader takes the digits ahead."""
    values = None if item.option is None else item.option.values
    ahead = _DECIMAL if isinstance(values, Decimal) else _WHOLE
    is_one = values is Form.LAYERS or isinstance(values, Whole | Decimal)
    is_number = is_one or item.name in _SIZED
    if item.value.isdigit() or not is_number:
        return
    read = re.match(ahead, item.value)
    # What begins with no number stops the server.
    if read is not None and read[0] != item.value:
        is_context = item.name == "ctx-size" and item.value.lower() == f"{read[0]}k"
        yield warning(
            (at, item),
            f"{item.flag} {item.value} is read as {read[0]}",
            "the server takes the number that it begins with, and forgets the rest",
            write=(item.flag, str(int(read[0]) * 1024)) if is_context else None,
            is_misread=True,
        )


def devices_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield errors on devices of RPC servers ahead of these: llama-server adds them one by one."""
    found = command.last("rpc")
    if found is None or reader.dialect is Dialect.IK:
        return
    for at, item in command.all("device", "device-draft", "mmproj-device"):
        if at < found[0] and "RPC" in item.value.upper():
            what = f"{item.shown} {item.value} stands ahead of {found[1].shown}"
            words = (*found[1].words, *item.words)
            why = "the server knows such a device only behind that option, and stops"
            yield error((at, item), what, why, write=words, fix={at: (), found[0]: words})


def template_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield a finding on a name of a chat template, which Jinja takes for the template itself."""
    found, engine = command.last("chat-template", "chat-template-file"), command.last("jinja")
    if found is None or not reader.is_current or (engine and engine[1].is_negation):
        return
    item = found[1]
    is_named = item.name == "chat-template" and "{" not in item.value
    if is_named and item.value not in {"", "chatml"}:
        what = f"{item.shown} {item.value} is the template itself, and every prompt that word"
        why = "Jinja knows chatml alone by its name, and --no-jinja the others"
        yield warning(found, what, why, is_misread=True)


def caches_rule(command: ServerCommand, _reader: Reader) -> Iterator[Finding]:
    """Yield findings on a quantised cache of the draft."""
    # The target's MTP layers hardly guess worse.
    is_mtp = command.draft_kind == MTP_KIND or not BY_LAYERS.isdisjoint(command.kinds)
    if command.has_draft and not is_mtp:
        for at, item in command.all("cache-type-k-draft", "cache-type-v-draft"):
            if item.value not in _FULL_PRECISION:
                what = f"the draft's cache is {item.value}"
                words = (item.flag, "f16")
                yield warning((at, item), what, _HURTS, write=words)


def experts_rule(command: ServerCommand, _reader: Reader) -> Iterator[Finding]:
    """Yield a finding on drafts that are long for experts in RAM."""
    found, longest = command.last("draft-max"), command.number("draft-max") or 0
    values = (item.value for _at, item in command.all("override-tensor"))
    in_ram = command.has("cpu-moe", "n-cpu-moe") or any("=CPU" in value for value in values)
    if found is not None and in_ram and longest >= _LONG:
        yield warning(
            found,
            f"drafts of {longest:.0f} tokens, beside weights in RAM",
            "each token of a draft reads other experts, so that verifying many costs nearly as "
            "much as decoding them; spectui tune finds the length that pays",
        )


def serving_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield a finding on slots that nobody asked for.

    Only the author knows how many users there are: slots have no words to write, and no correction
    or export changes them.
    """
    found, slots = command.last("parallel"), command.number("parallel")
    is_open = found is None or (slots is not None and slots < 0)
    if is_open and reader.is_current and (command.kinds or command.drafts_with_model):
        is_told = "not given" if found is None else "-1"
        yield note(
            found or "-np",
            f"-np is {is_told}, so that there are {_SLOTS} slots",
            "drafts pay best for one user at a time; caches with a sliding window or a recurrent "
            "state are kept for every slot; add -np 1 if there is one user, which neither a "
            "correction nor export does for you",
        )
