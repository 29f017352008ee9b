"""What changes in a command."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Other words in the place of one item, or behind all of them."""

    at: int | None
    """Index of the item; None for the end."""
    words: tuple[str, ...]
    """None of them where the item is to go."""
