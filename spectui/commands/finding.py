"""A finding on a command or its models, and its correction."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from spectui.commands.home import shell_line
from spectui.commands.items import Item

Edits = Mapping[int | None, tuple[str, ...]]
"""Words that replace the items at these places, none to remove one; at None those that are
appended."""


class Severity(StrEnum):
    """Severity of a finding, the worst first."""

    ERROR = "error"
    """The command cannot work as it is."""
    WARNING = "warning"
    """The command costs speed or memory."""
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem of a command or of its models, or a fact that its author may not know.

    With an error the server stops, ends while it loads, or writes text that is not its model's.
    With a warning it runs, but does or may do something else than its author meant.
    """

    flag: str
    """The option, variable, key or line in question, in the command's spelling."""
    severity: Severity
    what: str
    """A sentence without a full stop."""
    why: str = ""
    """The reason; empty where ``what`` says all."""
    replacement: str | None = None
    """Words with the intended meaning; empty to leave the option out; None where only the author
    knows the intention."""
    edits: Edits = field(default_factory=dict)
    """Edits that make the correction; empty where the server runs the command as it is."""
    at: int = -1
    """Index of the item in question; -1 for none."""
    is_misread: bool = False
    """Whether the server reads an option otherwise than it looks, or ignores it."""

    def without(self, secrets: Iterable[tuple[str, str]]) -> "Finding":
        """The finding with other texts in place of secrets."""
        flag, what, meant = self.flag, self.what, self.replacement
        for secret, shown in secrets:
            # A sentence may show it as Python does.
            what = what.replace(secret, shown).replace(repr(secret)[1:-1], shown)
            flag, meant = flag.replace(secret, shown), meant and meant.replace(secret, shown)
        return replace(self, flag=flag, what=what, replacement=meant)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by their severity, and then in the command's order."""
    order = list(Severity)
    return tuple(
        sorted(
            findings,
            key=lambda one: (order.index(one.severity), one.at if one.at >= 0 else math.inf),
        )
    )


def about(
    severity: Severity,
    found: tuple[int, Item] | str,
    what: str,
    why: str,
    *,
    write: Sequence[str] | None = None,
    fix: Sequence[str] | Edits | None = None,
    is_misread: bool = False,
) -> Finding:
    """Make a finding on one item, or on another part of the command.

    Args:
        severity: of the problem.
        found: index and item; or the text in question, in the command's spelling.
        what: a sentence without a full stop.
        why: its reason.
        write: words with the intended meaning, for the author to choose; none to leave it out.
        fix: the same, where they may replace the item, or be appended, without asking the author,
            since the server does not run the command as it is; or edits at other places, beside
            ``write``.
        is_misread: see ``Finding``.
    """
    at, flag = (-1, found) if isinstance(found, str) else (found[0], found[1].shown)
    words, edits = write, fix if isinstance(fix, Mapping) else {}
    if fix is not None and not isinstance(fix, Mapping):
        words, edits = fix, {at if at >= 0 else None: tuple(fix)}
    return Finding(
        flag=flag,
        severity=severity,
        what=what,
        why=why,
        replacement=None if words is None else shell_line(words),
        edits=edits,
        at=at,
        is_misread=is_misread,
    )


error = partial(about, Severity.ERROR)
warning = partial(about, Severity.WARNING)
note = partial(about, Severity.NOTE)
