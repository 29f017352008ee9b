"""Rules for slots and sliding windows together with speculation."""

from collections.abc import Iterator

from spectui.export.rewriting.items import Command
from spectui.export.rewriting.reader import Reader
from spectui.lint.finding import Finding, quoted
from spectui.severity import Severity

_BY_DEFAULT = 4
"""Default number of slots in llama-server since winter 2025."""


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield findings on parallel slots and sliding windows beside drafts."""
    if not command.kinds and not command.drafts_with_model:
        return
    found, slots = command.last("parallel"), command.number("parallel")
    if found is None and reader.is_current:
        yield Finding(
            flag="-np",
            severity=Severity.NOTE,
            what=f"-np is not given, so that there are {_BY_DEFAULT} slots",
            why="drafts pay best for one user at a time; caches with a sliding window or a "
            "recurrent state are kept for every slot",
            replacement=quoted("-np", "1"),
        )
    elif found is not None and slots is not None and slots > 1:
        yield Finding(
            flag=found[1].shown,
            severity=Severity.NOTE,
            what=f"{slots:.0f} slots draft beside each other",
            why="a batch then verifies the drafts of several users, which costs more than it does "
            "for one; spectui measures one user at a time",
            replacement=quoted(found[1].given.flag, "1"),
            at=found[0],
        )
    window = command.last("swa-full")
    if window is not None:
        yield Finding(
            flag=window[1].shown,
            severity=Severity.NOTE,
            what="layers with a sliding window remember the whole context",
            why="drafts need no more than the window, and the whole takes several times the memory",
            replacement="",
            at=window[0],
        )
