"""Applies all rules, and their corrections."""

from collections.abc import Callable, Iterator

from spectui.export.rewriting.items import Command
from spectui.export.rewriting.reader import Reader
from spectui.lint import (
    caches,
    drafters,
    kinds,
    lengths,
    ngrams,
    placement,
    repeats,
    serving,
    spelling,
    tensors,
    values,
)
from spectui.lint.finding import Finding
from spectui.severity import Severity

Rule = Callable[[Command, Reader], Iterator[Finding]]

_RULES: tuple[Rule, ...] = (
    lengths.rule,
    spelling.rule,
    kinds.rule,
    values.rule,
    repeats.rule,
    drafters.rule,
    ngrams.rule,
    caches.rule,
    placement.rule,
    tensors.rule,
    serving.rule,
)
"""Rules in the order of their corrections: old names reveal which defaults were meant."""
_MOST_ROUNDS = 500
"""Maximum number of rounds of corrections: more than any command has options."""


def lint(command: Command, reader: Reader) -> tuple[Finding, ...]:
    """All findings, the worst first, and then in the command's order."""
    order = list(Severity)
    found = (finding for rule in _RULES for finding in rule(command, reader))
    end = len(command.items)
    return tuple(
        sorted(found, key=lambda one: (order.index(one.severity), one.at if one.at >= 0 else end))
    )


def fixed(command: Command, reader: Reader) -> Command:
    """The command after all corrections that need no answer from its author."""
    for _ in range(_MOST_ROUNDS):
        found = (finding for rule in _RULES for finding in rule(command, reader))
        edits = next((finding.edits for finding in found if finding.edits), None)
        if edits is None:
            break
        command = command.edited(edits)
    return command
