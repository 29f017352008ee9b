"""How commands name their drafters and the drafters' numbers, in every build's form."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Edits
from spectui.commands.items import Item
from spectui.commands.reader import Reader
from spectui.commands.renames import (
    BY_SWITCH,
    DRAFTS,
    FORMER_KINDS,
    IK_KINDS,
    IK_LENGTHS,
    IK_NUMBERS,
    KINDS_BY_NAME,
    LENGTHS,
    NONE,
    OWN_OPTIONS,
)
from spectui.commands.server_options import new_names
from spectui.commands.stages import Stage, in_order, read_stage
from spectui.errors import BadInputError
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
    numbers_of,
)

_OWN_ENGINE = (DraftSimple, DraftMtp, *NGRAMS)
_KNOWN = frozenset({NONE, *map(kind_of, _OWN_ENGINE)})

SPEC_DEFAULT: dict[str, tuple[str, ...]] = {
    "spec-type": (kind_of(NgramMod),),
    **{one.option: (one.argument(one.default),) for one in numbers_of(NgramMod)},
}
"""Options that ``--spec-default`` stands for."""
_SHORTEST = ("draft-min", "spec-ngram-mod-n-min")
_CHANGED = tuple(one for one in numbers_of(DraftSimple) if one.earlier_default != one.default)
OLD_LENGTHS = {one.option: f"{one.earlier_default:g}" for one in _CHANGED}
"""Defaults until spring 2026, and in ik_llama.cpp."""
NEW_LENGTHS = {one.option: one.argument(one.default) for one in _CHANGED}

_OF_STAGES = frozenset(
    {"spec-type", BY_SWITCH, *IK_LENGTHS, *(name for one in IK_NUMBERS.values() for name in one)}
)


def drafting(value: str, *, through_server: bool = False) -> dict[str, tuple[str, ...]]:
    """Options that one ``--spec-type`` stands for, by spectui's names.

    In ik_llama.cpp the kind's numbers stand behind it: ``draft:n_max=8,p_min=0.5``.

    Args:
        value: the option's value, unchanged.
        through_server: whether drafters that only llama-server has can be run.

    Raises:
        BadInputError: spectui cannot draft like that.
    """
    stage = _parse_stage(value) if ":" in value else None
    kinds = value.replace("_", "-").split(",") if stage is None else [stage.kind]
    named = [FORMER_KINDS.get(one, one) for one in kinds]
    for one in HIDDEN_STATE_KINDS:
        if one in named and not through_server:
            raise BadInputError(
                f"--spec-type {value} asks for {one}: {ONLY_BY_SERVER}; take it out"
            )
    if not _KNOWN.union(HIDDEN_STATE_KINDS).issuperset(named):
        raise _unknown(value)
    found = {} if stage is None else _settings(value, named[0], stage.numbers)
    # llama-server takes a list with none in it for none.
    return found if NONE in named else {"spec-type": (",".join(named),), **found}


def _parse_stage(value: str) -> Stage:
    kind, _, settings = value.partition(":")
    try:
        return read_stage(f"{IK_KINDS.get(kind, kind)}:{settings}")
    except ValueError as error:
        raise BadInputError(
            f"--spec-type {value} is no stage of ik_llama.cpp: {error}; write it anew"
        ) from error


def joined(earlier: tuple[str, ...], later: tuple[str, ...]) -> tuple[str, ...]:
    """Two values of ``--spec-type`` as one: the option adds to previous values."""
    return (",".join(dict.fromkeys(",".join((*earlier, *later)).split(","))),)


def _settings(value: str, kind: str, numbers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Options that the numbers behind a kind stand for.

    Raises:
        BadInputError: one is not the kind's.
    """
    drafter = next((one for one in _OWN_ENGINE if kind_of(one) == kind), None)
    own = () if drafter is None else numbers_of(drafter)
    # Of two that became one the last counts.
    keys = {key: one.option for one in own for key in one.ik}
    if not numbers.keys() <= keys.keys():
        raise _unknown(value)
    return {name: (numbers[key],) for key, name in keys.items() if key in numbers}


