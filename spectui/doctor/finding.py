"""What a finding is."""

from dataclasses import dataclass

from spectui.severity import Severity

__all__ = ["Finding", "Severity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence, or two."""

    severity: Severity
    text: str
    """What it is, why it matters, what to do."""
