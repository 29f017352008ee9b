"""What to write instead of a flag that the reader does not take."""

from spectui.config import MODEL_KIND
from spectui.export.dialects import Dialect
from spectui.export.old_ngrams import own_option
from spectui.export.rewriting.edits import Edit
from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.export.server_options import canonical

_LENGTHS = {"draft-max": "n-max", "draft-min": "n-min"}
_MODES = {
    "none": ("--no-mmap",),
    "mlock": ("--mlock", "--no-mmap"),
    "mmap+mlock": ("--mlock",),
    "dio": ("--direct-io",),
}
"""What ``--load-mode`` was in separate switches."""
STAGE_KEYS = {"draft-max": "n_max", "draft-min": "n_min", "draft-p-min": "p_min"}
_MODEL_KINDS = ("draft", MODEL_KIND)
_LOADING = ("no-mmap", "mmap", "mlock")
"""Switches that ``--load-mode`` took the place of together."""


def instead_of(item: Item, command: Command, reader: Reader) -> tuple[str, ...] | None:
    """Words that do the same; none of them if nothing does any more; None if nobody knows."""
    has_own = reader.is_current and item.name in _LENGTHS and command.kinds
    other = None if has_own else _other_spelling(item, reader)
    if other is not None:
        return (other, *item.given.values)
    if item.given.server is None and item.given.option is None:
        return None
    match reader.dialect:
        case Dialect.LLAMA_CPP:
            return _current(item, command)
        case Dialect.LEGACY:
            return _modes(item, reader)
        case Dialect.IK:
            return _stage(item, command) if item.name in STAGE_KEYS else _modes(item, reader)


def together(item: Item, command: Command, reader: Reader) -> tuple[Edit, ...]:
    """How an item is put right with others that one option takes the place of; none if alone."""
    if reader.is_current and item.name in _LOADING and command.has("mlock"):
        places = list(command.all(*_LOADING))
        return tuple(Edit(at=at, words=_load_mode(one, command)) for at, one in places)
    if reader.dialect is Dialect.IK and item.name in STAGE_KEYS:
        stage = _model_stage(command)
        places = [*command.all(*STAGE_KEYS), *([] if stage is None else [stage])]
        return tuple(Edit(at=at, words=_stage(one, command)) for at, one in places)
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
    """In llama.cpp's words since spring 2026."""
    values = item.given.values
    match item.name:
        case "draft-max" | "draft-min":
            flags = _length_flags(item.name, command)
        case "spec-ngram-size-n" | "spec-ngram-size-m" | "spec-ngram-min-hits":
            flags = _own_flags(item.name, command)
        case "no-mmap" | "mmap" | "mlock" | "direct-io":
            return _load_mode(item, command)
        case "no-flash-attn":
            return ("-fa", "off")
        case "multi-token-prediction" if not item.given.flag.startswith(("-no-", "--no-")):
            return ("--spec-type", "draft-mtp")
        case _:
            return ()
    return tuple(word for flag in flags for word in (flag, *values))


def _length_flags(name: str, command: Command) -> list[str]:
    """Lengths are those of the drafter that is used; of a model, if there is none."""
    is_ngrams = any(kind.startswith("ngram-") for kind in command.kinds)
    of_model = [f"--spec-draft-{_LENGTHS[name]}"] * (command.drafts_with_model or not is_ngrams)
    return [*of_model, *_own_flags(name, command)]


def _own_flags(name: str, command: Command) -> list[str]:
    own = (own_option(kind, name) for kind in command.kinds)
    return [f"--{option}" for option in own if option is not None]


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


def _stage(item: Item, command: Command) -> tuple[str, ...]:
    """Drafting as ik_llama.cpp has it: all numbers where the stage or the first is, none elsewhere.

    Every kind may be named once, so that a stage that is there takes the numbers.
    """
    stage = _model_stage(command)
    places = sorted(found[0] for name in STAGE_KEYS if (found := command.last(name)) is not None)
    place = places[0] if stage is None and places and command.has_draft else None
    if stage is not None:
        place = stage[0]
    if place is None or command.items[place] is not item:
        return ()
    settings = "" if stage is None else stage[1].value.partition(":")[2]
    numbers = dict(pair.partition("=")[::2] for pair in settings.split(",") if pair)
    given = {key: command.value(name) for name, key in STAGE_KEYS.items()}
    numbers |= {key: value for key, value in given.items() if value is not None}
    return ("--spec-type", f"draft:{','.join(f'{key}={value}' for key, value in numbers.items())}")


def _model_stage(command: Command) -> tuple[int, Item] | None:
    """The ``--spec-type`` that names a draft model."""
    stages = command.all("spec-type")
    return next((s for s in stages if s[1].value.partition(":")[0] in _MODEL_KINDS), None)
