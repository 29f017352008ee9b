"""Applies all rules, and their corrections."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from spectui.commands.command import ServerCommand
from spectui.commands.items import divide
from spectui.commands.lint.drafters import drafters_rule, kinds_rule
from spectui.commands.lint.finding import Finding, error
from spectui.commands.lint.placement import placement_rule, tensors_rule
from spectui.commands.lint.programs import program_rule
from spectui.commands.lint.sizes import caches_rule, lengths_rule, ngrams_rule, serving_rule
from spectui.commands.lint.spelling import home_rule, repeats_rule, spelling_rule
from spectui.commands.lint.values import values_rule
from spectui.commands.programs import as_server
from spectui.commands.reader import Reader
from spectui.commands.stages import loads_draft
from spectui.errors import BadInputError
from spectui.options.dialect import Dialect
from spectui.severity import Severity

Rule = Callable[[ServerCommand, Reader], Iterator[Finding]]

_RULES: tuple[Rule, ...] = (
    program_rule,
    lengths_rule,
    spelling_rule,
    home_rule,
    kinds_rule,
    values_rule,
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
_WORD = re.compile(r'(?:[^ "]|"[^"]*"?)+')
"""A word of ``--draft-params``, where double quotes hold blanks."""


def lint(command: ServerCommand, reader: Reader) -> tuple[Finding, ...]:
    """All findings, the worst first, and then in the command's order."""
    order = list(Severity)
    end = len(command.items)
    return tuple(
        sorted(
            (*_of_source(command), *_found(command, reader), *_of_draft_params(command, reader)),
            key=lambda one: (order.index(one.severity), one.at if one.at >= 0 else end),
        )
    )


def _found(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield what the rules say, and then what the reader itself does of all other options."""
    refused: set[int] = set()
    for rule in _RULES:
        for finding in rule(command, reader):
            if finding.severity is Severity.ERROR:
                refused.update({finding.at, *(at for at in finding.edits if at is not None)})
            yield finding
    if reader.judge is not None:
        yield from reader.judge(command, refused)


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


def _of_draft_params(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield a finding for all at which ik_llama.cpp stops among the arguments for its draft."""
    if reader.dialect is not Dialect.IK or not loads_draft(command):
        return
    for at, item in command.all("draft-params"):
        words = [word.replace('"', "") for word in _WORD.findall(item.value)]
        try:
            own = lint(ServerCommand.of(divide(words)), reader)
        except BadInputError as fault:
            yield error((at, item), f"in {item.flag}: {fault}", "it stops at it")
        else:
            for one in own:
                if one.severity is Severity.ERROR:
                    yield error((at, item), f"in {item.flag}: {one.what}", one.why)


def fixed(
    command: ServerCommand, reader: Reader, findings: Iterable[Finding] | None = None
) -> ServerCommand:
    """The command after all corrections that need no answer from its author.

    A command that the server runs stays as it is: only what is removed, renamed or refused is
    written anew, with what its author had by default then.

    Args:
        command: the command.
        reader: the llama-server that will read it.
        findings: those of the command, where they are known.
    """
    findings = lint(command, reader) if findings is None else findings
    command = as_server(command)
    if not any(finding.severity is Severity.ERROR for finding in findings):
        return _without_unread(command, reader)
    left = tuple(one for one in command.remarks if one.replacement is None)
    command = replace(command, remarks=left)
    for _ in range(_MOST_ROUNDS):
        edits = next((one.edits for one in _found(command, reader) if one.edits), None)
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
