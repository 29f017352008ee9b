"""Rules for drafts and drafters that do not match."""

import re
from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import is_of_stage, kind_by_name, kind_of_draft
from spectui.commands.finding import Finding, Severity, about, error, note, warning
from spectui.commands.measured import is_made_up
from spectui.commands.reader import Reader
from spectui.commands.renames import (
    BY_LAYERS,
    BY_SWITCH,
    DRAFTS,
    IK_KINDS,
    MODEL_FLAGS,
    NEED_DRAFT,
    SERVED,
)
from spectui.commands.rewriting import as_meant
from spectui.commands.stages import BY_ITSELF
from spectui.options.dialect import Dialect
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND

_FOUND_OUT = (MTP_KIND, "draft-dflash", "draft-dspark")
"""Kinds of drafts that llama-server recognises by their files."""
_SIGN_OF_MTP = ".nextn.eh_proj.weight"
"""Tensor of a file's last layer by which llama-server recognises MTP layers
(``common_speculative_types_from_gguf``)."""
_OF_THE_DRAFT = re.compile(r".+-draft|spec-draft-.+|spec-replace")
"""Names of options for a draft model."""
_OF_DRAFTING = (
    *(*MODEL_FLAGS, "spec-draft-p-split"),
    *("spec-draft-sampling", "spec-draft-backend-sampling"),
)
"""Options for drafting with any model, MTP layers included."""


def drafters_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on drafts and drafters that do not match."""
    command = as_meant(command)
    if command.has_draft:
        yield from _of_draft(command, reader)
        yield from _without_model(command)
    elif not command.has("draft-params"):
        yield from _without_draft(command, reader)
    for at, item in enumerate(command.items):
        if is_made_up(item) and reader.takes(item.flag):
            yield error(
                (at, item),
                f"{item.shown} makes acceptance up",
                "drafted tokens are accepted by chance, whatever the target would write, so that "
                "the text is invalid: it is for benchmarks of llama-server itself",
                fix=(),
            )


def _of_draft(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    found = command.last(*DRAFTS)
    at, shown = (-1, "the draft") if found is None else (found[0], found[1].shown)
    kinds = command.kinds
    if not command.has("spec-type", "spec-default"):
        yield from _no_kind(at, shown, command, reader)
    elif not kinds:
        [*_, (place, none)] = command.all("spec-type")
        yield warning(
            (place, none),
            f"{none.flag} none, beside {shown}",
            "the draft is loaded, --fit counts its memory, and it is dropped again: nothing drafts",
            write=(none.flag, kind_of_draft(command)),
        )
    elif set(kinds) <= set(BY_ITSELF):
        yield warning(
            found or shown,
            f"{shown} is given, but only {', '.join(kinds)} drafts",
            "the draft is loaded and takes its memory, and nobody asks it",
            write=("--spec-type", ",".join((*kinds, kind_of_draft(command)))),
        )
    elif reader.is_current:
        yield from _other_kind(command)


def _no_kind(at: int, shown: str, command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    kind = kind_of_draft(command)
    if reader.dialect is Dialect.IK:
        # Where something is of a stage, that is told of it.
        if not any(map(is_of_stage, command.items)):
            does = "ik_llama.cpp neither loads the draft nor drafts with it"
            yield _undrafted(at, IK_KINDS.get(kind), _NO_KIND, f"since spring 2026 {does}")
    elif reader.is_current and _is_taken_for_mtp(command) and kind == MODEL_KIND:
        yield _undrafted(
            at,
            kind,
            f"{shown} is a whole model whose last layer predicts tokens, without --spec-type",
            "llama-server takes such a file for MTP layers of the target",
        )
    elif reader.is_current and kind_by_name(command) == MTP_KIND and command.draft_tensors is None:
        yield _undrafted(
            at,
            kind,
            f"whether {shown} drafts depends on its file",
            "llama-server knows MTP layers by a tensor that some files lack, such as Gemma's, and "
            "then drafts nothing; with --spec-type it drafts with either",
        )
    elif reader.is_current and kind_by_name(command) and command.value("spec-draft-hf"):
        yield note(
            (at, command.items[at]),
            f"whether {shown} drafts depends on the files of its repository",
            f"llama-server drafts if it finds a file there whose name or header tells the kind; "
            f"with --spec-type {kind} it always does",
            write=("--spec-type", kind),
        )
    elif reader.is_current and (
        kind not in _FOUND_OUT or (kind == MTP_KIND and not _is_taken_for_mtp(command))
    ):
        does = "llama-server loads the draft and then drafts nothing with it"
        yield _undrafted(at, kind, _NO_KIND, f"since spring 2026 {does}")


_NO_KIND = "there is a draft, but no --spec-type"


def _undrafted(at: int, kind: str | None, what: str, why: str) -> Finding:
    return Finding(
        flag="--spec-type",
        severity=Severity.WARNING,
        what=what,
        why=why,
        replacement=None if kind is None else f"--spec-type {kind}",
        edits={} if kind is None else {None: ("--spec-type", kind)},
        at=at,
    )


def _is_taken_for_mtp(command: ServerCommand) -> bool:
    """Whether llama-server takes the draft's file for MTP layers, as far as it was read."""
    names = command.draft_tensors
    return names is not None and any(name.endswith(_SIGN_OF_MTP) for name in names)


def _other_kind(command: ServerCommand) -> Iterator[Finding]:
    """Find a draft of another kind than the requested ones."""
    kind = command.draft_kind
    if kind is None or kind in command.kinds:
        return
    *_, (at, item) = command.all("spec-type", BY_SWITCH)
    named = [one for one in command.kinds if not one.startswith("draft")]
    yield error(
        (at, item),
        f"the draft's file is one for {kind}, which {item.flag} does not name",
        "a draft of one kind cannot draft as another",
        write=("--spec-type", ",".join((*named, kind))),
    )


def _without_model(command: ServerCommand) -> Iterator[Finding]:
    if command.has(*SERVED) or command.is_section:
        return
    found = command.last(*DRAFTS)
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
    does = "starts, and drafts nothing with it"
    severity = Severity.WARNING
    if reader.dialect is Dialect.IK:
        does, severity = "stops without one", Severity.ERROR
    # llama-server fetches drafts of these kinds from the target's repository, if they are there.
    beside = HIDDEN_STATE_KINDS if reader.is_current and command.has("hf-repo") else ()
    for at, item in command.all("spec-type"):
        named = item.value.partition(":")[0].split(",")
        needing = [kind for kind in named if kind in NEED_DRAFT.difference(beside)]
        if needing:
            yield about(
                severity,
                (at, item),
                f"{item.flag} {', '.join(needing)}, but there is no draft",
                f"the server {does}",
                write=("-md", "FILE"),
            )
    if any(kind in BY_LAYERS | NEED_DRAFT for kind in kinds):
        return
    for at, item in enumerate(command.items):
        if reader.takes(item.flag) is False:
            # It is told of its name first.
            continue
        is_of_any = item.name in _OF_DRAFTING
        if not kinds if is_of_any else _OF_THE_DRAFT.fullmatch(item.name):
            what = f"{item.shown} is about a draft, and there is none"
            yield warning((at, item), what, "it does nothing", write=())
