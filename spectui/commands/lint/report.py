"""Results of checks of commands, as a page and as a document."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spectui.commands.command import ServerCommand
from spectui.commands.finding import Finding, Severity
from spectui.commands.items import Item
from spectui.commands.reader import Reader
from spectui.commands.server_options import drawn_from
from spectui.documents import Json, fields_of, head, or_reason
from spectui.format import counted, printable
from spectui.page import Excerpt, Page, Paragraph, Part

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "bold"}
_CONTAINED = "This is llama-server's own part of a container; what that mounts has paths of here."
_INDENT = "    "


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Results of the checks of one command."""

    name: str | None
    """Name in its file, where that has several; None for the only one."""
    command: ServerCommand
    fixed: ServerCommand
    reader: Reader
    chosen_by: str
    """Reason for the reader."""
    unjudged: str | None
    """Reason why no llama-server read the command itself; None if one did."""
    findings: tuple[Finding, ...]
    left: tuple[Finding, ...]
    """Findings of the corrected command."""
    unseen: str | None
    """Reason why the models were not examined; None if they were."""
    asked: bool
    """Whether the models should be examined."""


def lint_document(reports: Sequence[Checked]) -> Json:
    """``spectui.lint/1`` of a command, or of each of a file."""
    heading, documents = head("lint"), [_lint_document(report) for report in reports]
    if len(documents) == 1:
        return documents[0]
    pairs = zip(reports, documents, strict=True)
    return {
        **heading,
        "commands": [
            {"name": report.name, **{k: v for k, v in one.items() if k not in heading}}
            for report, one in pairs
        ],
    }


def _lint_document(report: Checked) -> Json:
    """``spectui.lint/1``."""
    unseen = {} if report.unseen is None else {"models_seen_reason": report.unseen}
    return {
        **head("lint"),
        "dialect": str(report.reader.dialect),
        "dialect_reason": report.chosen_by,
        "findings": [_finding_document(finding, report.command) for finding in report.findings],
        **or_reason("judged_by", _judged_by(report.reader), report.unjudged or ""),
        "withheld": list(_withheld(report)),
        "models_seen": report.unseen is None,
        **unseen,
        "fixed": report.fixed.text,
        "fixed_arguments": list(report.fixed.arguments),
    }


def _judged_by(reader: Reader) -> str | None:
    """The llama-server that read the command itself; None without one."""
    return None if reader.judge is None or reader.accepted is None else reader.accepted.program


def _withheld(report: Checked) -> tuple[str, ...]:
    """The options that the judge is not shown, each with the reason."""
    judge = report.reader.judge
    return () if judge is None else judge.withheld(report.fixed)


def _finding_document(finding: Finding, command: ServerCommand) -> Json:
    place = list(command.items[finding.at].words) if finding.at >= 0 else None
    unmeant = "only who wrote it knows what was meant"
    return {
        **fields_of(finding, unmeant, "flag", "severity", "what", "why", "replacement"),
        **or_reason("words", place, "it is about the command as a whole"),
    }


def lint_page(reports: Sequence[Checked]) -> Page:
    """Every finding on some commands, and the corrected command if it differs."""
    return [part for one in reports for part in _parts(one)]


def _parts(report: Checked) -> Iterator[Part]:
    if report.name is not None:
        yield _broken(f"{report.name}:", "bold")
    for finding in report.findings:
        yield from _finding(finding, report.command)
    yield _broken(_summary(report))
    if report.unseen is not None and report.asked:
        yield _broken(f"The models were not looked at: {report.unseen}")
    if report.command.inside is not None:
        yield _broken(_CONTAINED)
    before, after = report.command, report.fixed
    if (after.text, after.remarks) != (before.text, before.remarks):
        yield ""
        yield _broken(_heading(report.left), "bold")
        unshown = _broken("it has characters that cannot be shown; spectui export writes it")
        yield after.text if printable(after.text) == after.text else unshown
    if report.name is not None:
        yield ""


def _heading(left: Iterable[Finding]) -> str:
    """Heading of the corrected command, with the findings that still stop the server."""
    refused = (one.what for one in left if one.severity is Severity.ERROR)
    told = "; ".join(dict.fromkeys(refused))
    return f"Corrected in part, and still refused ({told}):" if told else "Corrected:"


def _finding(finding: Finding, command: ServerCommand) -> Iterator[Part]:
    style = _STYLES[finding.severity]
    yield _broken(f"{finding.severity}: {finding.what}", style)
    if finding.at >= 0:
        yield _place(finding.at, command, style)
    yield _broken(finding.why, indent=_INDENT)
    if finding.replacement:
        yield _broken(f"write: {finding.replacement}", indent=_INDENT)
    elif finding.replacement is not None:
        yield _broken(f"leave out {finding.flag}", indent=_INDENT)


def _broken(text: str, style: str = "", indent: str = "") -> Paragraph:
    """A text with words of the command in it, which may be long."""
    return Paragraph(text, first=indent, style=style, breaks_words=True)


def _place(at: int, command: ServerCommand, style: str) -> Part:
    """The part of the command that a finding is about."""
    if command.is_section:
        # A file has a line for each.
        return _broken(_as_key(command.items[at]), style, _INDENT)
    texts = [_spelled(command, one) for one in range(len(command.items))]
    before, after = " ".join(texts[:at]), " ".join(texts[at + 1 :])
    return Excerpt(before=before, text=texts[at], after=after, indent=_INDENT, style=style)


def _as_key(item: Item) -> str:
    """An item as a line of a models preset."""
    return f"{item.flag.lstrip('-')} = {' '.join(item.values) or 'on'}"


def _spelled(command: ServerCommand, at: int) -> str:
    """An item as it stands in the command: a variable as an assignment."""
    item = command.items[at]
    if item.variable is None:
        return item.text
    return f"{item.variable}={item.value}" if item.values else item.variable


def _summary(report: Checked) -> str:
    counts = {kind: sum(one.severity is kind for one in report.findings) for kind in Severity}
    told = ", ".join(counted(count, str(kind)) for kind, count in counts.items() if count)
    reader, summary = report.reader, told or "No problems found"
    if report.unjudged is None:
        silence = None if reader.judge is None else reader.judge.silence
        if silence is not None:
            return f"{summary}. Values were not all checked: {silence}."
        withheld = "; ".join(_withheld(report))
        unseen = f" Not shown to it: {withheld}." if withheld else ""
        return f"{summary}. Judged by {reader.build} itself, as {report.chosen_by}.{unseen}"
    return (
        f"{summary}. Checked against the options of {reader.build} ({drawn_from(reader.dialect)}), "
        f"as {report.chosen_by}. Values were not checked, and unknown is not wrong: "
        f"{report.unjudged} (--server-bin PATH names one)."
    )
