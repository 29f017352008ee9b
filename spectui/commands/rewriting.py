"""Rewrites options for their reader, and drafting in every build's form.

What the reader takes stays unchanged, in its place.
"""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from spectui.commands import renames
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Edits
from spectui.commands.items import Item, words_of
from spectui.commands.reader import Reader
from spectui.commands.server_options import drawn_from
from spectui.errors import BadInputError
from spectui.format import printable
from spectui.options.catalogue import SHARED_BY_NGRAMS
from spectui.options.drafters import (
    HIDDEN_STATE_KINDS,
    MODEL_KIND,
    MTP_KIND,
    NGRAM_KINDS,
    NGRAMS,
    ONLY_BY_SERVER,
    DraftMtp,
    DraftSimple,
    NgramMod,
    NgramSimple,
    kind_of,
    ngram_of,
    number_of,
    numbers_of,
)
from spectui.options.option import Dialect
from spectui.options.placement import LOAD_MODE, LOAD_MODES

_LOADING_OPTIONS = (*renames.LOADING, LOAD_MODE.name)
_OWN_ENGINE = {kind_of(one): one for one in (DraftSimple, DraftMtp, *NGRAMS)}
SPEC_DEFAULT: dict[str, tuple[str, ...]] = {
    "spec-type": (kind_of(NgramMod),),
    **{one.option: (one.argument(one.default),) for one in numbers_of(NgramMod)},
}
"""Options that ``--spec-default`` stands for."""
_SHORTEST = number_of(NgramMod, "n_min").option
_CHANGED = tuple(one for one in numbers_of(DraftSimple) if one.earlier_default != one.default)
OLD_LENGTHS = {one.option: f"{one.earlier_default:g}" for one in _CHANGED}
"""Defaults until spring 2026, and in ik_llama.cpp."""
NEW_LENGTHS = {one.option: one.argument(one.default) for one in _CHANGED}

_STAGE_OPTIONS = frozenset(
    {
        "spec-type",
        renames.BY_SWITCH,
        *renames.IK_LENGTHS,
        *(name for one in renames.IK_NUMBERS.values() for name in one),
    }
)


def unknown_note(items: Iterable[Item], reader: Reader) -> tuple[str, ...]:
    """A note on options that no table has, so that only a newer build may take them; or none."""
    words = words_of(
        item for item in items if reader.takes(item.flag) is None and item.flag.startswith("-")
    )
    text = f"passed on unchanged, since {drawn_from(reader.dialect)} has no such option"
    return (printable(f"{text}: {shlex.join(words)}"),) if words else ()


def equivalent_words(item: Item, command: ServerCommand, reader: Reader) -> tuple[str, ...] | None:
    """Equivalent words for the reader; none if the option has no effect now; None if unknown."""
    if item.server is None and item.option is None:
        return None
    if not (reader.is_current and item.name in renames.LENGTHS and command.kinds):
        spellings = () if item.option is None else item.option.flags
        if item.server is not None:
            is_negation = item.spelling in item.server.negations
            own = item.server.negations if is_negation else item.server.flags
            spellings = (*own, *spellings)
        other = next(filter(reader.takes, spellings), None)
        if other is not None:
            return (other, *item.values)
    if item.name == LOAD_MODE.name and not reader.takes(item.flag):
        switches = (f"--{name}" for name in LOAD_MODES.get(item.value, ()))
        return tuple(filter(reader.takes, switches))
    return _in_todays_words(item, command) if reader.is_current else ()


def _in_todays_words(item: Item, command: ServerCommand) -> tuple[str, ...]:
    """The item in llama.cpp's words since spring 2026."""
    if is_ngram_number(item, command):
        return own_words(item, command)
    if item.name in _LOADING_OPTIONS:
        given = [one for _at, one in command.all(*_LOADING_OPTIONS)] or [item]
        return _load_mode(given) if item.name == given[0].name else ()
    is_off = item.is_negation and item.name != "no-flash-attn"
    today = renames.TODAY.get(item.name)
    return () if today is None or is_off else (*today, *item.values)


def is_ngram_number(item: Item, command: ServerCommand) -> bool:
    """Whether a former option gives a number of the command's n-gram drafters.

    A length is a model's, if there is one or no other drafter.
    """
    drafts_alone = not command.drafts_with_model and not set(NGRAM_KINDS).isdisjoint(command.kinds)
    return item.name in SHARED_BY_NGRAMS or (item.name in renames.LENGTHS and drafts_alone)