def _unknown(value: str) -> BadInputError:
    return BadInputError(
        f"--spec-type {value}: spectui drafts with a model and as "
        f"{', '.join((MTP_KIND, *NGRAM_KINDS))}; take the rest out"
    )


def own_options(
    kind: str, name: str, values: tuple[str, ...], given: Callable[[str], str | None]
) -> dict[str, tuple[str, ...]]:
    """Options of ``kind`` with the effect of the former option ``name``; empty if none.

    Args:
        kind: the drafter's kind.
        name: name of a shared option.
        values: values of that option.
        given: the value of any other option of the command; None where it is not given.
    """
    own = OWN_OPTIONS.get(kind, {}).get(name)
    if own is None:
        return {}
    if (kind, name) == (kind_of(NgramSimple), "draft-max"):
        return {own: (_at_least_lookup_size(values[-1], given),)}
    if (kind, name) == (kind_of(NgramMod), "draft-max") and not any(map(given, _SHORTEST)):
        # Its shortest draft was 0 unless told, and is 48 today.
        return {own: values, _SHORTEST[1]: ("0",)}
    return {own: values}


def told_of_length(longest: str, size_m: str) -> str | None:
    """Reason why ``ngram-simple`` drafts more than requested; None if it does not."""
    if longest == size_m:
        return None
    return f"ngram-simple drops drafts shorter than the {size_m} tokens that it looks up"


def _at_least_lookup_size(longest: str, given: Callable[[str], str | None]) -> str:
    """A longest draft of at least the length that ``ngram-simple`` looks up.

    It cut drafts off there, and today drops all that are shorter (``common_ngram_simple_draft``).
    """
    looked_up = given("spec-ngram-simple-size-n") or given("spec-ngram-size-n")
    size_n = NgramSimple().size_n if looked_up is None else _whole(looked_up)
    n_max = _whole(longest)
    return str(size_n) if n_max is not None and size_n is not None and n_max < size_n else longest


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def told_apart(
    options: Mapping[str, tuple[str, ...]], kinds: Sequence[str], *, has_old_lengths: bool
) -> dict[str, tuple[str, ...]]:
    """Replace the shared options by each drafter's own.

    Args:
        options: values by name.
        kinds: the drafters' kinds.
        has_old_lengths: whether lengths of drafts stand under names that served all drafters.
    """
    ngrams = [kind for kind in kinds if kind in OWN_OPTIONS]
    lengths = LENGTHS if has_old_lengths and kinds and ngrams == list(kinds) else ()
    # Of two that became one, the drafter's own size counts.
    shared = (*SHARED_BY_NGRAMS, *lengths)
    found = {name: values for name, values in options.items() if name not in shared}
    for name in shared:
        for kind in ngrams:
            if name in options:
                own = own_options(kind, name, options[name], lambda n: options.get(n, (None,))[-1])
                found = {**own, **found}
    return found


def assumed_lengths(command: ServerCommand, reader: Reader) -> dict[str, str]:
    """Default lengths that the command's author had, where it gives none; by spectui's names.

    Names tell which builds it was written for; where none does, it is for its reader.
    """
    if not command.drafts_with_model:
        return {}
    is_old = command.is_old or (not reader.is_current and not _has_new_names(command))
    lengths = OLD_LENGTHS if is_old else NEW_LENGTHS
    given = _behind_kinds(command)
    return {n: value for n, value in lengths.items() if not command.has(n) and n not in given}


def _behind_kinds(command: ServerCommand) -> frozenset[str]:
    """Names of the numbers behind ``--spec-type`` in ik_llama.cpp's form."""
    found: set[str] = set()
    for _at, item in command.all("spec-type"):
        # What cannot be read says nothing of lengths.
        with suppress(BadInputError):
            found |= drafting(item.value).keys()
    return frozenset(found)


