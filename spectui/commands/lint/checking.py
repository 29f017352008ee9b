"""Applies all rules, and their corrections."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import msgspec

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity
from spectui.commands.items import divide
from spectui.commands.lint import names, settings
from spectui.commands.lint.drafters import drafters_rule, kinds_rule
from spectui.commands.programs import as_server
from spectui.commands.reader import Reader
from spectui.commands.server_options import canonical, flags_of
from spectui.errors import BadInputError
from spectui.format import printable

Rule = Callable[[ServerCommand, Reader], Iterator[Finding]]

_RULES: tuple[Rule, ...] = (
    names.program_rule,
    settings.lengths_rule,
    names.spelling_rule,
    kinds_rule,
    settings.misread_rule,
    settings.devices_rule,
    settings.template_rule,
    drafters_rule,
    settings.ngrams_rule,
    settings.caches_rule,
    settings.experts_rule,
    settings.serving_rule,
)
"""Rules in the order of their corrections: old names reveal which defaults were meant."""
_MOST_ROUNDS = 500
"""Maximum number of rounds of corrections: more than any command has options."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A command, examined once."""

    findings: tuple[Finding, ...]
    """The worst first, and then in the command's order."""
    corrected: ServerCommand
    """The command after all corrections that need no answer from its author."""
    left: tuple[Finding, ...]
    """Findings of the corrected command."""


def lint(command: ServerCommand, reader: Reader) -> tuple[Finding, ...]:
    """All findings, the worst first, and then in the command's order."""
    return _worst_first(command, _found(command, reader))


def check(command: ServerCommand, reader: Reader, *, always: bool = False) -> Report:
    """Examine a command, and correct it.

    Only what is removed, renamed or refused is written anew, with what its author had by default
    then.

    Args:
        command: the command.
        reader: the llama-server that will read it.
        always: whether a command that the server runs is corrected too.
    """
    findings = left = lint(command, reader)
    right = as_server(command)
    if always or any(map(_is_unwritable, findings)):
        remarks = tuple(one for one in command.remarks if one.replacement is None)
        right, left = _corrected(replace(right, remarks=remarks), reader)
    elif right.start != command.start:
        left = lint(right, reader)
    return Report(findings=findings, corrected=right, left=left)


def check_certain(report: Report, reader: Reader) -> None:
    """Make sure that the reader takes a corrected command, and that its corrections are certain.

    Raises:
        BadInputError: the reader would stop at it all the same.
    """
    refused = (one for one in report.findings if not _is_certain(one, reader))
    for finding in (*refused, *report.left):
        if finding.severity is Severity.ERROR:
            meant = finding.replacement
            instead = f"write {meant}" if meant else "correct it, or take it out"
            raise BadInputError(printable(f"{finding.what}: {finding.why}; {instead}"))


def _is_certain(finding: Finding, reader: Reader) -> bool:
    """Whether an export may correct what a finding is about."""
    # What a binary lacks of its dialect is not left out, but refused.
    is_of_dialect = canonical(finding.flag) in flags_of(reader.dialect)
    is_lacking = is_of_dialect and reader.takes(finding.flag) is False
    return any(finding.edits.values()) or not (finding.edits and is_lacking)


def _is_unwritable(finding: Finding) -> bool:
    """Whether the command cannot be written as it is: an error, or a variable that is not read."""
    return finding.severity is Severity.ERROR or (finding.is_misread and bool(finding.edits))


def _corrected(command: ServerCommand, reader: Reader) -> tuple[ServerCommand, tuple[Finding, ...]]:
    """The command after one correction after the other, and its findings then."""
    found: list[Finding] = []
    for _ in range(_MOST_ROUNDS):
        found = []
        for one in _found(command, reader):
            found.append(one)
            if one.edits:
                break
        if not found or not found[-1].edits:
            break
        command = command.edited(found[-1].edits)
    return command, _worst_first(command, found)


def _found(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield what the rules say, and then what the reader itself does of all other options."""
    refused = set[int]()
    for rule in _RULES:
        for finding in rule(command, reader):
            if finding.severity is Severity.ERROR:
                refused.update({finding.at, *(at for at in finding.edits if at is not None)})
            yield finding if _is_taken(finding, reader) else replace(finding, replacement=None)
    if reader.judge is not None:
        yield from reader.judge(command, refused)


def _is_taken(finding: Finding, reader: Reader) -> bool:
    """Whether the reader takes the options that a finding proposes; edits are examined anew."""
    proposed = finding.replacement or ""
    if finding.edits or not proposed.startswith("-"):
        return True
    meant = ServerCommand.of(divide(shlex.split(proposed)))
    if any(reader.takes(item.flag) is False for item in meant.items):
        return False
    return reader.judge is None or not any(reader.judge(meant, ()))


def _worst_first(command: ServerCommand, found: Iterable[Finding]) -> tuple[Finding, ...]:
    order, end = list(Severity), len(command.items)
    return tuple(
        sorted(
            (*command.remarks, *found),
            key=lambda one: (order.index(one.severity), one.at if one.at >= 0 else end),
        )
    )
