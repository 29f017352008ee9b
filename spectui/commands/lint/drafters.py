"""Rules for drafters: the kinds of ``--spec-type``, and draft files that do not match them."""

from collections.abc import Iterable, Iterator

from spectui.commands import renames
from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, about, error, warning
from spectui.commands.items import Item
from spectui.commands.measured import is_made_up
from spectui.commands.reader import Reader
from spectui.commands.rewriting import (
    drafting,
    is_stage_option,
    kind_by_name,
    kind_of_draft,
    to_ik_stages,
)
from spectui.errors import BadInputError
from spectui.options.drafters import HIDDEN_STATE_KINDS, MODEL_KIND, MTP_KIND
from spectui.options.option import Dialect

_MEANT = {"yes": "on", "y": "on", "no": "off", "n": "off"}
_SIGN_OF_MTP = ".nextn.eh_proj.weight"
"""Tensor of a file's last layer by which llama-server recognises MTP layers
(``common_speculative_types_from_gguf``)."""


def kinds_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on every ``--spec-type``."""
    if reader.dialect is Dialect.IK:
        yield from _kinds_of_ik(command)
    elif reader.is_current:
        for at, item in command.all("spec-type"):
            yield from _ik_form(at, item) if ":" in item.value else _kinds(at, item, reader)
        yield from _one_context(command)


def _kinds(at: int, item: Item, reader: Reader) -> Iterator[Finding]:
    given = item.value.split(",")
    kinds = [_reader_kind(kind, reader) for kind in given]
    if kinds == given:
        return
    yield error(
        (at, item),
        f"{reader.name} knows no {item.flag} {item.value}",
        f"it takes {', '.join(reader.kinds)}, or several with commas, and stops at anything else",
        fix=None if None in kinds else (item.flag, ",".join(filter(None, kinds))),
    )


def _reader_kind(kind: str, reader: Reader) -> str | None:
    """The reader's name for a kind in another spelling, or without its prefix."""
    spellings = (kind, renames.FORMER_KINDS.get(kind, kind), f"draft-{kind}", f"ngram-{kind}")
    return next(filter(None, (respelled(one, reader.kinds) for one in spellings)), None)


def respelled(value: str, words: Iterable[str]) -> str | None:
    """The valid word that the value is another spelling of; None if there is none."""
    spelled = _MEANT.get(value.casefold(), value.casefold())
    others = {spelled, spelled.replace("_", "-"), spelled.replace("-", "_")}
    return next((word for word in words if word in others), None)


def _ik_form(at: int, item: Item) -> Iterator[Finding]:
    """Find ik_llama.cpp's numbers behind the kind, which are separate options elsewhere."""
    try:
        options = drafting(item.value).items()
    except BadInputError:
        words: tuple[str, ...] | None = None
    else:
        words = tuple(
            w for n, values in options for w in (renames.MODEL_FLAGS.get(n, f"--{n}"), *values)
        )
    yield error(
        (at, item),
        f"{item.flag} {item.value} is ik_llama.cpp's form",
        "llama-server takes a kind alone, and stops at anything else",
        fix=words,
    )


def _one_context(command: ServerCommand) -> Iterator[Finding]:
    """Find several kinds that draft with a model: llama-server has one draft context."""
    found, kinds = command.last("spec-type"), command.kinds
    model_kinds = [kind for kind in kinds if kind in renames.MODEL_KINDS]
    if found is None or len(model_kinds) < 2:  # noqa: PLR2004 - two of them
        return
    kind = kind_of_draft(command) if command.has_draft else MTP_KIND
    named = ",".join((*(one for one in kinds if one not in renames.MODEL_KINDS), kind))
    yield error(
        found,
        f"{' and '.join(model_kinds)} cannot draft beside each other",
        "llama-server has one draft context, and ends while it loads or drafts nothing; name one "
        "of them",
        write=(found[1].flag, named) if kind in model_kinds else None,
    )


def _kinds_of_ik(command: ServerCommand) -> Iterator[Finding]:
    """Find values that are no stages of ik_llama.cpp."""
    for at, item in command.all("spec-type"):
        if renames.is_stage(item.value):
            continue
        edits = to_ik_stages(command)
        words = next(filter(None, edits.values()), ())
        if not words or not all(map(renames.is_stage, words[1::2])):
            edits, words = {}, ()
        what = f"ik_llama.cpp's llama-server knows no {item.flag} {item.value}"
        known = ", ".join(renames.KNOWN_TO_IK)
        why = f"it takes one of {known}, numbers behind a colon, and the option again for another"
        yield error((at, item), what, why, write=words or None, fix=edits)


