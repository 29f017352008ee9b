"""How bad something is that was found."""

from enum import StrEnum


class Severity(StrEnum):
    """The worst first."""

    ERROR = "error"
    """It cannot work as it is."""
    WARNING = "warning"
    """It costs speed or memory."""
    NOTE = "note"