def kind_by_name(command: ServerCommand) -> str | None:
    """The kind that the draft's name stands for; None for a name that says nothing."""
    name = PurePath(command.value(*DRAFTS) or "").name.lower()
    return next((kind for mark, kind in KINDS_BY_NAME.items() if mark in name), None)


def kind_of_draft(command: ServerCommand) -> str:
    """The draft's kind by its file, or else by its name."""
    if command.draft_tensors is not None:
        return command.draft_kind or MODEL_KIND
    return command.draft_kind or kind_by_name(command) or MODEL_KIND


def old_lengths(command: ServerCommand) -> dict[str, str]:
    """The old default lengths that a command for builds before spring 2026 leaves out."""
    lengths = assumed_lengths(command, Reader())
    return {name: value for name, value in lengths.items() if value == OLD_LENGTHS[name]}


def _has_new_names(command: ServerCommand) -> bool:
    return any(item.spelling in new_names() for item in command.items) or any(
        kind.startswith("draft-") for kind in command.kinds
    )


def is_of_stage(item: Item) -> bool:
    """Whether the item selects or configures drafters, one option in ik_llama.cpp."""
    return item.name in _OF_STAGES or ngram_of(item.name) is not None


def to_ik_stages(command: ServerCommand) -> Edits:
    """All of a command's drafting in ik_llama.cpp's form, at its first drafting option."""
    items = [(at, item) for at, item in enumerate(command.items) if is_of_stage(item)]
    if not items:
        return {}
    named = [at for at, item in items if item.name in {"spec-type", BY_SWITCH}]
    place = named[0] if named else items[0][0]
    words = tuple(word for stage in _stages(command) for word in stage.words)
    return {at: words if at == place else () for at, _item in items}


def _stages(command: ServerCommand) -> list[Stage]:
    stages: list[Stage] = []
    for _at, item in command.all("spec-type", BY_SWITCH):
        for stage in _named(item):
            same = next((one for one in stages if one.kind == stage.kind), None)
            if same is None or (same.numbers and stage.numbers):
                # Of two with numbers only their author knows which counts.
                stages.append(stage)
            else:
                same.numbers |= stage.numbers
    if not stages and command.has_draft:
        stages.append(Stage(kind=IK_KINDS[MODEL_KIND]))
    of_models = [one for one in stages if one.kind in IK_KINDS.values()]
    for item in command.items:
        for stage in stages:
            stage.numbers |= _numbers(item, stage.kind, has_model=bool(of_models))
    return in_order(stages)


def _named(item: Item) -> Iterator[Stage]:
    if item.name == BY_SWITCH:
        if not item.is_negation:
            yield Stage(kind=IK_KINDS[MTP_KIND])
        return
    kinds, colon, settings = item.value.partition(":")
    try:
        stages = [read_stage(item.value)] if colon else []
    except ValueError:
        # What is wrong stays, and is told in its place.
        pairs = (pair.partition("=") for pair in settings.split(",") if pair)
        numbers = {key: text for key, _, text in pairs}
        stages = [Stage(kind=IK_KINDS.get(kinds, kinds), numbers=numbers)]
    names = () if stages else kinds.replace("_", "-").split(",")
    yield from (*stages, *(Stage(kind=IK_KINDS.get(kind, kind)) for kind in names))


def _numbers(item: Item, kind: str, *, has_model: bool) -> Mapping[str, str]:
    """Numbers that one of the separate options adds to a stage."""
    key = IK_NUMBERS.get(kind, {}).get(item.name)
    # Beside a model's the lengths are not those of an n-gram drafter, which has no probability.
    is_models = kind in NGRAM_KINDS and (has_model or item.name == "draft-p-min")
    if key is None and not is_models:
        key = IK_LENGTHS.get(item.name)
    return {} if key is None else {key: item.value}
