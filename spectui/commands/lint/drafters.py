"""Rules for ``--spec-type``, and for drafts and drafters that do not match."""

import shlex
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import PurePath

from spectui.commands.command import BY_LAYERS, ServerCommand
from spectui.commands.drafting import KINDS_BY_NAME, drafting, in_stages, is_of_stage
from spectui.commands.finding import Edits, Finding, error, warning
from spectui.commands.items import Item
from spectui.commands.reader import Reader
from spectui.commands.stages import (
    BY_ITSELF,
    IK_KINDS,
    NONE,
    UNFINISHED,
    chain_fault,
    read_stage,
)
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.drafters import (
    MODEL_KIND,
    MODELS,
    MTP_KIND,
    NGRAM_KINDS,
    NGRAMS,
    DraftSimple,
    kind_of,
    numbers_of,
)
from spectui.severity import Severity

KINDS = ("none", *map(kind_of, (*MODELS, *NGRAMS)))
"""All kinds that llama-server knows."""
_MEANT = {"yes": "on", "y": "on", "no": "off", "n": "off"}
_OLD_KINDS = {"draft": MODEL_KIND}
_OF_MODELS = ("draft", MODEL_KIND)
_SHARED_NAMES = {one.option: one.shared[0] for drafter in NGRAMS for one in numbers_of(drafter)}
"""Former names of n-gram drafters' own options, before each kind had them."""
MODEL_FLAGS = {one.option: one.flags[-1] for one in numbers_of(DraftSimple)}
"""Current flags of a draft model's numbers."""
_FOUND_OUT = (MTP_KIND, "draft-dflash", "draft-dspark")
"""Kinds of drafts that llama-server recognises by their files."""
_SIGN_OF_MTP = ".nextn.eh_proj.weight"
_MODELS = ("model", "model-url", "docker-repo", "hf-repo", "models-dir", "models-preset")
_NEED_DRAFT = ("draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark", "draft")
_OF_THE_DRAFT = (
    *("gpu-layers-draft", "cache-type-k-draft", "cache-type-v-draft", "override-tensor-draft"),
    *("cpu-moe-draft", "n-cpu-moe-draft", "threads-draft", "threads-batch-draft"),
    *("spec-draft-cpu-mask", "spec-draft-cpu-range", "spec-draft-cpu-strict", "spec-draft-prio"),
    *("spec-draft-poll", "spec-draft-cpu-mask-batch", "spec-draft-cpu-strict-batch"),
    *("spec-draft-prio-batch", "spec-draft-poll-batch", "spec-draft-device", "ctx-size-draft"),
    "spec-replace",
)
"""Options for the placement of a draft model."""
_OF_DRAFTING = (*MODEL_FLAGS, "spec-draft-p-split")


def kinds_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on every ``--spec-type``."""
    if reader.dialect is Dialect.IK:
        found = [one for item in command.all("spec-type") for one in _of_ik(*item, command)]
        yield from found
        # How stages stand together is seen once each is one.
        if not any(one.severity is Severity.ERROR for one in found):
            yield from _of_chain(command)
        return
    for at, item in command.all("spec-type"):
        if reader.is_current:
            yield from _current(at, item)
        else:
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
    alike = [kind or _alike(own) for kind, own in zip(kinds, given, strict=True)]
    words = (item.flag, ",".join(filter(None, alike)))
    yield error(
        (at, item),
        f"llama-server knows no {item.flag} {item.value}",
        f"it takes {', '.join(KINDS)}, or several with commas, and stops at anything else",
        write=None if None in alike else words,
        fix=words if len(found) == len(given) else None,
    )


def _known(kind: str) -> str | None:
    """llama-server's name for a kind in another spelling, or without its prefix."""
    spellings = (kind, _OLD_KINDS.get(kind, kind), f"draft-{kind}", f"ngram-{kind}")
    return next(filter(None, (respelled(one, KINDS) for one in spellings)), None)


def respelled(value: str, words: Iterable[str]) -> str | None:
    """The valid word that the value is another spelling of; None if there is none."""
    spelled = _MEANT.get(value.casefold(), value.casefold())
    others = {spelled, spelled.replace("_", "-"), spelled.replace("-", "_")}
    return next((word for word in words if word in others), None)


def _alike(kind: str) -> str | None:
    return next(iter(get_close_matches(kind, KINDS, 1)), None)


