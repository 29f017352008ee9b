"""The document of ``lint``."""

from typing import TYPE_CHECKING

from spectui import __version__
from spectui.cli.documents.base import Json, or_reason
from spectui.lint import Finding

if TYPE_CHECKING:
    from spectui.cli.run_lint import Report


def lint_document(report: "Report") -> Json:
    """``spectui.lint/1``."""
    return {
        "schema": "spectui.lint/1",
        "spectui": __version__,
        "dialect": str(report.reader.dialect),
        "findings": [_finding(finding) for finding in report.findings],
        "models_seen": report.unseen is None,
        **({} if report.unseen is None else {"models_seen_reason": report.unseen}),
        "fixed": report.fixed.text,
        "fixed_arguments": list(report.fixed.arguments),
    }


def _finding(finding: Finding) -> Json:
    return {
        "flag": finding.flag,
        "severity": str(finding.severity),
        "what": finding.what,
        "why": finding.why,
        **or_reason("replacement", finding.replacement, "only who wrote it knows what was meant"),
    }