def merged(item: Item, command: ServerCommand, reader: Reader) -> Edits:
    """Edits that replace several items by one option; empty if the item stands alone."""
    if reader.is_current and item.name in renames.LOADING:
        given = list(command.all(*_LOADING_OPTIONS))
        if len(given) > 1:
            mode = _load_mode(one for _at, one in given)
            return {at: mode if at == given[0][0] else () for at, _one in given}
    if reader.dialect is Dialect.IK and is_stage_option(item):
        return to_ik_stages(command)
    return {}


def _load_mode(given: Iterable[Item]) -> tuple[str, ...]:
    """One option in place of the switches that it replaced, and of itself; none without effect.

    Of ``--mmap`` and ``--no-mmap`` the last counts; ``--direct-io`` reads the file whatever they
    say, and no mode has it beside ``--mlock``.
    """
    names: list[str] = []
    for one in given:
        is_mode = one.name == LOAD_MODE.name
        names += LOAD_MODES.get(one.value) or (one.value,) if is_mode else (one.name,)
    mapped = [name for name in names if name in {"mmap", "no-mmap"}][-1:]
    is_direct = [name for name in names if name.endswith("direct-io")][-1:] == ["direct-io"]
    is_read = is_direct or mapped == ["no-mmap"]
    if "mlock" in names:
        mode = "mlock" if is_read else "mmap+mlock"
    else:
        mode = "dio" if is_direct else "none" if is_read else "".join(mapped)
    return (LOAD_MODE.long_flag, mode) if mode else ()


def drafting(value: str, *, through_server: bool = False) -> dict[str, tuple[str, ...]]:
    """Options that one ``--spec-type`` stands for, by spectui's names.

    In ik_llama.cpp the kind's numbers stand behind it: ``draft:n_max=8,p_min=0.5``.

    Args:
        value: the option's value, unchanged.
        through_server: whether drafters that only llama-server has can be run.

    Raises:
        BadInputError: spectui cannot draft like that.
    """
    stages = renames.stages_of(value)
    kinds = [renames.FORMER_KINDS.get(one.kind, one.kind) for one in stages]
    for kind in kinds:
        if kind in HIDDEN_STATE_KINDS and not through_server:
            raise BadInputError(
                f"--spec-type {value} asks for {kind}: {ONLY_BY_SERVER}; take it out"
            )
    keys, numbers = _options_by_key(kinds[0]), stages[0].numbers
    if (
        not {renames.NONE, *HIDDEN_STATE_KINDS, *_OWN_ENGINE}.issuperset(kinds)
        or numbers.keys() - keys
    ):
        raise BadInputError(
            f"--spec-type {value}: spectui drafts with a model and as "
            f"{', '.join((MTP_KIND, *NGRAM_KINDS))}; take the rest out"
        )
    # llama-server takes a list with none in it for none.
    found = {name: numbers[key] for key, name in keys.items() if key in numbers}
    if renames.NONE not in kinds:
        found = {"spec-type": ",".join(kinds), **found}
    return {name: (value,) for name, value in found.items()}


def _options_by_key(kind: str) -> Mapping[str, str]:
    """Options of a kind by ik_llama.cpp's keys; of two for one option the last counts."""
    drafter = _OWN_ENGINE.get(kind)
    return {} if drafter is None else {k: one.option for one in numbers_of(drafter) for k in one.ik}


def _numbers_behind_kinds(command: ServerCommand) -> Mapping[str, str]:
    """Numbers behind ``--spec-type`` in ik_llama.cpp's form, by spectui's names of the options."""
    found: dict[str, str] = {}
    for _at, item in command.all("spec-type"):
        for stage in renames.stages_of(item.value):
            keys = _options_by_key(renames.FORMER_KINDS.get(stage.kind, stage.kind))
            found |= {keys[key]: text for key, text in stage.numbers.items() if key in keys}
    return found


