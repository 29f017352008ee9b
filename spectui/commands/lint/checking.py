"""Applies all rules, and their corrections."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from spectui.commands.command import ServerCommand
from spectui.commands.lint.drafters import drafters_rule, kinds_rule
from spectui.commands.lint.finding import Finding
from spectui.commands.lint.placement import placement_rule, tensors_rule
from spectui.commands.lint.sizes import caches_rule, lengths_rule, ngrams_rule, serving_rule
from spectui.commands.lint.spelling import home_rule, repeats_rule, spelling_rule
from spectui.commands.lint.values import devices_rule, values_rule
from spectui.commands.reader import Reader
from spectui.severity import Severity

Rule = Callable[[ServerCommand, Reader], Iterator[Finding]]

_RULES: tuple[Rule, ...] = (
    lengths_rule,
    spelling_rule,
    home_rule,
    kinds_rule,
    values_rule,
    devices_rule,
    repeats_rule,
    drafters_rule,
    ngrams_rule,
    caches_rule,
    placement_rule,
    tensors_rule,
    serving_rule,
)
"""Rules in the order of their corrections: old names reveal which defaults were meant."""
_MOST_ROUNDS = 500
"""Maximum number of rounds of corrections: more than any command has options."""


def lint(command: ServerCommand, reader: Reader) -> tuple[Finding, ...]:
    """All findings, the worst first, and then in the command's order."""
    order = list(Severity)
    found = (
        *_of_source(command),
        *(finding for rule in _RULES for finding in rule(command, reader)),
    )
    end = len(command.items)
    return tuple(
        sorted(found, key=lambda one: (order.index(one.severity), one.at if one.at >= 0 else end))
    )


def _of_source(command: ServerCommand) -> Iterator[Finding]:
    """Yield what the reader of the command's file says."""
    for one in command.remarks:
        yield Finding(
            flag=one.flag,
            severity=one.severity,
            what=one.what,
            why=one.why,
            replacement=one.replacement,
        )


def fixed(command: ServerCommand, reader: Reader) -> ServerCommand:
    """The command after all corrections that need no answer from its author.

    A command that the server runs stays as it is: only what is removed, renamed or refused is
    written anew, with what its author had by default then.
    """
    if not any(finding.severity is Severity.ERROR for finding in lint(command, reader)):
        return _without_unread(command, reader)
    left = tuple(one for one in command.remarks if one.replacement is None)
    command = replace(command, remarks=left)
    for _ in range(_MOST_ROUNDS):
        found = (finding for rule in _RULES for finding in rule(command, reader))
        edits = next((finding.edits for finding in found if finding.edits), None)
        if edits is None:
            break
        command = command.edited(edits)
    return _without_unread(command, reader)


def _without_unread(command: ServerCommand, reader: Reader) -> ServerCommand:
    """The command without variables that the server ignores, and would stop at as options."""
    return replace(
        command,
        items=tuple(
            one
            for one in command.items
            if not one.variable
            or reader.reads(one.variable) is not False
            or reader.takes(one.flag) is not False
        ),
    )
