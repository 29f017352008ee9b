"""A finding and its correction."""

import shlex
from dataclasses import dataclass

from spectui.export.rewriting.edits import Edit
from spectui.export.rewriting.items import Item
from spectui.severity import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem of a command, or a fact that its author may not know."""

    flag: str
    """Option or variable that it is about, as the command has it."""
    severity: Severity
    what: str
    """A sentence without its end."""
    why: str
    replacement: str | None = None
    """Words that do what was meant; empty to leave it out; None where only its author knows."""
    edits: tuple[Edit, ...] = ()
    """How that is done; none where it would change more than is wrong."""
    at: int = -1
    """Index of the item that it is about; -1 for none."""


def replaced(at: int, *words: str) -> tuple[Edit, ...]:
    """Edit that replaces an item by words."""
    return (Edit(at=at, words=words),)


def added(*words: str) -> tuple[Edit, ...]:
    """Edit that appends words."""
    return (Edit(at=None, words=words),)


def quoted(*words: str) -> str:
    """Words as text of a replacement."""
    return shlex.join(words)


def left_out(
    at: int, item: Item, *, what: str, why: str, severity: Severity = Severity.WARNING
) -> Finding:
    """Finding on an option that is best left out."""
    return Finding(
        flag=item.shown,
        severity=severity,
        what=what,
        why=why,
        replacement="",
        edits=replaced(at),
        at=at,
    )
