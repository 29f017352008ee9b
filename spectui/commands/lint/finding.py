"""A finding and its correction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from spectui.commands.command import Edits
from spectui.commands.home import shell_line
from spectui.commands.items import Item
from spectui.severity import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem of a command, or a fact that its author may not know.

    At an error the server stops, or ends while it loads. With a warning it runs, and does otherwise
    than its author meant, or may.
    """

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
    """Edits that make the correction; empty where the server runs the command as it is."""
    at: int = -1
    """Index of the item in question; -1 for none."""


def about(
    severity: Severity,
    found: tuple[int, Item],
    what: str,
    why: str,
    *,
    write: Sequence[str] | None = None,
    fix: Sequence[str] | None = None,
) -> Finding:
    """Finding on one item.

    Args:
        severity: of the problem.
        found: the item, after its index.
        what: a sentence without a full stop.
        why: its reason.
        write: words with the intended meaning, for the author to choose; none to leave it out.
        fix: the same, where they may take the item's place without asking, since the server does
            not run the command as it is.
    """
    at, item = found
    words = write if fix is None else fix
    return Finding(
        flag=item.shown,
        severity=severity,
        what=what,
        why=why,
        replacement=None if words is None else shell_line(words),
        edits={} if fix is None else {at: tuple(fix)},
        at=at,
    )


error = partial(about, Severity.ERROR)
warning = partial(about, Severity.WARNING)
note = partial(about, Severity.NOTE)
