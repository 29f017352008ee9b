"""A finding and its correction."""

import shlex
from dataclasses import dataclass, field

from spectui.commands.command import Edits
from spectui.commands.items import Item
from spectui.severity import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem of a command, or a fact that its author may not know."""

    flag: str
    """The option or variable in question, in the command's spelling."""
    severity: Severity
    what: str
    """A sentence without a full stop."""
    why: str
    replacement: str | None = None
    """Words with the intended meaning; empty to leave the option out; None if only its author
    knows."""
    edits: Edits = field(default_factory=dict)
    """Edits that make the correction; empty if they would change more than the problem."""
    at: int = -1
    """Index of the item in question; -1 for none."""


def replaced(at: int, *words: str) -> Edits:
    """Edit that replaces an item by words."""
    return {at: words}


def added(*words: str) -> Edits:
    """Edit that appends words."""
    return {None: words}


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
