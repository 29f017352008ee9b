"""Rules for ``--spec-type``: unknown kinds, and forms of other programs."""

from collections.abc import Iterator
from difflib import get_close_matches

from spectui.errors import BadInputError
from spectui.export.rewriting.ik_stages import IK_KINDS, KNOWN_TO_IK, in_stages
from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.export.stages import drafting
from spectui.lint.finding import Finding, left_out, quoted, replaced
from spectui.lint.values import meant_by
from spectui.options.dialect import Dialect
from spectui.options.drafters import (
    MODEL_KIND,
    MODELS,
    NGRAM_KINDS,
    NGRAMS,
    DraftSimple,
    kind_of,
    numbers_of,
)
from spectui.severity import Severity

KINDS = ("none", *map(kind_of, (*MODELS, *NGRAMS)))
"""All kinds that llama-server knows."""
_OLD_KINDS = {"draft": MODEL_KIND}
_OF_MODELS = ("draft", MODEL_KIND)
_SHARED_NAMES = {one.option: one.shared[0] for drafter in NGRAMS for one in numbers_of(drafter)}
"""Former names of n-gram drafters' own options, before each kind had them."""
_MODEL_FLAGS = {one.option: one.flags[-1] for one in numbers_of(DraftSimple)}


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield findings on every ``--spec-type``."""
    for at, item in command.all("spec-type"):
        match reader.dialect:
            case Dialect.LLAMA_CPP:
                yield from _current(at, item)
            case Dialect.IK:
                yield from _of_ik(at, item, command)
                yield from _again(at, item, command)
            case Dialect.LEGACY:
                yield from _before_spring(at, item, reader)


def _current(at: int, item: Item) -> Iterator[Finding]:
    if ":" in item.value:
        yield _stage(at, item)
        return
    given = item.value.split(",")
    kinds = [_known(kind) for kind in given]
    if kinds == given:
        return
    found = [kind for kind in kinds if kind is not None]
    is_known = len(found) == len(given)
    alike = [kind or _alike(own) for kind, own in zip(kinds, given, strict=True)]
    words = (item.given.flag, ",".join(filter(None, alike)))
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"llama-server knows no {item.given.flag} {item.value}",
        why=f"it takes {', '.join(KINDS)}, or several with commas, and stops at anything else",
        replacement=None if None in alike else quoted(*words),
        edits=replaced(at, *words) if is_known else (),
        at=at,
    )


def _known(kind: str) -> str | None:
    """llama-server's name for a kind in another spelling, or without its prefix."""
    spellings = (kind, _OLD_KINDS.get(kind, kind), f"draft-{kind}", f"ngram-{kind}")
    return next(filter(None, (meant_by(one, KINDS) for one in spellings)), None)


def _alike(kind: str) -> str | None:
    return next(iter(get_close_matches(kind, KINDS, 1)), None)


def _stage(at: int, item: Item) -> Finding:
    """ik_llama.cpp's numbers behind the kind, as separate options."""
    try:
        options = drafting(item.value)
    except BadInputError:
        words: tuple[str, ...] | None = None
    else:
        words = tuple(w for name, values in options.items() for w in (_flag(name), *values))
    return Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"{item.given.flag} {item.value} is ik_llama.cpp's form",
        why="llama-server takes a kind alone, and stops at anything else",
        replacement=None if words is None else quoted(*words),
        edits=() if words is None else replaced(at, *words),
        at=at,
    )


def _flag(name: str) -> str:
    return _MODEL_FLAGS.get(name, f"--{name}")


def _before_spring(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find kinds other than n-gram drafters, which builds before spring 2026 do not know."""
    kind, colon, _settings = item.value.partition(":")
    if kind in _OF_MODELS and not colon:
        yield _needless(at, item, reader)
    elif colon or item.value not in {"none", *NGRAM_KINDS}:
        words = _shared_words(item.value)
        yield Finding(
            flag=item.shown,
            severity=Severity.ERROR,
            what=f"{reader.name} knows no {item.given.flag} {item.value}",
            why=f"it takes one of {', '.join(NGRAM_KINDS)}, and lengths as options of their own",
            replacement=None if words is None else quoted(*words),
            edits=() if words is None else replaced(at, *words),
            at=at,
        )


def _shared_words(value: str) -> tuple[str, ...] | None:
    """ik_llama.cpp's form in the words of builds before spring 2026; None if they have none."""
    kind = value.partition(":")[0]
    if kind not in {*_OF_MODELS, *NGRAM_KINDS} or "," in kind:
        return None
    try:
        options = drafting(value)
    except BadInputError:
        return None
    named = () if kind in _OF_MODELS else ("--spec-type", kind)
    options = {name: values for name, values in options.items() if name != "spec-type"}
    return (
        *named,
        *(w for n, values in options.items() for w in (f"--{_SHARED_NAMES.get(n, n)}", *values)),
    )


def _needless(at: int, item: Item, reader: Reader) -> Finding:
    return left_out(
        at,
        item,
        severity=Severity.ERROR,
        what=f"{reader.name} knows no {item.given.flag} {item.value}",
        why="a draft model is reason enough for it to draft",
    )


def _of_ik(at: int, item: Item, command: Command) -> Iterator[Finding]:
    named = item.value.partition(":")[0]
    kinds = named.split(",")
    if len(kinds) == 1 and named in KNOWN_TO_IK:
        return
    edits = in_stages(command)
    words = next((edit.words for edit in edits if edit.words), ())
    is_known = all(IK_KINDS.get(kind, kind) in KNOWN_TO_IK for kind in kinds)
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"ik_llama.cpp's llama-server knows no {item.given.flag} {named}",
        why=f"it takes one of {', '.join(KNOWN_TO_IK)}, and the option again for another",
        replacement=quoted(*words) if is_known else None,
        edits=edits if is_known else (),
        at=at,
    )


def _again(at: int, item: Item, command: Command) -> Iterator[Finding]:
    """Find a kind that occurs in another stage as well, which ik_llama.cpp refuses."""
    kind, colon, _settings = item.value.partition(":")
    others = [one for place, one in command.all("spec-type") if place != at]
    same = [one for one in others if one.value.partition(":")[0] == kind]
    # Of two with numbers only their author knows which counts.
    is_idle = not colon and any(":" in one.value for one in same)
    if same and (is_idle or at > command.items.index(same[0])):
        yield Finding(
            flag=item.shown,
            severity=Severity.ERROR,
            what=f"{item.given.flag} names {kind} more than once",
            why="ik_llama.cpp takes a kind once, and stops at a second stage of it",
            replacement="",
            edits=replaced(at) if is_idle else (),
            at=at,
        )
