"""Severity of findings."""

from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding, the worst first."""

    ERROR = "error"
    """It cannot work as it is."""
    WARNING = "warning"
    """It costs speed or memory."""
    NOTE = "note"
