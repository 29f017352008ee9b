"""Rules for ``--spec-type``."""

import shlex
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import drafting, kind_of_draft, to_ik_stages
from spectui.commands.finding import Finding, Severity, error, warning
from spectui.commands.items import Item
from spectui.commands.reader import Reader
from spectui.commands.renames import (
    FORMER_KINDS,
    KINDS,
    MODEL_FLAGS,
    OF_MODELS,
)
from spectui.commands.stages import UNFINISHED, fault_of_chain, read_stage
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.options.drafters import MTP_KIND

_MEANT = {"yes": "on", "y": "on", "no": "off", "n": "off"}


def kinds_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on every ``--spec-type``."""
    for at, item in command.all("spec-type"):
        if reader.dialect is Dialect.IK:
            yield from _of_ik(at, item, command)
        elif reader.is_current:
            yield from _current(at, item)
    if reader.dialect is Dialect.IK:
        yield from _chain_of_ik(command)
    if reader.is_current:
        yield from _of_one_context(command)


def _of_one_context(command: ServerCommand) -> Iterator[Finding]:
    """Find several kinds that draft with a model: llama-server has one draft context."""
    found, kinds = command.last("spec-type"), command.kinds
    of_models = [kind for kind in kinds if kind in OF_MODELS]
    if found is None or len(of_models) < 2:  # noqa: PLR2004 - two of them
        return
    kind = kind_of_draft(command) if command.has_draft else MTP_KIND
    named = ",".join((*(one for one in kinds if one not in OF_MODELS), kind))
    yield error(
        found,
        f"{' and '.join(of_models)} cannot draft beside each other",
        "llama-server has one draft context, and ends while it loads or drafts nothing; name one "
        "of them",
        write=(found[1].flag, named) if kind in of_models else None,
    )


def _current(at: int, item: Item) -> Iterator[Finding]:
    if ":" in item.value:
        yield _ik_form(at, item)
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
    spellings = (kind, FORMER_KINDS.get(kind, kind), f"draft-{kind}", f"ngram-{kind}")
    return next(filter(None, (respelled(one, KINDS) for one in spellings)), None)


def respelled(value: str, words: Iterable[str]) -> str | None:
    """The valid word that the value is another spelling of; None if there is none."""
    spelled = _MEANT.get(value.casefold(), value.casefold())
    others = {spelled, spelled.replace("_", "-"), spelled.replace("-", "_")}
    return next((word for word in words if word in others), None)


def _alike(kind: str) -> str | None:
    return next(iter(get_close_matches(kind, KINDS, 1)), None)


def _ik_form(at: int, item: Item) -> Finding:
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


def _of_ik(at: int, item: Item, command: ServerCommand) -> Iterator[Finding]:
    """Find a value that is no stage of ik_llama.cpp."""
    try:
        stage = read_stage(item.value)
    except ValueError as fault:
        edits, why = to_ik_stages(command), str(fault)
        words = next(filter(None, edits.values()), ())
        values = words[1::2]
        # What is no stage then either only its author can tell.
        if not all(map(_is_stage, values)):
            edits, words = {}, ()
        elif (unfit := fault_of_chain([read_stage(one).kind for one in values])) is not None:
            edits, words, why = {}, (), f"{why}; {unfit}"
        yield Finding(
            flag=item.shown,
            severity=Severity.ERROR,
            what=f"ik_llama.cpp's llama-server knows no {item.flag} {item.value}",
            why=why,
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


def _chain_of_ik(command: ServerCommand) -> Iterator[Finding]:
    """Find stages that ik_llama.cpp does not take beside each other."""
    found = list(command.all("spec-type"))
    if not all(_is_stage(item.value) for _at, item in found):
        return
    kinds = [read_stage(item.value).kind for _at, item in found]
    fault = fault_of_chain(kinds)
    if fault is not None:
        yield error(
            found[-1],
            f"ik_llama.cpp does not draft with {', '.join(kinds)}",
            f"it stops: {fault}",
        )


def _is_stage(value: str) -> bool:
    try:
        read_stage(value)
    except ValueError:
        return False
    return True
