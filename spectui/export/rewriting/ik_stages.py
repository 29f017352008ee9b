"""Drafting as ik_llama.cpp has it: a ``--spec-type`` per drafter, its numbers behind it.

Its separate options for lengths and sizes are refused by today's builds, which name what to write
instead (``common_speculative_legacy_option_error``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spectui.export.old_ngrams import SHARED
from spectui.export.rewriting.edits import Edit
from spectui.export.rewriting.items import BY_SWITCH, Command, Item, is_negation
from spectui.options.drafters import (
    MODELS,
    NGRAM_KINDS,
    NGRAMS,
    DraftSimple,
    kind_of,
    ngram_of,
    numbers_of,
)

IK_KINDS = {kind_of(one): one.ik_kind for one in MODELS if one.ik_kind is not None}
"""ik_llama.cpp's names of kinds that llama.cpp names differently."""
KNOWN_TO_IK = ("none", *IK_KINDS.values(), *NGRAM_KINDS, "suffix")
_LENGTHS = {one.option: one.ik[-1] for one in numbers_of(DraftSimple)}
_SIZES = {name: name.removeprefix("spec-").replace("-", "_") for name in SHARED}
_SUFFIX = {
    "suffix-pattern-len": "suffix_min_match_len",
    "suffix-max-depth": "suffix_max_depth",
    "suffix-corpus": "suffix_corpus",
}
_OWN_KEYS = {
    one.name.replace("_", "-"): one.ik[-1] for drafter in NGRAMS for one in numbers_of(drafter)
}


@dataclass(slots=True, kw_only=True)
class _Stage:
    kind: str
    numbers: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        settings = ",".join(f"{key}={value}" for key, value in self.numbers.items())
        return ("--spec-type", f"{self.kind}:{settings}" if settings else self.kind)


def is_of_stage(item: Item) -> bool:
    """Whether the item selects or configures drafters, one option in ik_llama.cpp."""
    names = {"spec-type", BY_SWITCH, *_LENGTHS, *_SIZES, *_SUFFIX}
    return item.name in names or ngram_of(item.name) is not None


def in_stages(command: Command) -> tuple[Edit, ...]:
    """All of a command's drafting in ik_llama.cpp's form, at its first drafting option."""
    items = [(at, item) for at, item in enumerate(command.items) if is_of_stage(item)]
    if not items:
        return ()
    named = [at for at, item in items if item.name in {"spec-type", BY_SWITCH}]
    place = named[0] if named else items[0][0]
    words = tuple(word for stage in _stages(command) for word in stage.words)
    return tuple(Edit(at=at, words=words if at == place else ()) for at, _item in items)


def _stages(command: Command) -> list[_Stage]:
    stages: list[_Stage] = []
    for _at, item in command.all("spec-type", BY_SWITCH):
        for stage in _named(item):
            same = next((one for one in stages if one.kind == stage.kind), None)
            if same is None or (same.numbers and stage.numbers):
                # Of two with numbers only their author knows which counts.
                stages.append(stage)
            else:
                same.numbers |= stage.numbers
    if not stages and command.has_draft:
        stages.append(_Stage(kind="draft"))
    of_models = [one for one in stages if one.kind in IK_KINDS.values()]
    for item in command.items:
        for stage in stages:
            stage.numbers |= _numbers(item, stage.kind, has_model=bool(of_models))
    return stages


def _named(item: Item) -> Iterator[_Stage]:
    if item.name == BY_SWITCH:
        if not is_negation(item):
            yield _Stage(kind="mtp")
        return
    kinds, colon, settings = item.value.partition(":")
    pairs = (pair.partition("=") for pair in settings.split(",") if pair)
    numbers = {key: value for key, _, value in pairs} if colon else {}
    for kind in kinds.split(","):
        yield _Stage(kind=IK_KINDS.get(kind, kind), numbers=dict(numbers))


def _numbers(item: Item, kind: str, *, has_model: bool) -> Mapping[str, str]:
    """Numbers that one of the separate options adds to a stage."""
    is_ngram = kind in NGRAM_KINDS
    own = ngram_of(item.name)
    if own is not None:
        key = _OWN_KEYS.get(item.name.removeprefix(f"spec-{own}-")) if own == kind else None
    elif item.name in _SIZES:
        key = _SIZES[item.name] if is_ngram else None
    elif item.name in _SUFFIX:
        key = _SUFFIX[item.name] if kind == "suffix" else None
    elif is_ngram and (has_model or item.name == "draft-p-min"):
        key = None
    else:
        key = _LENGTHS.get(item.name)
    return {} if key is None else {key: item.value}