def own_words(item: Item, command: ServerCommand) -> tuple[str, ...]:
    """Options of the command's n-gram drafters that replace an option they once shared."""
    found: dict[str, str] = {}
    for kind in command.kinds:
        own = renames.OWN_OPTIONS.get(kind, {}).get(item.name)
        if own is None or command.has(own):
            continue
        found[own] = item.value
        if item.name == "draft-max" and kind == kind_of(NgramSimple):
            found[own] = _at_least_lookup_size(item.value, command)
        elif item.name == "draft-max" and kind == kind_of(NgramMod):
            # The default of its shortest draft was 0, and is 48 today.
            found |= {} if command.has("draft-min", _SHORTEST) else {_SHORTEST: "0"}
    return tuple(word for name, value in found.items() for word in (f"--{name}", value))


def _at_least_lookup_size(longest: str, command: ServerCommand) -> str:
    """A longest draft of at least the length that ``ngram-simple`` looks up.

    It cut drafts off there, and today drops all that are shorter (``common_ngram_simple_draft``).
    """
    default = str(NgramSimple().size_n)
    names = (number_of(NgramSimple, "size_n").option, "spec-ngram-size-n")
    looked_up = next((value for name in names if (value := command.value(name))), default)
    is_known = all(text.isascii() and text.isdigit() for text in (longest, looked_up))
    return looked_up if is_known and int(longest) < int(looked_up) else longest


def old_lengths(command: ServerCommand) -> dict[str, str]:
    """The default lengths that a command for builds before spring 2026 leaves out."""
    if not (command.is_old and command.drafts_with_model):
        return {}
    given = _numbers_behind_kinds(command)
    return {n: value for n, value in OLD_LENGTHS.items() if not command.has(n) and n not in given}


def kind_by_name(command: ServerCommand) -> str | None:
    """The kind that the draft's name stands for; None for a name that says nothing."""
    name = PurePath(command.value(*renames.DRAFTS) or "").name.lower()
    return next((kind for mark, kind in renames.KINDS_BY_NAME.items() if mark in name), None)


def kind_of_draft(command: ServerCommand) -> str:
    """The draft's kind by its file, or else by its name."""
    if command.draft_tensors is not None:
        return command.draft_kind or MODEL_KIND
    return command.draft_kind or kind_by_name(command) or MODEL_KIND


def is_stage_option(item: Item) -> bool:
    """Whether the item selects or configures drafters, one option in ik_llama.cpp."""
    return item.name in _STAGE_OPTIONS or ngram_of(item.name) is not None


def to_ik_stages(command: ServerCommand) -> Edits:
    """All of a command's drafting in ik_llama.cpp's form, at its first drafting option."""
    items = [(at, item) for at, item in enumerate(command.items) if is_stage_option(item)]
    if not items:
        return {}
    named = [at for at, item in items if item.name in {"spec-type", renames.BY_SWITCH}]
    place = named[0] if named else items[0][0]
    words = tuple(word for stage in _stages(command) for word in stage.words)
    return {at: words if at == place else () for at, _item in items}


def _stages(command: ServerCommand) -> list[renames.Stage]:
    """The command's stages, those that need no model first, as ik_llama.cpp takes them."""
    stages: list[renames.Stage] = []
    for _at, item in command.all("spec-type", renames.BY_SWITCH):
        value = renames.IK_KINDS[MTP_KIND] if item.name == renames.BY_SWITCH else item.value
        for stage in () if item.is_negation else renames.stages_of(value):
            same = next((one for one in stages if one.kind == stage.kind), None)
            if same is None or (same.numbers and stage.numbers):
                # Two stages of one kind with numbers are kept: only the author knows which counts.
                stages.append(stage)
            else:
                same.numbers |= stage.numbers
    if not stages and command.has_draft:
        stages.append(renames.Stage(kind=renames.IK_KINDS[MODEL_KIND]))
    has_model = any(one.kind in renames.IK_KINDS.values() for one in stages)
    for item in command.items:
        for stage in stages:
            key = _key_of(item, stage.kind, has_model=has_model)
            stage.numbers |= {} if key is None else {key: item.value}
    return sorted(stages, key=lambda stage: stage.kind not in renames.BY_ITSELF)


def _key_of(item: Item, kind: str, *, has_model: bool) -> str | None:
    """The key by which one of the separate options is a number of a stage; None for no number."""
    key = renames.IK_NUMBERS.get(kind, {}).get(item.name)
    # Beside a model, lengths are the model's, and so is a least probability in any case.
    is_models = kind in NGRAM_KINDS and (has_model or item.name == "draft-p-min")
    return renames.IK_LENGTHS.get(item.name) if key is None and not is_models else key
