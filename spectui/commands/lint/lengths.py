"""Rules for draft lengths, and for numbers of n-gram drafters."""

from collections.abc import Iterator

from spectui.commands.command import ServerCommand
from spectui.commands.drafting import (
    NEW_LENGTHS,
    OLD_LENGTHS,
    assumed_lengths,
    numbers_behind_kinds,
    own_words,
)
from spectui.commands.finding import Finding, Severity, about, warning
from spectui.commands.reader import Reader
from spectui.commands.renames import KINDS, MODEL_FLAGS
from spectui.options.dialect import Dialect
from spectui.options.drafters import ngram_of

_LONG = 8
"""Draft length from which a finding reports drafting beside experts in RAM."""
_SHORT = 4
"""Draft length that is proposed in place of a long one."""


def lengths_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on the draft lengths of models."""
    if not command.drafts_with_model:
        return
    if reader.dialect is not Dialect.IK:
        yield from _changed(command, reader)
    yield from _large_batches(command, reader)


def _changed(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find lengths that are not given, and whose defaults have changed."""
    is_old = command.is_old and reader.is_current
    meant = "written out, it means the same in every build"
    if is_old:
        meant = "the command's other names are of before, so its author had the old value"
    for name, value in assumed_lengths(command, reader).items():
        flag = MODEL_FLAGS[name] if reader.is_current else f"--{name}"
        yield about(
            Severity.WARNING if is_old else Severity.NOTE,
            flag,
            f"{flag} is not given",
            f"its default was {OLD_LENGTHS[name]} until spring 2026 and is {NEW_LENGTHS[name]} "
            f"since; {meant}",
            write=(flag, value),
            fix=(flag, value) if is_old else None,
        )


def _large_batches(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Find drafts that are long for experts in RAM."""
    found = command.last("draft-max") or command.last("spec-type")
    behind = numbers_behind_kinds(command).get("draft-max", "")
    longest = command.number("draft-max") or (int(behind) if behind.isdecimal() else 0)
    patterns = (part for _at, item in command.all("override-tensor") for part in item.values)
    in_ram = command.has("cpu-moe", "n-cpu-moe") or any(part.endswith("=CPU") for part in patterns)
    if found is None or not in_ram or longest < _LONG:
        return
    flag = MODEL_FLAGS["draft-max"] if reader.is_current else found[1].flag
    yield warning(
        found,
        f"drafts of {longest:.0f} tokens, beside weights in RAM",
        "each token of a draft reads other experts, so that verifying many costs nearly as much as "
        "decoding them; spectui tune finds the length that pays",
        write=(flag, str(_SHORT)) if found[1].name == "draft-max" else None,
    )


def ngrams_rule(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield findings on numbers that no drafter reads."""
    kinds = command.kinds
    # Which drafter another kind means, nobody knows yet.
    if not reader.is_current or not set(KINDS).issuperset(kinds):
        return
    for at, item in enumerate(command.items):
        own = ngram_of(item.name)
        if own is not None and own not in kinds:
            why = f"{own} is not in --spec-type"
            yield warning((at, item), f"nothing reads {item.shown}", why, write=())
    if kinds and all(kind.startswith("ngram-") for kind in kinds):
        for at, item in command.all(*MODEL_FLAGS):
            if reader.takes(item.flag) is not False:
                what = f"{', '.join(kinds)} does not read {item.shown}"
                why = "it is of draft models; n-gram drafters have lengths of their own"
                yield warning((at, item), what, why, write=own_words(item, command))
