"""Draft lengths that a command leaves to its server, whose defaults changed."""

from contextlib import suppress

from spectui.errors import BadInputError
from spectui.export.rewriting.items import Command
from spectui.export.rewriting.reader import Reader, is_new
from spectui.export.stages import drafting
from spectui.options.drafters import DraftSimple, numbers_of

_CHANGED = tuple(one for one in numbers_of(DraftSimple) if one.earlier_default != one.default)
OLD_LENGTHS = {one.option: f"{one.earlier_default:g}" for one in _CHANGED}
"""Defaults until spring 2026, and in ik_llama.cpp."""
NEW_LENGTHS = {one.option: one.argument(one.default) for one in _CHANGED}


def assumed_lengths(command: Command, reader: Reader) -> dict[str, str]:
    """Default lengths that the command's author had, where it gives none; by spectui's names.

    Names tell which builds it was written for; where none does, it is for its reader.
    """
    if not command.drafts_with_model:
        return {}
    is_old = command.is_old or (not reader.is_current and not _has_new_names(command))
    lengths = OLD_LENGTHS if is_old else NEW_LENGTHS
    given = _behind_kinds(command)
    return {n: value for n, value in lengths.items() if not command.has(n) and n not in given}


def _behind_kinds(command: Command) -> frozenset[str]:
    """Names of the numbers behind ``--spec-type`` in ik_llama.cpp's form."""
    found: set[str] = set()
    for _at, item in command.all("spec-type"):
        # What cannot be read says nothing of lengths.
        with suppress(BadInputError):
            found |= drafting(item.value).keys()
    return frozenset(found)


def old_lengths(command: Command) -> dict[str, str]:
    """The old default lengths that a command for builds before spring 2026 leaves out."""
    lengths = assumed_lengths(command, Reader())
    return {name: value for name, value in lengths.items() if value == OLD_LENGTHS[name]}


def _has_new_names(command: Command) -> bool:
    return any(is_new(item.given.flag) for item in command.items) or any(
        kind.startswith("draft-") for kind in command.kinds
    )
