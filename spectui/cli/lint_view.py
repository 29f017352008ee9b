"""Renders the findings on a command as text."""

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from spectui.cli.drawing import drawn, page_width
from spectui.lint import Finding
from spectui.severity import Severity

if TYPE_CHECKING:
    from spectui.cli.run_lint import Report

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "bold"}
_CONTAINED = (
    "The command was read out of a container: what is written here is llama-server's own part of "
    "it, with paths as they are on this machine where the container mounts a folder of it, and its "
    "own elsewhere."
)
_INDENT = "    "


def told(report: "Report", *, with_fixed: bool = True) -> str:
    """Render every finding, and the corrected command if it differs."""
    return drawn(*_parts(report, with_fixed=with_fixed))


def _parts(report: "Report", *, with_fixed: bool) -> Iterator[RenderableType]:
    for finding in report.findings:
        yield from _finding(finding)
    yield Text(_filled(_summary(report.findings)))
    if report.unseen is not None and report.asked:
        yield Text(_filled(f"The models were not looked at: {_plain(report.unseen)}"))
    if report.command.is_contained:
        yield Text(_filled(_CONTAINED))
    if with_fixed and report.fixed.text != report.command.text:
        yield Text("")
        yield Text("Corrected:", style="bold")
        yield _to_copy(report.fixed.text)


def _to_copy(command: str) -> Text:
    if _plain(command) != command:
        return Text(_filled("it has characters that cannot be shown; --fix prints it as it is"))
    # A terminal may break it, we must not.
    return Text(command, no_wrap=True, overflow="ignore")


def _finding(finding: Finding) -> Iterator[RenderableType]:
    head = f"{finding.severity}: {_plain(finding.what)}"
    yield Text(_filled(head), style=_STYLES[finding.severity])
    yield Text(_filled(_plain(finding.why), _INDENT))
    if finding.replacement:
        yield Text(_filled(f"write: {_plain(finding.replacement)}", _INDENT))
    elif finding.replacement is not None:
        yield Text(_filled(f"leave out {_plain(finding.flag)}", _INDENT))


def _summary(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "Nothing speaks against it."
    counts = {kind: sum(one.severity is kind for one in findings) for kind in Severity}
    return ", ".join(
        f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if count
    )


def _filled(text: str, indent: str = "") -> str:
    """Wrap for stdout, and never within an option."""
    return textwrap.fill(
        text,
        page_width(),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """Text without characters that would move a terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text)
