"""Who drafts: a draft that nobody asks, and a drafter that has no draft."""

from collections.abc import Iterator
from pathlib import PurePath

from spectui.export.dialects import Dialect
from spectui.lint.command import BY_LAYERS, Command, Item
from spectui.lint.finding import Finding, added, quoted, replaced
from spectui.lint.reader import Reader
from spectui.severity import Severity

_FOUND_OUT = ("mtp", "dflash", "dspark")
"""Kinds of drafts that llama-server recognises by their files."""
_NEED_DRAFT = ("draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark", "draft")
_OF_THE_DRAFT = (
    *("gpu-layers-draft", "cache-type-k-draft", "cache-type-v-draft", "override-tensor-draft"),
    *("cpu-moe-draft", "n-cpu-moe-draft", "spec-draft-threads", "spec-draft-threads-batch"),
    *("spec-draft-cpu-mask", "spec-draft-cpu-range", "spec-draft-cpu-strict", "spec-draft-prio"),
    *("spec-draft-poll", "spec-draft-cpu-mask-batch", "spec-draft-cpu-strict-batch"),
    *("spec-draft-prio-batch", "spec-draft-poll-batch", "spec-draft-device", "ctx-size-draft"),
    "spec-replace",
)
"""Options that say where a draft model goes."""
_OF_DRAFTING = ("draft-max", "draft-min", "draft-p-min", "spec-draft-p-split")


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield what does not come together."""
    if command.has_draft:
        yield from _of_draft(command, reader)
    else:
        yield from _without_draft(command)


def _of_draft(command: Command, reader: Reader) -> Iterator[Finding]:
    found = command.last("model-draft", "spec-draft-hf")
    at, item = (-1, None) if found is None else found
    shown = "the draft" if item is None else item.shown
    kinds = command.kinds
    if not command.has("spec-type", "spec-default"):
        yield from _no_kind(at, item, reader)
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


def _no_kind(at: int, item: Item | None, reader: Reader) -> Iterator[Finding]:
    if not reader.is_current:
        return
    name = "" if item is None else PurePath(item.value).name.lower()
    if any(mark in name for mark in _FOUND_OUT):
        return
    words = ("--spec-type", "draft-eagle3" if "eagle" in name else "draft-simple")
    yield Finding(
        flag="--spec-type",
        severity=Severity.ERROR,
        what="there is a draft, but no --spec-type",
        why="since spring 2026 llama-server loads the draft and then drafts nothing with it",
        replacement=quoted(*words),
        edits=added(*words),
        at=at,
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
    idle = _OF_THE_DRAFT if kinds else (*_OF_THE_DRAFT, *_OF_DRAFTING)
    for at, item in command.all(*idle):
        yield Finding(
            flag=item.shown,
            severity=Severity.WARNING,
            what=f"{item.shown} is about a draft, and there is none",
            why="it does nothing",
            replacement="",
            edits=replaced(at),
            at=at,
        )


def is_inherited(reader: Reader) -> bool:
    """Whether a draft's cache is of the target's types unless told otherwise."""
    return reader.dialect is not Dialect.LLAMA_CPP
