"""An edit of a command."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Words that replace one item, or are appended to all."""

    at: int | None
    """Index of the item; None for the end."""
    words: tuple[str, ...]
    """None of them where the item is to go."""
