"""Checks a command by all rules, corrects it, and reports findings as a page and a document."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity, worst_first
from spectui.commands.items import divide
from spectui.commands.lint import options
from spectui.commands.lint.drafters import drafters_rule, kinds_rule
from spectui.commands.programs import as_server
from spectui.commands.reader import Reader
from spectui.commands.server_options import canonical, drawn_from, flags_of
from spectui.documents import Json, fields_of, head, or_reason
from spectui.errors import BadInputError
from spectui.format import counted, printable
from spectui.page import Excerpt, Page, Paragraph, Part

Rule = Callable[[ServerCommand, Reader], Iterator[Finding]]

_RULES: tuple[Rule, ...] = (
    options.program_rule,
    options.lengths_rule,
    options.spelling_rule,
    kinds_rule,
    options.misread_rule,
    options.devices_rule,
    options.template_rule,
    drafters_rule,
    options.ngrams_rule,
    options.patterns_rule,
    options.serving_rule,
)
"""Rules in the order of their corrections: old names reveal which defaults were meant."""
_MOST_ROUNDS = 500
"""Maximum number of rounds of corrections: more than any command has options."""
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "bold"}
_CONTAINED = "This is llama-server's own part of a container; what that mounts has paths of here."
_INDENT = "    "
_UNJUDGED = "no llama-server of this machine was asked about it"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A command, examined for one reader."""

    command: ServerCommand
    reader: Reader
    findings: tuple[Finding, ...]
    """The worst first, and then in the command's order."""
    corrected: ServerCommand
    """The command after all corrections that need no answer from its author."""
    left: tuple[Finding, ...]
    """Findings of the corrected command."""
    name: str | None = None
    """Name in its file, where that has several; None for the only one."""
    chosen_by: str = ""
    """Reason for the reader."""
    unseen: str | None = None
    """Reason why the models were not examined; None if they were."""
    asked: bool = True
    """Whether the models should be examined."""


def lint(command: ServerCommand, reader: Reader) -> tuple[Finding, ...]:
    """All findings, the worst first, and then in the command's order."""
    return worst_first((*command.remarks, *_all_findings(command, reader)))


def check(command: ServerCommand, reader: Reader, *, always: bool = False) -> Report:
    """Examine a command, and correct it.

    Only removed, renamed and refused options are rewritten, with the defaults that the command's
    author had.

    Args:
        command: the command.
        reader: the llama-server that will read it.
        always: whether a command that the server runs is corrected too.
    """
    findings = left = lint(command, reader)
    right = as_server(command)
    # An error, or a variable that is not read, cannot be written as it is.
    if always or any(
        one.severity is Severity.ERROR or (one.is_misread and one.edits) for one in findings
    ):
        remarks = tuple(one for one in command.remarks if one.replacement is None)
        right, left = _corrected(replace(right, remarks=remarks), reader)
    elif right.start != command.start:
        left = lint(right, reader)
    return Report(command=command, reader=reader, findings=findings, corrected=right, left=left)


def check_certain(report: Report) -> None:
    """Make sure that the reader takes a corrected command, and that its corrections are certain.

    Raises:
        BadInputError: the reader would stop at it all the same.
    """
    refused = (one for one in report.findings if not _is_certain(one, report.reader))
    for finding in (*refused, *report.left):
        if finding.severity is Severity.ERROR:
            meant = finding.replacement
            instead = f"write {meant}" if meant else "correct it, or take it out"
            raise BadInputError(printable(f"{finding.what}: {finding.why}; {instead}"))


def _is_certain(finding: Finding, reader: Reader) -> bool:
    """Whether an export may correct what a finding is about."""
    # An option of the dialect that this binary lacks is refused rather than left out.
    is_of_dialect = canonical(finding.flag) in flags_of(reader.dialect)
    is_lacking = is_of_dialect and reader.takes(finding.flag) is False
    return any(finding.edits.values()) or not (finding.edits and is_lacking)


def _corrected(command: ServerCommand, reader: Reader) -> tuple[ServerCommand, tuple[Finding, ...]]:
    """The command after one correction after the other, and its findings then."""
    found: list[Finding] = []
    for _ in range(_MOST_ROUNDS):
        found = []
        for one in _all_findings(command, reader):
            found.append(one)
            if one.edits:
                break
        if not found or not found[-1].edits:
            break
        command = command.edited(found[-1].edits)
    return command, worst_first((*command.remarks, *found))


def _all_findings(command: ServerCommand, reader: Reader) -> Iterator[Finding]:
    """Yield the findings of the rules, then those of the judge on all other options."""
    refused = set[int]()
    for rule in _RULES:
        for finding in rule(command, reader):
            if finding.severity is Severity.ERROR:
                refused.update({finding.at, *(at for at in finding.edits if at is not None)})
            yield finding if _is_valid(finding, reader) else replace(finding, replacement=None)
    if reader.judge is not None:
        yield from reader.judge(command, refused)


def _is_valid(finding: Finding, reader: Reader) -> bool:
    """Whether the reader takes the options that a finding proposes; edits are examined anew."""
    proposed = finding.replacement or ""
    if finding.edits or not proposed.startswith("-"):
        return True
    meant = ServerCommand.of(divide(shlex.split(proposed)))
    if any(reader.takes(item.flag) is False for item in meant.items):
        return False
    return reader.judge is None or not any(reader.judge(meant, ()))


