"""Rules for what lies beside a draft: caches, slots, placements, and values that are misread."""

import re
from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.finding import FULL_PRECISION, Finding, Topic, error, note, warning
from spectui.commands.home import is_named_so
from spectui.commands.items import Item
from spectui.commands.measured import is_ignored
from spectui.commands.reader import Reader
from spectui.commands.renames import BY_LAYERS
from spectui.commands.server_options import FALSE
from spectui.options.dialect import Dialect
from spectui.options.drafters import MTP_KIND
from spectui.options.option import Decimal, Form, Whole

_HURTS = "a draft guesses worse with a quantised cache, and its cache is small"
_SLOTS = 4
"""Default number of slots in llama-server since winter 2025."""
_IN_TOKENS = frozenset({"ctx-size", "batch-size", "ubatch-size", "predict", "keep", "fit-ctx"})
_IN_MIB = frozenset({"cache-ram", "fit-target"})
_TOKENS = {"k": 1 << 10, "m": 1 << 20}
_MIB = {"m": 1, "g": 1 << 10}
"""Multipliers of letters behind a number."""
_WHOLE = r"\s*[-+]?\d+"
_DECIMAL = r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
"""Pattern of the part of a number that the server reads (``std::stoi``, ``std::stof``)."""
_WITH_UNIT = r"(\d+) ?([kmg])(i?b)?"
_JINJA_KNOWS = "chatml"
"""The only name that llama-server looks up with Jinja as well."""


def misread_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on what the reader misreads or ignores; what it refuses, it judges itself."""
    for at, item in enumerate(command.items):
        if item.is_path and any(map(is_named_so, item.values)):
            yield warning(
                (at, item),
                f"{item.flag} {item.value} is in a folder called ~, and not in the home folder",
                "only a shell replaces ~, and not in quotes; the server looks for such a folder "
                "where it is started: write the whole path",
                topic=Topic.MISREAD,
            )
        if item.variable is None or reader.reads(item.variable) is not False:
            yield from _number(at, item)
        if is_ignored(item):
            why = "llama-server takes the number of a draft's threads (-td, -tbd), and no more"
            yield warning((at, item), f"{item.text} does nothing", why, write=())
    if reader.dialect is Dialect.LLAMA_CPP:
        yield from _literal_template(command)


def _literal_template(command: ServerCommand) -> Iterator[Finding]:
    """Find the name of a template of llama.cpp's own, which Jinja takes for the whole prompt."""
    found, jinja = command.last("chat-template"), command.last("jinja")
    is_off = jinja is not None and jinja[1].is_negation
    if found is None or is_off or "{" in found[1].value or found[1].value in {"", _JINJA_KNOWS}:
        return
    yield warning(
        found,
        f"{found[1].text} makes every prompt the text {found[1].value!r}",
        "with Jinja, the default, the value is the template itself, and names of templates count "
        "beside --no-jinja alone; without it the model's own template is taken",
        write=(),
    )


def _number(at: int, item: Item) -> Iterator[Finding]:
    """Find a number of which the reader takes the digits ahead."""
    values = None if item.option is None else item.option.values
    ahead = _DECIMAL if isinstance(values, Decimal) else _WHOLE
    is_sized = item.name in _IN_TOKENS | _IN_MIB
    is_list = item.name == "fit-target" and "," in item.value
    is_one = values is Form.LAYERS or isinstance(values, Whole | Decimal)
    is_number = (is_sized or is_one) and not is_list
    if item.value.isdigit() or not is_number:
        return
    read = re.match(ahead, item.value)
    # What begins with no number stops the server.
    if read is not None and read[0] != item.value:
        meant = _meant(item)
        yield warning(
            (at, item),
            f"{item.flag} {item.value} is read as {read[0]}",
            "the server takes the number that it begins with, and forgets the rest",
            write=None if meant is None else (item.flag, meant),
            topic=Topic.MISREAD,
        )


def _meant(item: Item) -> str | None:
    """The number that one with a unit stands for, as the server reads it; None for any other."""
    sized = re.fullmatch(_WITH_UNIT, item.value, re.IGNORECASE)
    factors = _MIB if item.name in _IN_MIB else _TOKENS if item.name in _IN_TOKENS else {}
    factor = None if sized is None else factors.get(sized[2].lower())
    return None if sized is None or factor is None else str(int(sized[1]) * factor)


def caches_rule(command: ServerCommand, _reader: Reader) -> Iterator[Finding]:
    """Yield findings on quantised caches."""
    # The target's MTP layers hardly guess worse.
    is_mtp = command.draft_kind == MTP_KIND or not BY_LAYERS.isdisjoint(command.kinds)
    if command.has_draft and not is_mtp:
        for at, item in command.all("cache-type-k-draft", "cache-type-v-draft"):
            if item.value not in FULL_PRECISION:
                what = f"the draft's cache is {item.value}"
                words = (item.flag, "f16")
                yield warning((at, item), what, _HURTS, write=words)
    yield from _quantised_values(command)


def _quantised_values(command: ServerCommand) -> Iterator[Finding]:
    found = command.last("flash-attn", "no-flash-attn")
    names = ["cache-type-v", *(["cache-type-v-draft"] if command.drafts_with_model else [])]
    caches = (command.value(name) or "f16" for name in names)
    cache = next((one for one in caches if one not in FULL_PRECISION), None)
    if found is None or cache is None:
        return
    if found[1].name == "no-flash-attn" or found[1].value.lower() in FALSE:
        yield error(
            found,
            f"a V cache of {cache}, without flash attention",
            "llama.cpp computes with a quantised V cache in flash attention alone, and stops",
            fix=("-fa", "on"),
            topic=Topic.CONTRADICTION,
        )


def placement_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on a draft that is kept apart."""
    found, layers = command.last("gpu-layers-draft"), command.value("gpu-layers")
    is_apart = found is not None and found[1].value == "0" and command.drafts_with_model
    has_layers = layers != "0" and (layers is not None or reader.is_current)
    if found is not None and is_apart and has_layers:
        yield warning(
            found,
            f"{found[1].text} keeps the draft in RAM, while the target has layers on the GPU",
            "the draft is computed by the CPU then, and the GPU waits for each of its tokens; a "
            "draft takes little of a GPU's memory",
            write=(found[1].flag, "99"),
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
