"""Drafts that a study may try."""

from dataclasses import dataclass

from spectui.config import ModelOptions
from spectui.engine.events import ModelLoaded
from spectui.errors import SpectuiError


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A draft that may be tried."""

    name: str
    options: ModelOptions
    loaded: ModelLoaded | None
    """What is known of it; None if it could not be loaded."""
    error: SpectuiError | None = None
    """Why it cannot be used."""

    @property
    def reason(self) -> str | None:
        """The error as a sentence."""
        return None if self.error is None else str(self.error)