def lint_document(reports: Sequence[Report]) -> Json:
    """``spectui.lint/1`` of a command, or of each of a file."""
    if len(reports) == 1:
        return {**head("lint"), **_report_document(reports[0])}
    commands = [{"name": report.name, **_report_document(report)} for report in reports]
    return {**head("lint"), "commands": commands}


def _report_document(report: Report) -> Json:
    unseen = {} if report.unseen is None else {"models_seen_reason": report.unseen}
    return {
        "dialect": str(report.reader.dialect),
        "dialect_reason": report.chosen_by,
        "findings": [_finding_document(finding, report.command) for finding in report.findings],
        **or_reason("judged_by", report.reader.judge and report.reader.program, _UNJUDGED),
        "withheld": list(_withheld(report)),
        "models_seen": report.unseen is None,
        **unseen,
        "fixed": report.corrected.text,
        "fixed_arguments": list(report.corrected.arguments),
    }


def _withheld(report: Report) -> tuple[str, ...]:
    """The options that the judge is not shown, each with the reason."""
    judge = report.reader.judge
    return () if judge is None else judge.withheld(report.corrected)


def _finding_document(finding: Finding, command: ServerCommand) -> Json:
    place = list(command.items[finding.at].words) if finding.at >= 0 else None
    unmeant = "only its author knows what was meant"
    return {
        **fields_of(finding, unmeant, "flag", "severity", "what", "why", "replacement"),
        **or_reason("words", place, "it is about the command as a whole"),
    }


def lint_page(reports: Sequence[Report]) -> Page:
    """Every finding on some commands, and the corrected command if it differs."""
    return [part for one in reports for part in _parts(one)]


def _parts(report: Report) -> Iterator[Part]:
    if report.name is not None:
        yield Paragraph(f"{report.name}:", style="bold")
    for finding in report.findings:
        yield from _finding_parts(finding, report.command)
    yield Paragraph(_summary(report))
    if report.unseen is not None and report.asked:
        yield Paragraph(f"The models were not looked at: {report.unseen}")
    if report.command.inside is not None:
        yield Paragraph(_CONTAINED)
    before, after = report.command, report.corrected
    if (after.text, after.remarks) != (before.text, before.remarks):
        yield ""
        yield Paragraph(_heading(report.left), style="bold")
        unshown = Paragraph("it has characters that cannot be shown; spectui export writes it")
        yield after.text if printable(after.text) == after.text else unshown
    if report.name is not None:
        yield ""


def _heading(left: Iterable[Finding]) -> str:
    """Heading of the corrected command, with the findings that still stop the server."""
    refused = (one.what for one in left if one.severity is Severity.ERROR)
    named = "; ".join(dict.fromkeys(refused))
    return f"Corrected in part, and still refused ({named}):" if named else "Corrected:"


def _finding_parts(finding: Finding, command: ServerCommand) -> Iterator[Part]:
    style = _STYLES[finding.severity]
    yield Paragraph(f"{finding.severity}: {finding.what}", style=style)
    if finding.at >= 0:
        yield _marked(finding.at, command, style)
    yield Paragraph(finding.why, _INDENT, _INDENT)
    if finding.replacement:
        yield Paragraph(f"write: {finding.replacement}", _INDENT, _INDENT)
    elif finding.replacement is not None:
        yield Paragraph(f"leave out {finding.flag}", _INDENT, _INDENT)


def _marked(at: int, command: ServerCommand, style: str) -> Part:
    """The part of the command that a finding is about."""
    if command.is_section:
        # A file has a line for each.
        item = command.items[at]
        key = f"{item.flag.lstrip('-')} = {' '.join(item.values) or 'on'}"
        return Paragraph(key, _INDENT, _INDENT, style)
    texts = [_as_typed(command, one) for one in range(len(command.items))]
    before, after = " ".join(texts[:at]), " ".join(texts[at + 1 :])
    return Excerpt(before=before, text=texts[at], after=after, indent=_INDENT, style=style)


def _as_typed(command: ServerCommand, at: int) -> str:
    """An item as it stands in the command: a variable as an assignment."""
    item = command.items[at]
    if item.variable is None:
        return item.text
    return f"{item.variable}={item.value}" if item.values else item.variable


def _summary(report: Report) -> str:
    counts = {kind: sum(one.severity is kind for one in report.findings) for kind in Severity}
    named = ", ".join(counted(count, str(kind)) for kind, count in counts.items() if count)
    reader, summary = report.reader, named or "No problems found"
    if reader.judge is not None:
        if reader.judge.silence is not None:
            return f"{summary}. Values were not all checked: {reader.judge.silence}."
        withheld = "; ".join(_withheld(report))
        unseen = f" Not shown to it: {withheld}." if withheld else ""
        return f"{summary}. Judged by {reader.build} itself, as {report.chosen_by}.{unseen}"
    return (
        f"{summary}. Checked against the options of {reader.build} ({drawn_from(reader.dialect)}), "
        f"as {report.chosen_by}. Values were not checked, and unknown is not wrong: "
        f"{_UNJUDGED} (--server-bin PATH names one)."
    )
