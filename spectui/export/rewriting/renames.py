"""Replacements of flags that the reader does not take."""

from spectui.export.old_ngrams import own_options
from spectui.export.rewriting.edits import Edit
from spectui.export.rewriting.ik_stages import in_stages, is_of_stage
from spectui.export.rewriting.items import Command, Item, is_negation
from spectui.export.rewriting.misspelled import meant_by
from spectui.export.rewriting.reader import Reader
from spectui.export.server_options import canonical
from spectui.options.dialect import Dialect

_LENGTHS = {"draft-max": "n-max", "draft-min": "n-min"}
_MODES = {
    "none": ("--no-mmap",),
    "mlock": ("--mlock", "--no-mmap"),
    "mmap+mlock": ("--mlock",),
    "dio": ("--direct-io",),
}
"""Equivalents of ``--load-mode`` as separate switches."""
_LOADING = ("no-mmap", "mmap", "mlock")
"""Switches that ``--load-mode`` replaced."""


def instead_of(item: Item, command: Command, reader: Reader) -> tuple[str, ...] | None:
    """Equivalent words; none of them if the flag has no effect any more; None if unknown."""
    has_own = reader.is_current and item.name in _LENGTHS and command.kinds
    other = None if has_own else _other_spelling(item, reader)
    if other is not None:
        return (other, *item.given.values)
    if item.given.server is None and item.given.option is None:
        return meant_by(item.given)
    match reader.dialect:
        case Dialect.LLAMA_CPP:
            return _current(item, command)
        case Dialect.LEGACY:
            return _modes(item, reader)
        case Dialect.IK:
            return () if is_of_stage(item) else _modes(item, reader)


def together(item: Item, command: Command, reader: Reader) -> tuple[Edit, ...]:
    """Edits that replace several items by one option; empty if the item stands alone."""
    if reader.is_current and item.name in _LOADING and command.has("mlock"):
        places = list(command.all(*_LOADING))
        return tuple(Edit(at=at, words=_load_mode(one, command)) for at, one in places)
    if reader.dialect is Dialect.IK and is_of_stage(item):
        return in_stages(command)
    return ()


def _other_spelling(item: Item, reader: Reader) -> str | None:
    option, server = item.given.option, item.given.server
    spellings: list[str] = []
    if server is not None:
        is_negation = canonical(item.given.flag) in server.negations
        spellings += server.negations if is_negation else server.flags
    spellings += () if option is None else option.flags
    return next((flag for flag in spellings if reader.takes(flag)), None)


def _current(item: Item, command: Command) -> tuple[str, ...]:
    """The item in llama.cpp's words since spring 2026."""
    match item.name:
        case "draft-max" | "draft-min":
            return _length(item, command)
        case "spec-ngram-size-n" | "spec-ngram-size-m" | "spec-ngram-min-hits":
            return own_words(item, command)
        case "no-mmap" | "mmap" | "mlock" | "direct-io":
            return _load_mode(item, command)
        case "no-flash-attn":
            return ("-fa", "off")
        case "multi-token-prediction" if not is_negation(item):
            return ("--spec-type", "draft-mtp")
        case _:
            return ()


def _length(item: Item, command: Command) -> tuple[str, ...]:
    """A length for the drafter in use; that of a model, if there is one or no other drafter."""
    is_ngrams = any(kind.startswith("ngram-") for kind in command.kinds)
    if command.drafts_with_model or not is_ngrams:
        return (f"--spec-draft-{_LENGTHS[item.name]}", *item.given.values)
    return own_words(item, command)


def own_words(item: Item, command: Command) -> tuple[str, ...]:
    """Options of the command's n-gram drafters that replace an option they once shared."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in command.kinds:
        own = own_options(kind, item.name, item.given.values, command.value)
        found |= {name: values for name, values in own.items() if not command.has(name)}
    return tuple(word for name, values in found.items() for word in (f"--{name}", *values))


def _load_mode(item: Item, command: Command) -> tuple[str, ...]:
    if command.has("mlock"):
        # One option took the place of two.
        is_read = command.has("no-mmap") or command.value("load-mode") == "none"
        mode = "mlock" if is_read else "mmap+mlock"
        return ("--load-mode", mode) if item.name == "mlock" else ()
    if item.given.flag.startswith(("-nd", "--no-direct")):
        return ()
    modes = {"no-mmap": "none", "mmap": "mmap", "direct-io": "dio"}
    return ("--load-mode", modes[item.name])


def _modes(item: Item, reader: Reader) -> tuple[str, ...]:
    switches = _MODES.get(item.value, ()) if item.name == "load-mode" else ()
    return tuple(switch for switch in switches if reader.takes(switch))