def _stage(at: int, item: Item) -> Finding:
    """Find ik_llama.cpp's numbers behind the kind, which are separate options elsewhere."""
    try:
        options = drafting(item.value).items()
    except BadInputError:
        words: tuple[str, ...] | None = None
    else:
        words = tuple(w for n, values in options for w in (MODEL_FLAGS.get(n, f"--{n}"), *values))
    return error(
        (at, item),
        f"{item.flag} {item.value} is ik_llama.cpp's form",
        "llama-server takes a kind alone, and stops at anything else",
        fix=words,
    )


def _before_spring(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    """Find kinds other than n-gram drafters, which builds before spring 2026 do not know."""
    kind, colon, _settings = item.value.partition(":")
    words: tuple[str, ...] | None
    if kind in _OF_MODELS and not colon:
        why, words = "a draft model is reason enough for it to draft", ()
    elif colon or item.value not in {"none", *NGRAM_KINDS}:
        why = f"it takes one of {', '.join(NGRAM_KINDS)}, and lengths as options of their own"
        words = _shared_words(item.value)
    else:
        return
    yield error((at, item), f"{reader.name} knows no {item.flag} {item.value}", why, fix=words)


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


def _of_ik(at: int, item: Item, command: ServerCommand) -> Iterator[Finding]:
    """Find a value that is no stage of ik_llama.cpp."""
    try:
        stage = read_stage(item.value)
    except ValueError as fault:
        edits = in_stages(command)
        words = next(filter(None, edits.values()), ())
        # What is no stage then either only its author can tell.
        if not all(map(_is_stage, words[1::2])):
            edits, words = {}, ()
        yield Finding(
            flag=item.shown,
            severity=Severity.ERROR,
            what=f"ik_llama.cpp's llama-server knows no {item.flag} {item.value}",
            why=str(fault),
            replacement=shlex.join(words) if words else None,
            edits=edits,
            at=at,
        )
    else:
        if stage.kind == UNFINISHED:
            yield warning(
                (at, item),
                f"{item.flag} {stage.kind} drafts nothing in ik_llama.cpp",
                "it takes the name, and has no drafter behind it",
                write=(),
            )


def _is_stage(value: str) -> bool:
    try:
        read_stage(value)
    except ValueError:
        return False
    return True


def _of_chain(command: ServerCommand) -> Iterator[Finding]:
    """Find stages that ik_llama.cpp does not take together."""
    found = list(command.all("spec-type"))
    kinds = [read_stage(item.value).kind for _at, item in found]
    repeated = [one for at, item in found for one in _again(at, item, command)]
    yield from repeated
    fault = chain_fault(command)
    if fault is None or repeated:
        return
    place, why = fault
    at, item = found[place]
    edits: Edits = {}
    if kinds[place] not in BY_ITSELF and set(kinds[place:]) & set(BY_ITSELF):
        edits = in_stages(command)
    words = [word for one in edits.values() for word in one]
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"ik_llama.cpp's llama-server takes no {item.flag} {item.value} there",
        why=why,
        replacement=shlex.join(words) if words else None,
        edits=edits,
        at=at,
    )


def _again(at: int, item: Item, command: ServerCommand) -> Iterator[Finding]:
    """Find a kind that occurs in another stage as well, which ik_llama.cpp refuses."""
    kind, colon = _kind(item), ":" in item.value
    others = [one for place, one in command.all("spec-type") if place != at]
    same = [one for one in others if _kind(one) == kind != NONE]
    # Of two with numbers only their author knows which counts.
    is_idle = not colon and any(":" in one.value for one in same)
    if same and (is_idle or at > command.items.index(same[0])):
        yield error(
            (at, item),
            f"{item.flag} names {kind} more than once",
            "ik_llama.cpp takes a kind once, and stops at a second stage of it",
            write=(),
            fix=() if is_idle else None,
        )


def _kind(item: Item) -> str:
    return item.value.partition(":")[0].replace("_", "-")


