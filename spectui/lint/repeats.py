"""Rule for options that are given more than once."""

from collections.abc import Iterator

from spectui.export.rewriting.items import Command, Item
from spectui.export.rewriting.reader import Reader
from spectui.lint.finding import Finding, left_out, quoted
from spectui.severity import Severity

_ADDING = frozenset(
    {"override-tensor", "override-tensor-draft", "override-kv", "spec-type", "n-cpu-moe"}
    | {"n-cpu-ffn", "n-cpu-moe-draft", "lora", "lora-scaled", "control-vector", "logit-bias"}
    | {"control-vector-scaled", "dry-sequence-breaker", "reverse-prompt", "api-key", "alias"}
    | {"tags", "rpc", "spec-replace", "chat-template-kwargs", "spec-stage"}
)
"""Options that add to previous values."""


_LISTS = ("override-tensor", "lora")
"""Options that add, but whose repetition current builds deprecate."""


def rule(command: Command, reader: Reader) -> Iterator[Finding]:
    """Yield a finding for every option that a later one overrides."""
    if reader.is_current:
        yield from _lists(command)
    last: dict[str, int] = {}
    for at, item in enumerate(command.items):
        last[item.name] = at
    for at, item in enumerate(command.items):
        winner = last[item.name]
        is_known = item.given.server is not None or item.given.option is not None
        if winner != at and is_known and item.name not in _ADDING:
            yield _overruled(at, item, command.items[winner], reader)


def _lists(command: Command) -> Iterator[Finding]:
    for name in _LISTS:
        found = [item for _at, item in command.all(name) if item.variable is None]
        if len(found) > 1 and len({item.given.flag for item in found}) < len(found):
            values = ",".join(value for item in found for value in item.given.values)
            yield Finding(
                flag=found[0].shown,
                severity=Severity.NOTE,
                what=f"{found[0].shown} is given {len(found)} times",
                why="llama-server warns that only the last counts, though it takes all of them",
                replacement=quoted(found[0].given.flag, values),
                at=command.items.index(found[0]),
            )


def _overruled(at: int, item: Item, winner: Item, reader: Reader) -> Finding:
    shown = " ".join(winner.given.words)
    by = "an argument" if item.variable is not None else "the last of them"
    same = item.given.words == winner.given.words and item.variable is None
    return left_out(
        at,
        item,
        severity=Severity.NOTE if same or item.variable is not None else Severity.WARNING,
        what=f"{item.shown} is given again as {shown}",
        why=f"{reader.name} takes {by}, so that this one does nothing",
    )
