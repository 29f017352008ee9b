"""Rules for drafters: a draft without a drafter, and a drafter without a draft."""

from collections.abc import Iterator
from pathlib import PurePath

from spectui.export.rewriting.items import BY_LAYERS, Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.lint.finding import Finding, added, left_out, quoted
from spectui.options.dialect import Dialect
from spectui.options.drafters import MODEL_KIND, MTP_KIND
from spectui.severity import Severity

_FOUND_OUT = (MTP_KIND, "draft-dflash", "draft-dspark")
"""Kinds of drafts that llama-server recognises by their files."""
_MARKS = {
    "eagle": "draft-eagle3",
    "mtp": MTP_KIND,
    "dflash": "draft-dflash",
    "dspark": "draft-dspark",
}
"""Kinds by parts of file names."""
_MODELS = ("model", "model-url", "docker-repo", "hf-repo", "models-dir", "models-preset")
_NEED_DRAFT = ("draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark", "draft")
_OF_THE_DRAFT = (
    *("gpu-layers-draft", "cache-type-k-draft", "cache-type-v-draft", "override-tensor-draft"),
    *("cpu-moe-draft", "n-cpu-moe-draft", "spec-draft-threads", "spec-draft-threads-batch"),
    *("spec-draft-cpu-mask", "spec-draft-cpu-range", "spec-draft-cpu-strict", "spec-draft-prio"),
    *("spec-draft-poll", "spec-draft-cpu-mask-batch", "spec-draft-cpu-strict-batch"),
    *("spec-draft-prio-batch", "spec-draft-poll-batch", "spec-draft-device", "ctx-size-draft"),
    "spec-replace",
)
"""Options for the placement of a draft model."""
_OF_DRAFTING = ("draft-max", "draft-min", "draft-p-min", "spec-draft-p-split")


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield findings on drafts and drafters that do not match."""
    if command.has_draft:
        yield from _of_draft(command, reader)
        yield from _without_model(command)
    else:
        yield from _without_draft(command)


def _of_draft(command: Command, reader: Reader) -> Iterator[Finding]:
    found = command.last("model-draft", "spec-draft-hf")
    at, item = (-1, None) if found is None else found
    shown = "the draft" if item is None else item.shown
    kinds = command.kinds
    if not command.has("spec-type", "spec-default"):
        yield from _no_kind(at, item, command, reader)
    elif not kinds:
        [*_, (place, none)] = command.all("spec-type")
        yield Finding(
            flag=none.shown,
            severity=Severity.WARNING,
            what=f"{none.given.flag} none, beside {shown}",
            why="the draft is loaded and takes its memory, and drafts nothing",
            replacement=quoted(none.given.flag, "draft-simple"),
            at=place,
        )
    elif not any(kind.startswith(("draft", "mtp")) for kind in kinds):
        yield Finding(
            flag=shown,
            severity=Severity.WARNING,
            what=f"{shown} is given, but only {', '.join(kinds)} drafts",
            why="the draft is loaded and takes its memory, and nobody asks it",
            replacement=quoted("--spec-type", ",".join((*kinds, "draft-simple"))),
            at=at,
        )
    elif reader.is_current:
        yield from _other_kind(command)


def _no_kind(at: int, item: Item | None, command: Command, reader: Reader) -> Iterator[Finding]:
    if not reader.is_current:
        return
    kind = _kind_of(item, command)
    if kind in _FOUND_OUT:
        return
    words = ("--spec-type", kind)
    yield Finding(
        flag="--spec-type",
        severity=Severity.ERROR,
        what="there is a draft, but no --spec-type",
        why="since spring 2026 llama-server loads the draft and then drafts nothing with it",
        replacement=quoted(*words),
        edits=added(*words),
        at=at,
    )


def _kind_of(item: Item | None, command: Command) -> str:
    """The draft's kind from its file, or else from its name."""
    known = command.known
    if known.draft_kind is not None or known.draft_tensors is not None:
        return known.draft_kind or MODEL_KIND
    name = "" if item is None else PurePath(item.value).name.lower()
    return next((kind for mark, kind in _MARKS.items() if mark in name), MODEL_KIND)


def _other_kind(command: Command) -> Iterator[Finding]:
    """Find a draft of another kind than the requested ones."""
    kind = command.known.draft_kind
    if kind is None or kind in command.kinds:
        return
    *_, (at, item) = command.all("spec-type", "multi-token-prediction")
    named = [one for one in command.kinds if not one.startswith("draft")]
    yield Finding(
        flag=item.shown,
        severity=Severity.ERROR,
        what=f"the draft's file is one for {kind}, which {item.given.flag} does not name",
        why="a draft of one kind cannot draft as another",
        replacement=quoted("--spec-type", ",".join((*named, kind))),
        at=at,
    )


def _without_model(command: Command) -> Iterator[Finding]:
    if command.has(*_MODELS) or command.is_section:
        return
    found = command.last("model-draft", "spec-draft-hf")
    if found is not None:
        yield Finding(
            flag="-m",
            severity=Severity.ERROR,
            what=f"{found[1].shown} is given, but no model that it drafts for",
            why="without one llama-server starts no model, or another than was meant",
            replacement="-m FILE",
            at=found[0],
        )


def _without_draft(command: Command) -> Iterator[Finding]:
    kinds = command.kinds
    for at, item in command.all("spec-type"):
        needing = [kind for kind in item.value.partition(":")[0].split(",") if kind in _NEED_DRAFT]
        if needing:
            yield Finding(
                flag=item.shown,
                severity=Severity.ERROR,
                what=f"{item.given.flag} {', '.join(needing)}, but there is no draft",
                why="the server says so in its log once, and drafts nothing",
                replacement="-md FILE",
                at=at,
            )
    if any(kind in (*BY_LAYERS, *_NEED_DRAFT) for kind in kinds):
        return
    unread = _OF_THE_DRAFT if kinds else (*_OF_THE_DRAFT, *_OF_DRAFTING)
    for at, item in command.all(*unread):
        what = f"{item.shown} is about a draft, and there is none"
        yield left_out(at, item, what=what, why="it does nothing")


def is_inherited(reader: Reader) -> bool:
    """Whether a draft's cache has the target's types by default."""
    return reader.dialect is not Dialect.LLAMA_CPP