def drafters_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on drafts and drafters that do not match."""
    if command.has_draft:
        yield from _draft_findings(command, reader)
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


def _draft_findings(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    found, kinds = command.last(*renames.DRAFTS), command.kinds
    at, shown = (-1, "the draft") if found is None else (found[0], found[1].shown)
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
    elif set(kinds) <= set(renames.BY_ITSELF):
        yield warning(
            found or shown,
            f"{shown} is given, but only {', '.join(kinds)} drafts",
            "the draft is loaded and takes its memory, and is never used",
            write=("--spec-type", ",".join((*kinds, kind_of_draft(command)))),
        )
    elif reader.is_current:
        yield from _other_kind(command)


def _no_kind(at: int, shown: str, command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find a draft without an option that names its kind."""
    kind, is_ik = kind_of_draft(command), reader.dialect is Dialect.IK
    does = "ik_llama.cpp neither loads the draft nor drafts with it"
    what, why = "there is a draft, but no --spec-type", f"since spring 2026 {does}"
    if not is_ik:
        found = _unsaid(kind, shown, command) if reader.is_current else None
        if found is None:
            return
        what, why = found
    elif any(map(is_stage_option, command.items)):
        # Options of stages have that finding already.
        return
    named = renames.IK_KINDS.get(kind) if is_ik else kind
    yield Finding(
        flag="--spec-type",
        severity=Severity.WARNING,
        what=what,
        why=why,
        replacement=None if named is None else f"--spec-type {named}",
        edits={} if named is None else {None: ("--spec-type", named)},
        at=at,
    )


def _unsaid(kind: str, shown: str, command: ServerCommand) -> tuple[str, str] | None:
    """The finding on a draft that llama-server may ignore, and its reason; None where it drafts."""
    by_name, tensors = kind_by_name(command), command.draft_tensors
    if command.value("spec-draft-hf") and by_name not in {None, MTP_KIND}:
        return f"whether {shown} drafts depends on the files of its repository", (
            "llama-server drafts if it finds a file there whose name or header tells the kind; "
            "with --spec-type it always does"
        )
    # llama-server takes such a file for MTP layers.
    has_sign = tensors is not None and any(name.endswith(_SIGN_OF_MTP) for name in tensors)
    if has_sign and kind == MODEL_KIND:
        what = f"{shown} is a whole model whose last layer predicts tokens, without --spec-type"
        return what, "llama-server takes such a file for MTP layers of the target"
    if by_name == MTP_KIND and tensors is None:
        return f"whether {shown} drafts depends on its file", (
            "llama-server knows MTP layers by a tensor that some files lack, such as Gemma's, and "
            "then drafts nothing; with --spec-type it drafts with either"
        )
    if kind in {"draft-dflash", "draft-dspark"} or (kind == MTP_KIND and has_sign):
        # It recognises them by their files.
        return None
    does = "llama-server loads the draft and then drafts nothing with it"
    return "there is a draft, but no --spec-type", f"since spring 2026 {does}"


def _other_kind(command: ServerCommand) -> Iterator[Finding]:
    """Find a draft of another kind than the requested ones."""
    kind = command.draft_kind
    if kind is None or kind in command.kinds:
        return
    *_, (at, item) = command.all("spec-type", renames.BY_SWITCH)
    named = [one for one in command.kinds if not one.startswith("draft")]
    yield error(
        (at, item),
        f"the draft's file is one for {kind}, which {item.flag} does not name",
        "a draft of one kind cannot draft as another",
        write=("--spec-type", ",".join((*named, kind))),
    )


def _without_draft(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    is_ik = reader.dialect is Dialect.IK
    does = "stops without one" if is_ik else "starts, and drafts nothing with it"
    # llama-server fetches drafts of these kinds from the target's repository, if they are there.
    beside = HIDDEN_STATE_KINDS if reader.is_current and command.has("hf-repo") else ()
    for at, item in command.all("spec-type"):
        named = item.value.partition(":")[0].split(",")
        needing = [kind for kind in named if kind in renames.NEED_DRAFT.difference(beside)]
        if needing:
            yield about(
                Severity.ERROR if is_ik else Severity.WARNING,
                (at, item),
                f"{item.flag} {', '.join(needing)}, but there is no draft",
                f"the server {does}",
                write=("-md", "FILE"),
            )