def drafters_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on drafts and drafters that do not match."""
    if command.has_draft:
        yield from _of_draft(command, reader)
        yield from _without_model(command)
    elif not command.has("draft-params"):
        yield from _without_draft(command, reader)


def _of_draft(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    found = command.last("model-draft", "spec-draft-hf")
    at, item = (-1, None) if found is None else found
    shown = "the draft" if item is None else item.shown
    kinds = command.kinds
    if not command.has("spec-type", "spec-default"):
        yield from _no_kind(at, item, command, reader)
    elif not kinds:
        [*_, (place, none)] = command.all("spec-type")
        yield warning(
            (place, none),
            f"{none.flag} none, beside {shown}",
            "the draft is loaded and takes its memory, and drafts nothing",
            write=(none.flag, "draft-simple"),
        )
    elif not any(kind.startswith(("draft", "mtp")) for kind in kinds):
        yield Finding(
            flag=shown,
            severity=Severity.WARNING,
            what=f"{shown} is given, but only {', '.join(kinds)} drafts",
            why="the draft is loaded and takes its memory, and nobody asks it",
            replacement=shlex.join(("--spec-type", ",".join((*kinds, "draft-simple")))),
            at=at,
        )
    elif reader.is_current:
        yield from _other_kind(command)


def _no_kind(
    at: int, item: Item | None, command: ServerCommand, reader: Reader
) -> Iterator[Finding]:
    kind = _kind_of(item, command)
    is_found_out = kind in _FOUND_OUT and not (kind == MTP_KIND and _is_overlooked(command))
    if reader.is_current and not is_found_out:
        yield _undrafted(at, kind, "llama-server loads the draft and then drafts nothing with it")
    # Where something is of a stage, that is told of it.
    if reader.dialect is Dialect.IK and not any(map(is_of_stage, command.items)):
        does = "ik_llama.cpp neither loads the draft nor drafts with it"
        yield _undrafted(at, IK_KINDS.get(kind), does)


def _undrafted(at: int, kind: str | None, does: str) -> Finding:
    return Finding(
        flag="--spec-type",
        severity=Severity.WARNING,
        what="there is a draft, but no --spec-type",
        why=f"since spring 2026 {does}",
        replacement=None if kind is None else f"--spec-type {kind}",
        edits={} if kind is None else {None: ("--spec-type", kind)},
        at=at,
    )


def _is_overlooked(command: ServerCommand) -> bool:
    """Whether a file of MTP layers lacks the tensor by which llama-server recognises one.

    Gemma's do (``common_speculative_types_from_gguf``).
    """
    names = command.draft_tensors
    return names is not None and not any(name.endswith(_SIGN_OF_MTP) for name in names)


def _kind_of(item: Item | None, command: ServerCommand) -> str:
    """The draft's kind from its file, or else from its name."""
    if command.draft_kind is not None or command.draft_tensors is not None:
        return command.draft_kind or MODEL_KIND
    name = "" if item is None else PurePath(item.value).name.lower()
    return next((kind for mark, kind in KINDS_BY_NAME.items() if mark in name), MODEL_KIND)


def _other_kind(command: ServerCommand) -> Iterator[Finding]:
    """Find a draft of another kind than the requested ones."""
    kind = command.draft_kind
    if kind is None or kind in command.kinds:
        return
    *_, (at, item) = command.all("spec-type", "multi-token-prediction")
    named = [one for one in command.kinds if not one.startswith("draft")]
    yield error(
        (at, item),
        f"the draft's file is one for {kind}, which {item.flag} does not name",
        "a draft of one kind cannot draft as another",
        write=("--spec-type", ",".join((*named, kind))),
    )


def _without_model(command: ServerCommand) -> Iterator[Finding]:
    if command.has(*_MODELS) or command.is_section:
        return
    found = command.last("model-draft", "spec-draft-hf")
    if found is not None:
        yield Finding(
            flag="-m",
            severity=Severity.WARNING,
            what=f"{found[1].shown} is given, but no model that it drafts for",
            why="without one llama-server starts no model, or another than was meant",
            replacement="-m FILE",
            at=found[0],
        )


def _without_draft(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    kinds = command.kinds
    # ik_llama.cpp stops, which is told of its stages.
    for at, item in () if reader.dialect is Dialect.IK else command.all("spec-type"):
        needing = [kind for kind in item.value.partition(":")[0].split(",") if kind in _NEED_DRAFT]
        if needing:
            yield warning(
                (at, item),
                f"{item.flag} {', '.join(needing)}, but there is no draft",
                "the server says so in its log once, and drafts nothing",
                write=("-md", "FILE"),
            )
    if any(kind in (*BY_LAYERS, *_NEED_DRAFT) for kind in kinds):
        return
    unread = _OF_THE_DRAFT if kinds else (*_OF_THE_DRAFT, *_OF_DRAFTING)
    for at, item in command.all(*unread):
        what = f"{item.shown} is about a draft, and there is none"
        yield warning((at, item), what, "it does nothing", write=())
