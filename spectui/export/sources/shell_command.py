"""What a shell's text is made of once it is split."""

from dataclasses import dataclass

from spectui.errors import BadInputError

_NOTHING = "\0"
"""Stands in ``bare`` for a character that means itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellWord:
    """A word without its quotes."""

    text: str
    bare: str
    """As long as the text, with NUL for what was in quotes: what is left a shell may act on."""

    def __add__(self, more: "ShellWord") -> "ShellWord":
        """One word of both."""
        return ShellWord(text=self.text + more.text, bare=self.bare + more.bare)

    @property
    def is_bare(self) -> bool:
        """Whether nothing of it was in quotes."""
        return self.text == self.bare


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """One of the commands of a text."""

    parts: tuple[ShellWord, ...]
    trouble: BadInputError | None
    """What the shell would have to do more than start it."""

    @property
    def words(self) -> tuple[str, ...]:
        """Its words without quotes."""
        return tuple(part.text for part in self.parts)


def hidden(text: str) -> str:
    """What of a quoted text a shell acts on: nothing."""
    return _NOTHING * len(text)
