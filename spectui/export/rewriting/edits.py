"""An edit of a command."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Words that replace one item, or are appended to all."""

    at: int | None
    """Index of the item; None for the end."""
    words: tuple[str, ...]
    """The new words; empty to remove the item."""
