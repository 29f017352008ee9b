"""What a finding is."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    """It cannot work as it is."""
    WARNING = "warning"
    """It costs speed or memory."""
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence, or two."""

    severity: Severity
    text: str
    """What it is, why it matters, what to do."""
